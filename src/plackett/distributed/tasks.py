"""Independent pieces of work as Ray tasks, sent one by one and answered as they finish.

:func:`serve_tasks` runs in the process that speaks with Ray; whoever wants the work done is on the
other end of the line (:mod:`plackett.distributed.errands`).
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from plackett.base.errors import ClusterError
from plackett.distributed.cluster import Cluster
from plackett.distributed.desk import Desk
from plackett.distributed.line import Line
from plackett.distributed.sessions import here, machines, room

_WAIT = 0.1  # seconds between looks at the line and at the tasks
_LISTEN = 0.2  # seconds between looks at the desk
_SIGN = 1.0  # seconds between two signs of life


class Unwanted(Exception):  # noqa: N818 - not an error
    """Raised in a task whose answer nobody waits for any more."""


@dataclass
class Sign:
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


Work = Callable[[Any, Any, Sign], Any]
"""What a task does: with what all share, what is its own, and a way to show that it lives."""


@dataclass(frozen=True)
class Stop:
    """Sent over the line: the task with this number is not wanted any more."""

    number: int


def serve_tasks(line: Line, work: Work, common: Any, cluster: Cluster) -> None:
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
    line: Line
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

        self._desk = ray.remote(num_cpus=0, scheduling_strategy=here())(Desk).remote()
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
    sign = Sign(desk, number, name, seconds)
    try:
        sign.begin()
        return "done", work(common, own, sign)
    except Unwanted:
        return "unwanted", None
    except Exception as error:
        return "failed", (type(error).__name__, str(error), traceback.format_exc())
