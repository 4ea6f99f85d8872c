"""Independent pieces of work as Ray tasks, sent one by one and answered as they finish.

:func:`serve_tasks` runs in the process that speaks with Ray; whoever wants the work done is on the
other end of the line (:mod:`plackett.distributed.task_pool`).

Where tasks leave messages and signs of life, and learn whether they are still wanted.

Pieces of work that a cluster does one by one, seen from the process that wants them done.

One function over many items, such as shards of a data set, with Ray Data.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from plackett.base.errors import ClusterError
from plackett.distributed.cluster import Cluster
from plackett.distributed.driver import DriverProcess, Pipe, rebuild_error
from plackett.distributed.session import here, machines, room

if TYPE_CHECKING:
    from typing_extensions import Self


class TaskMonitor:
    """The actor, one for all tasks of a piece of work; its methods are called through Ray."""

    def __init__(self) -> None:
        self._messages: list[tuple[int, Any]] = []
        self._alive: dict[int, tuple[str, float]] = {}
        self._unwanted: set[int] = set()

    async def sign(self, number: int, name: str) -> bool:
        """A sign of life of a task; whether its answer is still wanted."""
        self._alive[number] = (name, time.monotonic())
        return number not in self._unwanted

    async def tell(self, number: int, name: str, message: Any) -> bool:
        """A message of a task, which is a sign of life as well."""
        self._messages.append((number, message))
        return await self.sign(number, name)

    async def stop(self, number: int) -> None:
        """Let a task know, the next time it is heard of, that nobody wants its answer."""
        self._unwanted.add(number)

    async def take(self) -> tuple[list[tuple[int, Any]], dict[int, tuple[str, float]]]:
        """All messages since the last call; of each task its worker and the seconds of silence."""
        taken, self._messages = self._messages, []
        now = time.monotonic()
        return taken, {number: (name, now - when) for number, (name, when) in self._alive.items()}


_WAIT = 0.1  # seconds between looks at the line and at the tasks
_LISTEN = 0.2  # seconds between looks at the desk
_SIGN = 1.0  # seconds between two signs of life


class Unwanted(Exception):  # noqa: N818 - not an error
    """Raised in a task whose answer nobody waits for any more."""


@dataclass
class TaskContext:
    """How a task speaks with those who wait for it; to be called now and then by work that lives.

    It raises :class:`Unwanted` once the task has been stopped; work lets that pass through.
    """

    desk: Any
    number: int
    name: str
    """Of the worker, for people."""
    seconds: float
    """That a message may take."""
    _last: float = 0.0
    _asked: Any = None

    def __call__(self, *_: Any) -> None:
        """Show that the task lives."""
        import ray

        now = time.monotonic()
        if now - self._last < _SIGN:
            return
        self._last = now
        # The answer to the sign before this one: work does not wait for it.
        if self._asked is not None and ray.wait([self._asked], timeout=0)[0]:
            self._go_on(self._asked)
        self._asked = self.desk.sign.remote(self.number, self.name)

    def tell(self, message: Any) -> None:
        """Leave a message, and wait until it is there: it must come before the task's answer."""
        self._go_on(self.desk.tell.remote(self.number, self.name, message))

    def begin(self) -> None:
        """The first sign of life, and a look whether the task is wanted at all."""
        self._go_on(self.desk.sign.remote(self.number, self.name))

    def _go_on(self, asked: Any) -> None:
        import ray

        if not ray.get(asked, timeout=self.seconds):
            raise Unwanted


Work = Callable[[Any, Any, TaskContext], Any]
"""What a task does: with what all share, what is its own, and a way to show that it lives."""


@dataclass(frozen=True)
class Stop:
    """Sent over the line: the task with this number is not wanted any more."""

    number: int


def serve_tasks(line: Pipe, work: Work, common: Any, cluster: Cluster) -> None:
    """Run what comes over the line.

    ``(number, own)`` starts a task and :class:`Stop` stops it. What goes back: ``("told", (number,
    message))``, ``("answer", (number, (verdict, result)))`` after all messages of that task, and
    ``("alive", None)`` now and then.
    """
    import ray

    try:
        serving = _Serving(line, work, ray.put(common), cluster)
        line.send(("room", room(cluster)))
        while not line.closed.is_set():
            try:
                serving.follow(line.receive(_WAIT))
            except TimeoutError:
                pass
            except EOFError:
                return
            serving.collect()
    except ray.exceptions.RayError as error:
        said = str(error).strip().splitlines()[0]
        raise ClusterError(f"{cluster.place} does not work any more: {said}") from error


@dataclass
class _Serving:
    line: Pipe
    work: Work
    common: Any
    cluster: Cluster
    running: dict[Any, int] = field(default_factory=dict)
    """Number of each task."""
    heard: float = 0.0
    """When the desk was looked at last."""
    told: float = 0.0
    """When the other side was told that this one is alive."""
    idle: float = 0.0
    """Since when there is work and nobody at it; 0: that is not so."""

    def __post_init__(self) -> None:
        import ray

        self._desk = ray.remote(num_cpus=0, scheduling_strategy=here())(TaskMonitor).remote()
        self._task = ray.remote(num_cpus=self.cluster.threads, max_retries=self.cluster.retries)(
            _run
        )
        limit = self.cluster.start_seconds
        try:
            ray.get(self._desk.take.remote(), timeout=limit)  # a process has to be started for it
        except ray.exceptions.GetTimeoutError as error:
            raise ClusterError(
                f"{self.cluster.place} started no process within {limit:g} s (start_seconds): "
                f"{machines()}."
            ) from error

    def follow(self, message: tuple[int, Any] | Stop) -> None:
        """Start or stop a task."""
        if isinstance(message, Stop):
            self._desk.stop.remote(message.number)
            return
        number, own = message
        seconds = self.cluster.answer_seconds
        task = self._task.remote(self.work, self.common, own, number, self._desk, seconds)
        self.running[task] = number

    def collect(self) -> None:
        """Send what tasks have said and the answers of those that are done; end those that hang."""
        import ray

        done = ray.wait(list(self.running), timeout=_WAIT)[0] if self.running else []
        now = time.monotonic()
        if done or now - self.heard > _LISTEN:
            self.heard = now
            self._listen()
        for task in done:
            number = self.running.pop(task, None)
            if number is not None:  # else it was ended for its silence
                self.line.send(("answer", (number, _answer(task))))

    def _listen(self) -> None:
        import ray

        messages, signs = ray.get(self._desk.take.remote(), timeout=self.cluster.answer_seconds)
        for message in messages:
            self.line.send(("told", message))
        if self.heard - self.told > _SIGN:
            self.told = self.heard
            self.line.send(("alive", None))
        self._end_silent(signs)
        self._check_room(signs)

    def _end_silent(self, signs: dict[int, tuple[str, float]]) -> None:
        import ray

        limit = self.cluster.step_seconds
        for task, number in list(self.running.items()):
            where, silence = signs.get(number, ("", 0.0))
            if silence > limit:
                del self.running[task]
                ray.cancel(task, force=True)
                text = f"{where} finished no step within {limit:g} s (step_seconds)"
                self.line.send(("answer", (number, ("failed", ("ClusterError", text, text)))))

    def _check_room(self, signs: dict[int, tuple[str, float]]) -> None:
        """Give up if there are tasks and, for too long, no worker to begin with any of them."""
        if not self.running or any(number in signs for number in self.running.values()):
            self.idle = 0.0
            return
        self.idle = self.idle or self.heard
        limit = self.cluster.start_seconds
        if self.heard - self.idle > limit:
            threads = self.cluster.threads
            raise ClusterError(
                f"no worker of {threads} core{'s' * (threads > 1)} could be started within "
                f"{limit:g} s (start_seconds): {machines()}. Ask for fewer threads, wait for the "
                "cluster to be free, or raise start_seconds if it takes long to send the data."
            )


def _answer(task: Any) -> Any:
    import ray

    try:
        return ray.get(task)
    except ray.exceptions.RayError as error:
        said = str(error).strip().splitlines()[0]
        text = f"its worker died again and again: {said}"
        return "failed", ("ClusterError", text, text)


def _run(work: Work, common: Any, own: Any, number: int, desk: Any, seconds: float) -> Any:
    """What a task runs; an error is an answer too."""
    import ray

    name = f"process {os.getpid()} on {ray.util.get_node_ip_address()}"
    sign = TaskContext(desk, number, name, seconds)
    try:
        sign.begin()
        return "done", work(common, own, sign)
    except Unwanted:
        return "unwanted", None
    except Exception as error:
        return "failed", (type(error).__name__, str(error), traceback.format_exc())


class TaskEvent(NamedTuple):
    """What was heard of a piece of work."""

    number: int
    kind: Literal["told", "done", "failed", "unwanted"]
    """A message on the way; or its end: with a result, with an error, or since it was stopped."""
    content: Any


class TaskPool:
    """Sends pieces of work to a cluster; to be used in a ``with`` block, which ends them all.

    Each is tried again where its worker dies, at most ``cluster.retries`` times: it then says what
    it had said before once more.

    Parameters
    ----------
    cluster
        Where.
    work
        A function of a module: what is done.
    common
        What all pieces share; it goes to each machine once.
    """

    def __init__(self, cluster: Cluster, work: Work, common: Any) -> None:
        self._cluster = cluster
        self._conductor = DriverProcess(cluster, serve_tasks, work, common, cluster)
        try:
            deadline = time.monotonic() + cluster.start_limit
            self.slots: int = self._conductor.receive(deadline, self._late)[1]
            """Pieces that are done at the same time."""
        except BaseException:
            self._conductor.close()
            raise

    def send(self, number: int, own: Any) -> None:
        """Have a piece of work done; the number is for :class:`News` of it, and for once only."""
        self._conductor.send((number, own))

    def stop(self, number: int) -> None:
        """Say that an answer is not wanted any more; the work ends at its next sign of life."""
        self._conductor.send(Stop(number))

    def receive(self) -> TaskEvent | None:
        """The next news; None, about once a second, where there are none. Raises if all is over."""
        kind, content = self._conductor.receive(time.monotonic() + self._cluster.limit, self._late)
        if kind == "told":
            return TaskEvent(content[0], "told", content[1])
        if kind != "answer":
            return None
        number, (verdict, result) = content
        return TaskEvent(number, verdict, rebuild_error(*result) if verdict == "failed" else result)

    def _late(self) -> str:
        return f"{self._cluster.place} does not answer within {self._cluster.limit:g} s."

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._conductor.close()


Item = dict[str, Any]
_ROW = "answer"


def map_on_cluster(
    work: Callable[[Item], Item],
    items: Sequence[Item],
    *,
    cluster: Cluster,
    progress: Callable[[int, int], None],
) -> list[Item]:
    """The answers of ``work`` to all items, in no particular order.

    Parameters
    ----------
    work
        A function of a module. It may be called again for an item whose worker died.
    items
        What it is called with.
    cluster
        Where.
    progress
        Called with the number of items done, and of all.
    """
    found: list[Item] = []

    def late() -> str:
        return (
            f"{cluster.place}: none of the {len(items) - len(found)} items left was finished "
            f"within {cluster.limit:g} s (step_seconds); the workers were ended."
        )

    with DriverProcess(cluster, run_map, work, list(items), cluster) as conductor:
        while len(found) < len(items):
            kind, content = conductor.receive(time.monotonic() + cluster.limit, late)
            if kind == "answer":
                found.append(content)
                progress(len(found), len(items))
    return found


def run_map(line: Pipe, work: Callable[[Item], Item], items: list[Item], cluster: Cluster) -> None:
    """Give the items to Ray Data, and pass on the answers as they come."""
    import ray

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.execution_options.preserve_order = False
    data = ray.data.from_items(items, override_num_blocks=len(items))
    answers = data.map(
        _answered, fn_args=(work,), num_cpus=cluster.threads, concurrency=room(cluster)
    )
    for row in answers.iter_rows():
        kind, content = row[_ROW]
        if kind == "failed":
            line.send(("failed", content))
            return
        line.send(("answer", content))


def _answered(item: Item, work: Callable[[Item], Item]) -> dict[str, Any]:
    """An answer, or what went wrong: Ray Data would wrap an error in many lines of its own."""
    import traceback

    try:
        return {_ROW: ("answer", work(item))}
    except Exception as error:
        return {_ROW: ("failed", (type(error).__name__, str(error), traceback.format_exc()))}
