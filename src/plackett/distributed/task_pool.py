"""Independent tasks on a cluster, with retries and heartbeats.

A :class:`TaskPool` belongs to the user's process. It starts a driver process in which :func:`serve_tasks` submits Ray
tasks and sends their results back as they finish. A running task reports to the :class:`TaskMonitor`, a Ray actor,
through its :class:`TaskContext`: heartbeats and messages go out, and the task learns whether it has been canceled.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from plackett.base.errors import ClusterError
from plackett.distributed import driver_process
from plackett.distributed.cluster import Cluster
from plackett.distributed.coordinator import Mailbox

_WAIT_SECONDS = 0.1  # for messages of the pipe, and for tasks to finish
_MONITOR_SECONDS = 0.2  # between reads of the monitor
_HEARTBEAT_SECONDS = 1.0


class TaskEvent(NamedTuple):
    """Something that happened to a task."""

    number: int
    kind: Literal["message", "done", "failed", "canceled"]
    content: Any
    """The message, the result, the exception, or None."""


class TaskPool(driver_process.Closing):
    """Runs tasks on a cluster. Used in a ``with`` block; leaving it stops all tasks.

    A task calls ``function``, which is at module level, with ``common``, its item and a :class:`TaskContext`;
    ``common`` goes to each machine once. A task whose worker dies is run again, at most ``cluster.retries`` times; it
    then sends its messages a second time.
    """

    def __init__(self, cluster: Cluster, function: TaskFunction, common: Any) -> None:
        self._cluster = cluster
        self._timeout_message = f"{cluster.location} does not answer within {cluster.limit:g} s."
        self._driver = driver_process.DriverProcess(cluster, serve_tasks, function, common, cluster)
        try:
            deadline = time.monotonic() + cluster.start_limit
            self.slots: int = self._driver.receive(deadline, self._timeout_message)[1]
            """Number of tasks that run at the same time."""
        except BaseException:
            self.close()
            raise

    def submit(self, number: int, item: Any) -> None:
        """Start a task; its number, which must be new, appears in its events."""
        self._driver.send((number, item))

    def cancel(self, number: int) -> None:
        """Cancel a task; it ends at its next heartbeat."""
        self._driver.send(number)

    def next_event(self) -> TaskEvent | None:
        """Wait for the next event; None, about once a second, if there is none."""
        deadline = time.monotonic() + self._cluster.limit
        kind, content = self._driver.receive(deadline, self._timeout_message)
        if kind != "event":
            return None
        number, status, result = content
        return TaskEvent(number, status, driver_process.rebuild_error(result) if status == "failed" else result)

    def map(self, items: Mapping[int, Any], *, on_poll: Callable[[], None] = lambda: None) -> Iterator[TaskEvent]:
        """Run a task for each item; yields how each of them ended, as they finish.

        ``on_poll`` is called about once a second while tasks are running.
        """
        waiting = list(items.items())
        running = 0
        while waiting or running:
            while waiting and running < self.slots:
                self.submit(*waiting.pop(0))
                running += 1
            on_poll()
            event = self.next_event()
            if event is not None and event.kind != "message":
                running -= 1
                yield event

    def close(self) -> None:
        """Stop all tasks."""
        self._driver.close()


def map_on_cluster(
    function: Callable[[Any], Any], items: Sequence[Any], *, cluster: Cluster, progress: Callable[[int, int], None]
) -> list[Any]:
    """Call a module-level function for each item; returns the results in no particular order.

    It is called again for an item whose worker died.
    """
    results: list[Any] = []
    with TaskPool(cluster, _call, function) as pool:
        for event in pool.map(dict(enumerate(items))):
            if event.kind == "failed":
                raise event.content
            results.append(event.content)
            progress(len(results), len(items))
    return results


def _call(function: Callable[[Any], Any], item: Any, _: TaskContext) -> Any:
    return function(item)


class TaskCanceled(Exception):  # noqa: N818 - not an error
    """Raised in a task that has been canceled."""


@dataclass
class TaskContext:
    """The connection of a running task to its pool.

    A task should call it from time to time as a heartbeat. Once the task has been canceled, the call raises
    :class:`TaskCanceled`, which the task should not catch. It can be used as a progress callback.
    """

    monitor: Any
    number: int
    worker: str
    """Process and machine, for messages."""
    timeout_seconds: float
    """How long a message may take."""
    _last: float = 0.0
    _request: Any = None

    def __call__(self, *_: Any) -> None:
        """Send a heartbeat, unless the last one was just sent."""
        import ray

        now = time.monotonic()
        if now - self._last < _HEARTBEAT_SECONDS:
            return
        self._last = now
        # Read the reply to the previous heartbeat, so that the task does not wait for this one.
        if self._request is not None and ray.wait([self._request], timeout=0)[0]:
            self._check(self._request)
        self._request = self.monitor.report.remote(self.number, self.worker)

    def send(self, *messages: Any) -> None:
        """Send messages and wait for the reply, so that they precede the task's result."""
        self._check(self.monitor.report.remote(self.number, self.worker, *messages))

    def _check(self, request: Any) -> None:
        import ray

        if not ray.get(request, timeout=self.timeout_seconds):
            raise TaskCanceled


TaskFunction = Callable[[Any, Any, TaskContext], Any]


class TaskMonitor(Mailbox):
    """The actor to which all tasks of a pool report."""

    def __init__(self) -> None:
        super().__init__()
        self._canceled: set[int] = set()

    async def report(self, number: int, worker: str, *messages: Any) -> bool:
        """Note that a task is alive, and its messages; returns whether it should continue."""
        await self.heartbeat(number, worker)
        self._messages += [(number, message) for message in messages]
        return number not in self._canceled

    async def cancel(self, number: int) -> None:
        """Make the task's next heartbeat tell it to stop."""
        self._canceled.add(number)


def serve_tasks(pipe: driver_process.Pipe, function: TaskFunction, common: Any, cluster: Cluster) -> None:
    """Run the tasks that come over the pipe; runs in the driver process.

    ``(number, item)`` starts a task and ``number`` cancels it. The replies are ``("event", (number, kind, content))``,
    the messages of a task before its result, and ``("alive", None)`` now and then.
    """
    import ray

    try:
        server = _TaskServer(pipe, function, ray.put(common), cluster)
        pipe.send(("slots", driver_process.count_workers(cluster)))
        while not pipe.closed.is_set():
            try:
                server.handle(pipe.receive(_WAIT_SECONDS))
            except TimeoutError:
                pass
            except EOFError:
                return
            server.collect()
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[0]
        raise ClusterError(f"{cluster.location} stopped working: {reason}") from error


@dataclass
class _TaskServer:
    pipe: driver_process.Pipe
    function: TaskFunction
    common: Any
    cluster: Cluster
    running: dict[Any, int] = field(default_factory=dict)
    """The number of each Ray task."""
    last_read: float = 0.0
    """When the monitor was last read."""
    last_alive: float = 0.0
    """When the user's process was last told that the driver is alive."""
    waiting_since: float = 0.0
    """When tasks began to wait with no worker running any; 0 if a worker runs one, or none waits."""

    def __post_init__(self) -> None:
        import ray

        monitor = ray.remote(num_cpus=0, scheduling_strategy=driver_process.on_this_node())(TaskMonitor)
        self._monitor = monitor.remote()
        self._task = ray.remote(num_cpus=self.cluster.threads, max_retries=self.cluster.retries)(_run_task)
        limit = self.cluster.start_seconds
        try:
            ray.get(self._monitor.collect.remote(), timeout=limit)  # waits for its process
        except ray.exceptions.GetTimeoutError as error:
            raise ClusterError(
                f"{self.cluster.location} started no process within {limit:g} s (start_seconds): "
                f"{driver_process.describe_resources()}."
            ) from error

    def handle(self, message: tuple[int, Any] | int) -> None:
        """Start or cancel a task."""
        if isinstance(message, int):
            self._monitor.cancel.remote(message)
            return
        number, item = message
        task = self._task.remote(self.function, self.common, item, number, self._monitor, self.cluster.answer_seconds)
        self.running[task] = number

    def collect(self) -> None:
        """Send messages and results of tasks; stop tasks that hang."""
        import ray

        done = ray.wait(list(self.running), timeout=_WAIT_SECONDS)[0] if self.running else []
        now = time.monotonic()
        if done or now - self.last_read > _MONITOR_SECONDS:
            self.last_read = now
            self._read_monitor()
        for task in done:
            number = self.running.pop(task, None)
            if number is not None:  # otherwise it was stopped because it hung
                self.pipe.send(("event", (number, *_get_result(task))))

    def _read_monitor(self) -> None:
        import ray

        request = self._monitor.collect.remote()
        messages, heartbeats = ray.get(request, timeout=self.cluster.answer_seconds)
        for number, message in messages:
            self.pipe.send(("event", (number, "message", message)))
        if self.last_read - self.last_alive > _HEARTBEAT_SECONDS:
            self.last_alive = self.last_read
            self.pipe.send(("alive", None))
        self._stop_silent(heartbeats)
        self._check_workers(heartbeats)

    def _stop_silent(self, heartbeats: dict[int, tuple[str, float]]) -> None:
        import ray

        limit = self.cluster.step_seconds
        for task, number in list(self.running.items()):
            worker, silence = heartbeats.get(number, ("", 0.0))
            if silence > limit:
                del self.running[task]
                ray.cancel(task, force=True)
                text = f"{worker} finished no step within {limit:g} s (step_seconds)"
                self.pipe.send(("event", (number, *_cluster_failure(text))))

    def _check_workers(self, heartbeats: dict[int, tuple[str, float]]) -> None:
        """Give up if no worker begins any of the tasks within the time limit."""
        if not self.running or any(number in heartbeats for number in self.running.values()):
            self.waiting_since = 0.0
            return
        self.waiting_since = self.waiting_since or self.last_read
        limit = self.cluster.start_seconds
        if self.last_read - self.waiting_since > limit:
            threads = self.cluster.threads
            raise ClusterError(
                f"no worker with {threads} core{'s' * (threads > 1)} could be started within "
                f"{limit:g} s (start_seconds): {driver_process.describe_resources()}. Ask for fewer "
                "threads, wait until the cluster is free, or raise start_seconds if the data take "
                "long to send."
            )


def _get_result(task: Any) -> tuple[str, Any]:
    import ray

    try:
        result: tuple[str, Any] = ray.get(task)
        return result
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[0]
        return _cluster_failure(f"its worker died repeatedly: {reason}")


def _cluster_failure(text: str) -> tuple[str, Any]:
    return "failed", ("ClusterError", text, text)


def _run_task(
    function: TaskFunction, common: Any, item: Any, number: int, monitor: Any, seconds: float
) -> tuple[str, Any]:
    """Run a task in a Ray worker; an exception is a result, too."""
    import ray

    worker = f"process {os.getpid()} on {ray.util.get_node_ip_address()}"
    context = TaskContext(monitor, number, worker, seconds)
    try:
        context.send()  # raises if the task was canceled before it began
        return "done", function(common, item, context)
    except TaskCanceled:
        return "canceled", None
    except Exception as error:
        return "failed", driver_process.record_error(error)
