"""What accompanies one fit: what to choose by, where to keep its state, whom to tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from plackett.base.errors import UsageError
from plackett.distributed.cluster import Cluster
from plackett.distributed.peers import Peers
from plackett.metrics import Metric
from plackett.metrics import metric as as_metric
from plackett.models.checkpoint import Checkpoint

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, how many steps are done, and how many there are at most."""

Watch: TypeAlias = Callable[[int, int, float], None]
"""Called with the steps done, the steps there are at most, and the first metric on validation.

It may raise to end a fit that is not worth going on with; the exception leaves ``fit`` as it is.
"""

Selector: TypeAlias = str | Metric | Sequence[str | Metric]
"""One metric, or several that are compared in this order."""


@dataclass(frozen=True)
class Run:
    """One fit's companions."""

    metrics: tuple[Metric, ...]
    """To choose by; a later one counts where the earlier ones are equal."""
    checkpoint: Checkpoint | None
    """Where to keep the state and take it up again; None: nowhere."""
    progress: Progress
    watch: Watch
    """Told the metric on the validation lists, after each step that measures it."""
    cluster: Cluster | None = None
    """Where to fit; None: in this process."""
    peers: Peers | None = None
    """In a worker: the other workers of the same fit; None: it is fitted by one process."""

    @property
    def spellings(self) -> tuple[str, ...]:
        """The metrics as text."""
        return tuple(str(metric) for metric in self.metrics)


def as_metrics(given: Selector) -> tuple[Metric, ...]:
    """The metrics to choose by; a string may name several, separated by commas."""
    if isinstance(given, str):
        given = [name.strip() for name in given.split(",")]
    chosen = (given,) if isinstance(given, Metric) else tuple(as_metric(each) for each in given)
    if not chosen:
        raise UsageError('fit needs a metric to choose by, for example metric="ndcg@5".')
    return chosen


def silent(text: str, done: int, total: int) -> None:
    """Tell nobody."""


def unwatched(done: int, total: int, mean: float) -> None:
    """Nobody looks."""
