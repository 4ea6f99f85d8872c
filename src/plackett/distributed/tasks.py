"""Independent pieces of work as Ray tasks, sent one by one and answered as they finish."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from plackett.distributed.cluster import Cluster
from plackett.distributed.line import Line
from plackett.distributed.post import Post
from plackett.distributed.sessions import room

_WAIT = 0.1  # seconds between looks at the line and at the tasks
_SIGN = 1.0  # seconds between two signs of life
Sign = Callable[..., None]
"""Called with anything, now and then, by work that is alive."""
Work = Callable[[Any, Any, Sign], Any]
"""What a task does: with what all share, what is its own, and a way to show that it lives."""


def serve_tasks(line: Line, work: Work, common: Any, cluster: Cluster) -> None:
    """Run what comes over the line, ``(number, own)``; answers are ``(number, result)``."""
    import ray

    serving = _Serving(line, work, ray.put(common), cluster)
    line.send(("room", room(cluster)))
    while not line.closed.is_set():
        try:
            serving.start(*line.receive(_WAIT))
        except TimeoutError:
            pass
        except EOFError:
            return
        serving.collect()


@dataclass
class _Serving:
    line: Line
    work: Work
    common: Any
    cluster: Cluster
    running: dict[Any, int] = field(default_factory=dict)
    """Number of each task."""
    beat: float = 0.0

    def __post_init__(self) -> None:
        import ray

        self._post = ray.remote(num_cpus=0)(Post).remote(None)
        self._task = ray.remote(num_cpus=self.cluster.threads, max_retries=self.cluster.retries)(
            _run
        )

    def start(self, number: int, own: Any) -> None:
        """Start a task."""
        self.running[self._task.remote(self.work, self.common, own, number, self._post)] = number

    def collect(self) -> None:
        """Send the answers of tasks that are done, and end those that hang."""
        import ray

        if self.running:
            for task in ray.wait(list(self.running), timeout=_WAIT)[0]:
                self.line.send(("answer", (self.running.pop(task), _answer(task))))
        if time.monotonic() - self.beat > _SIGN:
            self.beat = time.monotonic()
            self.line.send(("alive", None))
            _, signs = ray.get(self._post.take.remote(), timeout=self.cluster.answer_seconds)
            self._end_silent(signs)

    def _end_silent(self, signs: dict[str, float]) -> None:
        import ray

        limit = self.cluster.step_seconds
        for task, number in list(self.running.items()):
            for name, age in signs.items():
                if name.startswith(f"{number} ") and age > limit:
                    del self.running[task]
                    ray.cancel(task, force=True)
                    where = name.partition(" ")[2]
                    text = f"{where} finished no step within {limit:g} s (step_seconds)"
                    self.line.send(("answer", (number, ("failed", ("ClusterError", text, text)))))


def _answer(task: Any) -> Any:
    import ray

    try:
        return ray.get(task)
    except ray.exceptions.RayError as error:
        said = str(error).strip().splitlines()[0]
        text = f"its worker died again and again: {said}"
        return "failed", ("ClusterError", text, text)


def _run(work: Work, common: Any, own: Any, number: int, post: Any) -> Any:
    """What a task runs; an error is an answer too."""
    import ray

    name = f"{number} process {os.getpid()} on {ray.util.get_node_ip_address()}"
    last = [0.0]

    def sign(*_: Any) -> None:
        if time.monotonic() - last[0] > _SIGN:
            last[0] = time.monotonic()
            post.sign.remote(number, name)

    sign()
    try:
        return "done", work(common, own, sign)
    except Exception as error:
        return "failed", (type(error).__name__, str(error), traceback.format_exc())
