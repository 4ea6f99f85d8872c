r"""What a fit needs besides the data: settings of the fit, callbacks and progress, selection of the best step.

:class:`Selection` finds the best candidate on the validation lists. With one metric the higher mean wins. With several
the comparison is lexicographic, as in Zhu & Klabjan (2020): candidate a beats b if a is higher at the first metric in
which they differ by more than :math:`10^{-6}`. With few lists, :func:`smooth` first averages over neighboring steps, so
that random fluctuation does not decide.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, DataWarning, UsageError
from plackett.base.ragged import Scores
from plackett.data import Dataset
from plackett.data.canonical import dense_rows
from plackett.distributed import Cluster, WorkerGroup
from plackett.metrics import Metric, MetricLike, evaluate, metrics as as_metrics, per_list
from plackett.models.checkpoint import Checkpoint
from plackett.objectives import CONDITIONAL, SVMMAP, Objective, Stochastic
from plackett.objectives.objective import BoundObjective

if TYPE_CHECKING:
    from plackett.models.ranker import Ranker


Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with a status text, the steps done, and the maximum number of steps."""

Curves = dict[str, dict[str, list[float]]]
"""Part of the data ("train", "validation") -> loss or metric -> its mean after each step."""


@dataclass(frozen=True)
class WholeData:
    """All lists of a cross-fit, of which each member gets some; members can share preparations of them."""

    data: Dataset
    lists: Mapping[str, NDArray[np.bool_]]
    """For each part of the member's data, a mask of its lists."""


class StopFit(Exception):  # noqa: N818 - a request, not an error
    """Raised by a callback to end a fit and keep the best model so far."""


@dataclass(frozen=True)
class FitStep:
    """A step of a fit, as callbacks see it."""

    step: int
    """Number of steps done: trees, rounds, epochs, or penalties of a linear model."""
    total: int
    """The maximum number of steps."""
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    """Part of the data ("train", "validation") -> metric -> its mean after this step."""


Callback: TypeAlias = Callable[[FitStep], Any]
"""Called after each step; True, or a raised StopFit, ends the fit."""


def latest(curves: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, dict[str, float]]:
    """The last value of each curve."""
    return {part: {name: values[-1] for name, values in by_name.items() if values} for part, by_name in curves.items()}


def check_callbacks(callbacks: Callback | Sequence[Callback]) -> tuple[Callback, ...]:
    """Return the callbacks as a tuple; raise UsageError for anything but functions of a FitStep."""
    functions = (callbacks,) if callable(callbacks) else tuple(callbacks)
    for function in functions:
        if not callable(function):
            raise UsageError(f"callbacks are functions of a FitStep, got {function!r}.")
        if type(function).__module__.startswith("lightgbm"):
            raise UsageError(
                "a callback of LightGBM goes to plackett.sklearn.Ranker; here early stopping is the "
                "parameter patience, curves are in curves_, and verbose=10 prints every tenth step."
            )
    return functions


def call_callbacks(callbacks: Sequence[Callback], step: FitStep) -> bool:
    """Call all callbacks; return whether one of them wants the fit to stop."""
    stop = False
    for callback in callbacks:
        try:
            stop |= callback(step) is True
        except StopFit:
            stop = True
    return stop


def no_progress(text: str, done: int, total: int) -> None:
    """No-op progress callback."""


@contextmanager
def show_progress(verbose: bool | int | None, progress: Progress | None) -> Iterator[Progress]:
    """The progress callback to use: the given one, or one that prints as ``verbose`` of :meth:`Ranker.fit` says."""
    if verbose is not None and (not isinstance(verbose, (bool, int)) or verbose < 0):
        raise UsageError(f"verbose must be True, False, None or a number of steps, got {verbose!r}.")
    if verbose is None:
        verbose = _in_notebook() or (hasattr(sys, "ps1") and sys.stderr.isatty())
    if progress is not None or not verbose:
        yield progress or no_progress
        return
    stream = sys.stdout if _in_notebook() else sys.stderr
    status: StatusLine | LogLines
    if verbose == 1 and _in_notebook():
        status = NotebookLine(stream)
    elif verbose == 1 and stream.isatty():
        status = StatusLine(stream)
    else:
        status = LogLines(stream, 0 if verbose == 1 else verbose)
    try:
        yield status
    finally:
        status.close()


def _in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class StatusLine:
    """One line that is overwritten after each step."""

    _SECONDS = 0.1  # between two redraws
    _BAR = 20

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0
        self._next = 0.0
        self._text = ""

    def __call__(self, text: str, done: int, total: int) -> None:
        filled = self._BAR * done // max(total, 1)
        bar = "█" * filled + "░" * (self._BAR - filled)
        self._text = f"{bar} {done}/{total} {text}"
        if time.monotonic() >= self._next:
            self._draw()
            self._next = time.monotonic() + self._SECONDS

    def close(self) -> None:
        """Draw the last step and end the line."""
        if self._text:
            self._draw()
            self._stream.write("\n")
            self._stream.flush()

    def _draw(self) -> None:
        self._stream.write("\r" + self._text.ljust(self._width))
        self._stream.flush()
        self._width = len(self._text)


class NotebookLine(StatusLine):
    """One output of a notebook cell that is replaced after each step, so that a saved notebook keeps only the last."""

    _handle: Any = None

    def close(self) -> None:
        """Show the last step."""
        if self._text:
            self._draw()

    def _draw(self) -> None:
        from IPython.display import display

        content = {"text/plain": self._text}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


class LogLines:
    """A line of text every ``every`` steps; 0: ten lines in total."""

    def __init__(self, stream: TextIO, every: int) -> None:
        self._stream = stream
        self._every = every
        self._line = ""

    def __call__(self, text: str, done: int, total: int) -> None:
        self._line = f"[{done}/{total}] {text}\n"
        if done % (self._every or max(total // 10, 1)) == 0:
            self.close()

    def close(self) -> None:
        """Print the latest step, unless it was printed already."""
        if self._line:
            self._stream.write(self._line)
            self._stream.flush()
        self._line = ""


_CURVES_FILE = "curves.json"
_MAX_CURVE_BYTES = 64 << 20


def write_learning_curves(curves: Curves, folder: Path) -> None:
    """Write learning curves into the folder of a model."""
    # The loss of an objective without a value is NaN, which JSON does not have.
    finite = {
        part: {name: values for name, values in by_name.items() if all(-1e308 < value < 1e308 for value in values)}
        for part, by_name in curves.items()
    }
    (folder / _CURVES_FILE).write_text(json.dumps(finite), encoding="utf-8")


def read_learning_curves(folder: Path) -> Curves:
    """Read learning curves from a folder whose files may be damaged; empty if there is no file."""
    path = folder / _CURVES_FILE
    if not path.is_file():
        return {}
    if path.stat().st_size > _MAX_CURVE_BYTES:
        raise DataError(f"is larger than {_MAX_CURVE_BYTES >> 20} MB", path=str(path))
    try:
        curves = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (ValueError, RecursionError) as error:
        raise DataError("is not JSON", path=str(path)) from error
    if not isinstance(curves, dict) or not all(_is_part(part) for part in curves.values()):
        raise DataError("must hold numbers by part and metric", path=str(path))
    return curves


def _is_part(part: Any) -> bool:
    return isinstance(part, dict) and all(
        isinstance(values, list) and all(isinstance(v, (int, float)) for v in values) for values in part.values()
    )


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

    def measure(self, scores: Scores, data: Dataset, curve: dict[str, list[float]]) -> Means:
        """The mean of each metric over the lists of all workers, which are added to the curve."""
        means = measure(scores, data, self.metrics, self.worker_group)
        for name, mean in zip(self.metric_names, means, strict=True):
            curve[name].append(mean)
        return means

    def should_stop(self, step: int, total: int, metrics: dict[str, dict[str, float]]) -> bool:
        """Tell the callbacks about a step; return whether one of them ends the fit."""
        return bool(self.callbacks) and call_callbacks(self.callbacks, FitStep(step, total, metrics))

    def report(self, begin: str, step: int, total: int, curves: Curves) -> bool:
        """Report a step by the first metric of its curves; return whether a callback ends the fit."""
        part, name = "validation" if "validation" in curves else "train", self.metric_names[0]
        mean = curves[part][name][-1]
        self.progress(f"{begin}{name} {mean:.4f}", step, total)
        if part == "validation":
            self.watch(step, total, mean)
        return self.should_stop(step, total, latest(curves))

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
    """Raise DataError for lists that no model can learn from; warn of labels so small that their gains are 0."""
    check_learnable(data)
    if not _features_differ(data):
        raise DataError("no feature differs between the documents of a list; there is nothing to learn from.")
    largest = float(data.labels.max())
    if largest < _SMALLEST_LABEL:
        warnings.warn(
            f"the largest label is {largest:.2g}, so small that its gain is 0 for most objectives "
            "and metrics, so the model may learn no order. Scale the labels up.",
            DataWarning,
            stacklevel=3,
        )


def _features_differ(data: Dataset) -> bool:
    """Whether two documents of a list have different features; usually the first rows decide."""
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
            f"{inner.name} treats labels above 0 as relevant, and the documents of each list are either all relevant "
            "or all irrelevant; shift the labels so that 0 means irrelevant."
        )
    raise DataError("no list has two levels of labels; there is nothing to learn from.")


def bind_objective(objective: Objective, data: Dataset) -> BoundObjective:
    """The objective for the lists of a dataset, with their weights."""
    return objective.bind(data.labels, data.offsets, data.keys, data.weights, document_weights=data.document_weights)


TOLERANCE = 1e-6

LEXICOGRAPHIC = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10")
"""The metrics of Zhu & Klabjan's rule."""

Means = tuple[float, ...]
"""The mean of each metric over lists."""


def measure(scores: Scores, data: Dataset, metrics: Sequence[Metric], worker_group: WorkerGroup | None = None) -> Means:
    """The mean of each metric over the lists of all workers; DataError if no list counts."""
    if worker_group is None:
        means = tuple(evaluate(scores, data, list(metrics)).values())
    else:
        means = worker_group.average(list(per_list(scores, data, list(metrics)).values()), data.weights)
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
    """The best candidate so far, and the number of candidates since then."""

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
