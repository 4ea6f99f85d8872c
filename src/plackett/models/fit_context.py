"""What a fit needs besides the data: metrics, checkpoint, progress, workers, the objective."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from plackett.base.errors import DataError, DataWarning, UsageError
from plackett.data.canonical import dense_rows
from plackett.data.dataset import Dataset
from plackett.distributed import Cluster, WorkerGroup
from plackett.metrics import Metric, MetricLike
from plackett.metrics import metrics as as_metrics
from plackett.models.checkpoint import Checkpoint
from plackett.models.progress import Callback, FitStep, tell
from plackett.models.progress import Progress as Progress
from plackett.models.progress import no_progress as no_progress
from plackett.objectives import CONDITIONAL, SVMMAP, Objective, Stochastic
from plackett.objectives.objective import BoundObjective

if TYPE_CHECKING:
    from plackett.models.ranker import Ranker


WatchFunction: TypeAlias = Callable[[int, int, float], None]
"""Called with the steps done, the maximum number of steps, and the first metric on validation.

It may raise an exception to end a fit early; ``fit`` lets the exception through.
"""


MetricSpec: TypeAlias = MetricLike | Sequence[MetricLike]
"""One metric, or several that are compared in this order."""


@dataclass(frozen=True)
class FitContext:
    """What a subclass needs for one fit besides the data."""

    metrics: tuple[Metric, ...]
    """The metrics to select by; a later one counts where the earlier ones are equal."""
    checkpoint: Checkpoint | None
    """Where to save the state and resume from; None: nowhere."""
    progress: Progress
    watch: WatchFunction
    """Called with the metric on the validation lists, after each step that measures it."""
    cluster: Cluster | None = None
    """Where to fit; None: in this process."""
    worker_group: WorkerGroup | None = None
    """In a worker: the workers of the same fit; None: one process fits alone."""
    callbacks: tuple[Callback, ...] = ()
    """Called after each step; they may end the fit."""
    init: Ranker | None = None
    """A fitted model of the same features to start from; None: start from nothing."""

    def should_stop(self, step: int, total: int, metrics: dict[str, dict[str, float]]) -> bool:
        """Tell the callbacks about a step; return whether one of them ends the fit."""
        return bool(self.callbacks) and tell(self.callbacks, FitStep(step, total, metrics))

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The metrics as text."""
        return tuple(str(metric) for metric in self.metrics)


def parse_metrics(spec: MetricSpec) -> tuple[Metric, ...]:
    """The metrics to select by; a string may name several, separated by commas."""
    metrics = as_metrics(spec)
    if not metrics:
        raise UsageError('fit needs a metric to select by, for example metric="ndcg@10".')
    return metrics


def no_watch(done: int, total: int, mean: float) -> None:
    """No-op watch function."""


_PROBED_ROWS = 1 << 12
_SMALLEST_LABEL = float(np.finfo(np.float32).tiny)


def check_training_data(data: Dataset) -> None:
    """Refuse lists that no model can learn from, with the same words for every kind of model.

    Warns of labels so small that gains and differences of them vanish.
    """
    check_learnable(data)
    if not _features_differ(data):
        raise DataError(
            "no feature differs between the documents of a list; there is nothing to learn from."
        )
    largest = float(data.labels.max())
    if largest < _SMALLEST_LABEL:
        warnings.warn(
            f"the largest label is {largest:.2g}, so small that its gain is 0 for most objectives "
            "and metrics: the model may learn no order. Multiply the labels.",
            DataWarning,
            stacklevel=3,
        )


def _features_differ(data: Dataset) -> bool:
    """Whether two documents of a list have different features; mostly seen in the first rows."""
    rows, lists = data.order.rows, data.list_of_row
    # Large features stay on disk: each block overlaps the next by a row.
    step = max(2, min(_PROBED_ROWS, (1 << 24) // max(1, data.n_features)))
    for start in range(0, len(rows), step - 1):
        block = rows[start : start + step]
        same_list = lists[block[1:]] == lists[block[:-1]]
        if not same_list.any():
            continue
        values = dense_rows(data.features, block)
        equal = (values[1:] == values[:-1]) | (np.isnan(values[1:]) & np.isnan(values[:-1]))
        if np.any(same_list & ~equal.all(axis=1)):
            return True
    return False


def check_learnable(data: Dataset, objective: Objective | None = None) -> None:
    """Raise DataError if every list has documents of one label level only."""
    inner = objective.objective if isinstance(objective, Stochastic) else objective
    binary = isinstance(inner, (*CONDITIONAL, SVMMAP))
    levels = (data.labels > 0).astype(np.float32) if binary else data.labels
    if np.any(data.reduce_lists(np.maximum, levels) > data.reduce_lists(np.minimum, levels)):
        return
    if inner is not None and binary and np.any(data.labels > 0):
        raise DataError(
            f"{inner.name} takes labels above 0 as relevant, and every list here is all relevant "
            "or all not; subtract from the labels so that 0 means not relevant."
        )
    raise DataError("no list has two levels of labels; there is nothing to learn from.")


def bind_objective(objective: Objective, data: Dataset) -> BoundObjective:
    """The objective for the lists of a dataset, with their weights."""
    return objective.bind(
        data.labels, data.offsets, data.keys, data.weights, document_weights=data.document_weights
    )
