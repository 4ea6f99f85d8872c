r"""Selection of the best candidate on the validation lists, for early stopping.

With one metric the higher mean wins. With several the comparison is lexicographic, as in Zhu &
Klabjan (2020): candidate a beats b if a is higher at the first metric in which they differ by more
than :math:`10^{-6}`.

On few lists a metric jumps from one candidate to the next. :func:`smooth` averages over neighboring
steps, so that a lucky jump does not win.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plackett.base.errors import DataError
from plackett.base.ragged import Scores
from plackett.data.dataset import Dataset
from plackett.distributed import WorkerGroup
from plackett.metrics import Metric, evaluate, per_list

TOLERANCE = 1e-6

LEXICOGRAPHIC = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10")
"""The metrics of Zhu & Klabjan's rule."""

Means = tuple[float, ...]
"""The mean of each metric over lists."""


def measure(
    scores: Scores,
    data: Dataset,
    metrics: Sequence[Metric],
    worker_group: WorkerGroup | None = None,
) -> Means:
    """The mean of each metric over the lists of all workers; DataError if no list counts."""
    if worker_group is None:
        means = tuple(evaluate(scores, data, list(metrics)).values())
    else:
        means = worker_group.average(
            list(per_list(scores, data, list(metrics)).values()), data.weights
        )
    for metric, mean in zip(metrics, means, strict=True):
        if math.isnan(mean):
            raise DataError(f"no list counts for {metric}: none has a relevant document.")
    return means


def is_better(new: Sequence[float], old: Sequence[float]) -> bool:
    """Whether the new candidate beats the old one."""
    if len(new) == 1:
        return new[0] > old[0]
    for a, b in zip(new, old, strict=True):
        if abs(a - b) > TOLERANCE:
            return a > b
    return False


@dataclass
class Selection:
    """The best candidate so far, and how long ago it came."""

    best: Means | None = None
    best_step: int = -1
    steps: int = 0
    """Candidates seen."""

    def offer(self, means: Means) -> bool:
        """Compare the next candidate; True if it is the best so far."""
        wins = self.best is None or is_better(means, self.best)
        if wins:
            self.best, self.best_step = means, self.steps
        self.steps += 1
        return wins

    @property
    def steps_since_best(self) -> int:
        """Candidates since the best one."""
        return self.steps - 1 - self.best_step


def smooth(curves: Sequence[Sequence[float]], step: int, width: int) -> Means:
    """The mean of each curve over the ``width`` steps around ``step`` (fewer at the ends)."""
    half = width // 2
    low, high = max(step - half, 0), step + half + 1
    return tuple(float(np.mean(curve[low:high])) for curve in curves)
