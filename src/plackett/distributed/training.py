"""One piece of training by several workers at once, under Ray Train.

The function runs in every worker with its own lists. Ray Train starts the workers, replaces all of
them when one dies, and gives up after so many times; a new group goes on from the latest state that
the first worker had sent. Here the clock is watched: see :class:`plackett.distributed.Cluster`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from plackett.distributed.cluster import Cluster
from plackett.distributed.conductor import Conductor
from plackett.distributed.group import run_group
from plackett.distributed.order import Backend, Order, Parts, Work
from plackett.distributed.sharding import place_of
from plackett.distributed.states import State


def train_together(
    work: Work,
    payload: Any,
    parts: Parts,
    *,
    cluster: Cluster,
    backend: Backend,
    state: State | None,
    keep: Callable[[State], None],
    progress: Callable[[str, int, int], None],
    watch: Callable[[int, int, float], None] | None,
) -> Any:
    """Have ``work`` done by the workers of a cluster; what the first of them returns.

    Parameters
    ----------
    work, payload, parts
        A function of a module, what it is given, and the data that are shared out.
    cluster
        Where.
    backend
        What the workers speak to each other with.
    state
        To go on from.
    keep
        Called with each new state.
    progress
        Called with a text, steps done and steps in all.
    watch
        Called with steps done, steps in all and the metric; what it raises ends the work.
    """
    places = {name: place_of(data) or data for name, data in parts.items()}
    order = Order(work, payload, places, backend, state, cluster)
    with Conductor(cluster, run_group, order) as conductor:
        clock = _Clock(cluster)
        while True:
            kind, content = conductor.receive(clock.deadline, clock.late)
            if kind == "done":
                conductor.finish(cluster.answer_seconds)
                return content
            clock.hear(kind, content)
            if kind == "state":
                keep(content)
            elif kind == "progress":
                progress(*content)
            elif kind == "watch" and watch is not None:
                watch(*content)
            elif kind == "workers":
                progress(f"training on {content}", 0, 0)


@dataclass
class _Clock:
    """When to give up, and what to say then."""

    cluster: Cluster
    deadline: float = 0.0
    doing: str = "the workers to start"
    seconds: float = 0.0
    silent: str = ""

    def __post_init__(self) -> None:
        # Ray Train's own limit for starting workers comes first and says more.
        self._expect("the workers to start", self.cluster.start_limit)

    def hear(self, kind: str, content: Any) -> None:
        """A message came."""
        if kind == "signs":
            limit = self.cluster.answer_seconds
            silent = [f"{name} for {age:.0f} s" for name, age in content.items() if age > limit]
            self.silent = f" (silent: {', '.join(silent)})" if silent else ""
        elif kind == "progress":
            self._expect(f"the next step after {content[1]} {content[0]}", self.cluster.limit)
        else:
            self._expect("the next step", self.cluster.limit)

    def late(self) -> str:
        """What to say when time is up."""
        return (
            f"{self.cluster.place}: waited {self.seconds:g} s in vain for {self.doing}"
            f"{self.silent}; the workers were ended. The last state is in the checkpoint, if there "
            "is one: start the same fit again to go on, or raise step_seconds if a step takes that "
            "long."
        )

    def _expect(self, doing: str, seconds: float) -> None:
        self.doing, self.seconds = doing, seconds
        self.deadline = time.monotonic() + seconds
