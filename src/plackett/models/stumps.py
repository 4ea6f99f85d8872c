r"""RankBoost: a sum of weighted thresholds on single features (Freund et al. 2003).

.. math:: s(x) = \sum_t \alpha_t\, [x_{j_t} > \theta_t]

Each round adds the threshold that best corrects the pairs that are wrong so far (the largest :math:`|r|`), with weight
:math:`\alpha = \tfrac12 \ln\frac{1+r}{1-r}`. That minimizes the exponential loss over pairs,
:math:`\sum e^{-(s_i - s_j)}`, which falls by at least the factor :math:`\sqrt{1 - r^2}` per round.

With scores s so far, the weight of a pair with labels :math:`y_i > y_j` is proportional to :math:`e^{-(s_i - s_j)}`,
and the worth of a weak learner h is

.. math:: r = \sum_{y_i > y_j} D_{ij} (h_i - h_j) = \sum_d \pi_d h_d, \qquad
    \pi_d \propto e^{-s_d} \sum_{y_j < y_d} e^{s_j} - e^{s_d} \sum_{y_i > y_d} e^{-s_i}.

Documents are sorted by label once; then the potential :math:`\pi` of a list costs O(n) per round, and pairs are never
enumerated. The weight of a document multiplies the pairs in which it is the better one.

The code of a document is the number of thresholds below its value, so it is above the k-th threshold (from 0) if and
only if its code is greater than k. A missing value is above no threshold.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numba import prange
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.errors import DataError, UsageError
from plackett.base.kernels import compiled, parallel
from plackett.base.ragged import Features, Labels, Offsets, Scores, list_of_document
from plackett.base.threads import kernel_threads
from plackett.data import Dataset
from plackett.data.canonical import dense_columns
from plackett.models.checkpoint import read_state, save_state
from plackett.models.fit_context import Curves, FitContext, Selection, read_learning_curves, write_learning_curves
from plackett.models.insight import Method
from plackett.models.parameters import accept_aliases
from plackett.models.ranker import Ranker

_STATE_FILE = "stumps.json"
_PERFECT = 1.0 - 1e-9  # a stump that orders every pair correctly would get an infinite weight
_WORTHLESS = 1e-12

Stump = tuple[int, int, float]
"""Feature, index of the threshold within the feature, weight."""


@dataclass
class StumpBoosting:
    """One fit: the lists, coded by thresholds, and its progress."""

    ranker: StumpRanker
    parts: dict[str, Dataset]
    context: FitContext
    stumps: list[Stump] = field(default_factory=list)
    selection: Selection = field(default_factory=Selection)

    def __post_init__(self) -> None:
        train = self.parts["train"]
        self.thresholds = select_thresholds(train.features, self.ranker.thresholds)
        self._counts = np.array([len(values) for values in self.thresholds])
        self._codes = {part: encode_features(data.features, self.thresholds) for part, data in self.parts.items()}
        init = self.context.init
        self.scores = {
            part: np.zeros(data.n_docs) if init is None else init._predict(data) for part, data in self.parts.items()
        }
        self.stopped = False
        self._order = label_order(train.labels, train.offsets)
        self._weights = np.ones(train.n_lists) if train.weights is None else train.weights
        weights = train.document_weights
        self._document_weights = np.ones(train.n_docs) if weights is None else weights
        names = self.context.metric_names
        self.curves = {part: {name: list[float]() for name in names} for part in self.parts}
        self.losses: list[float] = []

    def run(self) -> None:
        """Add stumps until ``rounds`` or early stopping is reached, or no stump is useful."""
        self._resume()
        while not self._is_over() and self._run_round():
            save_state(self.context.checkpoint, len(self.stumps), _STATE_FILE, self.stumps)

    @property
    def best(self) -> int:
        """Number of stumps to keep."""
        return len(self.stumps) if self.selection.best is None else self.selection.best_step + 1

    def _run_round(self) -> bool:
        potential, total = self._potential()
        if total <= 0.0:
            return False
        feature, threshold_index, worth = best_stump(self._codes["train"], self._counts, potential)
        r = float(np.clip(worth / total, -_PERFECT, _PERFECT))
        if threshold_index < 0 or abs(r) < _WORTHLESS:
            return False
        self.losses.append(total)
        self._add((feature, threshold_index, 0.5 * float(np.log1p(r) - np.log1p(-r))))
        self.stopped = self.context.report("stumps, ", len(self.stumps), self.ranker.rounds, self.curves)
        return True

    def _potential(self) -> tuple[NDArray[np.float64], float]:
        train = self.parts["train"]
        potential, losses = np.empty(train.n_docs), np.empty(train.n_lists)
        lists = (train.labels, self._order, train.offsets, self._weights, self._document_weights)
        fill_potential(self.scores["train"], *lists, potential, losses)
        return potential, float(np.sum(losses))

    def _add(self, stump: Stump) -> None:
        feature, threshold_index, weight = stump
        self.stumps.append(stump)
        for part, data in self.parts.items():
            self.scores[part] += weight * (self._codes[part][feature] > threshold_index)
            means = self.context.measure(self.scores[part], data, self.curves[part])
            if part == "validation":
                self.selection.offer(means)

    def _resume(self) -> None:
        """Add the stumps of the latest state again, in the original order, so that scores have the same bits."""
        for stump in read_state(self.context.checkpoint, _STATE_FILE) or ():
            self.losses.append(self._potential()[1])
            self._add(tuple(stump))

    def _is_over(self) -> bool:
        waited = self.selection.steps_since_best >= self.ranker.patience
        return waited or self.stopped or len(self.stumps) >= self.ranker.rounds


def merge_stumps(stumps: list[Stump], thresholds: Thresholds) -> tuple[NDArray[np.int64], NDArray[np.float32], Scores]:
    """Features, thresholds and weights of stumps, sorted; equal stumps are merged."""
    weights: dict[tuple[int, int], float] = defaultdict(float)
    for feature, threshold_index, weight in stumps:
        weights[feature, threshold_index] += weight
    pairs = sorted(weights)
    features = np.array([j for j, _ in pairs], dtype=np.int64)
    values = np.array([thresholds[j][k] for j, k in pairs], dtype=np.float32)
    return features, values, np.array([weights[pair] for pair in pairs])


Thresholds = tuple[NDArray[np.float32], ...]
"""The thresholds of each feature, ascending; a constant feature has none."""


def select_thresholds(features: Features | csr_array, max_count: int) -> Thresholds:
    """Select at most ``max_count`` thresholds of each feature."""
    return tuple(_select_thresholds(column, max_count) for column in dense_columns(features))


def encode_features(features: Features | csr_array, thresholds: Thresholds) -> NDArray[np.uint16]:
    """The codes of documents: features x documents."""
    codes = np.empty((features.shape[1], features.shape[0]), dtype=np.uint16)
    for j, column in enumerate(dense_columns(features)):
        codes[j] = np.searchsorted(thresholds[j], column, side="left")
        codes[j, np.isnan(column)] = 0
    return codes


def _select_thresholds(column: NDArray[np.float32], max_count: int) -> NDArray[np.float32]:
    values = np.unique(column[~np.isnan(column)])
    if len(values) < 2:
        return np.empty(0, dtype=np.float32)
    if len(values) > max_count + 1:
        # Quantiles of the documents, not of the distinct values.
        ordered = np.sort(column[~np.isnan(column)])
        ranks = np.linspace(0, len(ordered) - 1, max_count + 2)[1:-1].astype(np.int64)
        lower = np.unique(ordered[ranks])
        below = np.searchsorted(values, lower)
        below = below[below < len(values) - 1]
    else:
        below = np.arange(len(values) - 1)
    low, high = values[below], values[below + 1]
    middle = (0.5 * (low.astype(np.float64) + high)).astype(np.float32)
    # Adjacent floats have no midpoint, and the lower value must not be above its threshold.
    return np.where((middle >= low) & (middle < high), middle, low)


_MAX_EXPONENT = 300.0  # exponents are clipped so that squares of exponentials stay finite


def label_order(labels: Labels, offsets: Offsets) -> NDArray[np.int64]:
    """Documents of each list by ascending label, as positions in the dataset."""
    return np.lexsort((labels, list_of_document(offsets)))


@parallel
def fill_potential(scores, labels, order, offsets, weights, document_weights, potential, losses):  # type: ignore[no-untyped-def]
    """Fill the potential of each document and the loss of each list, before normalization."""
    for q in prange(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        losses[q] = 0.0
        potential[low:high] = 0.0
        if high - low > 1:
            losses[q] = _fill_list(scores, labels, order[low:high], weights[q], document_weights, potential)


@compiled
def _fill_list(scores, labels, documents, weight, document_weights, potential):  # type: ignore[no-untyped-def]
    middle = 0.5 * (np.min(scores[documents]) + np.max(scores[documents]))
    up = np.empty(len(documents))
    for k in range(len(documents)):
        up[k] = np.exp(min(max(scores[documents[k]] - middle, -_MAX_EXPONENT), _MAX_EXPONENT))
    loss = 0.0
    below, level, label = 0.0, 0.0, labels[documents[0]]  # sums of lower levels, of this one
    for k in range(len(documents)):
        d = documents[k]
        if labels[d] != label:
            below, level, label = below + level, 0.0, labels[d]
        potential[d] = weight * document_weights[d] * below / up[k]
        loss += potential[d]
        level += up[k]
    above, level = 0.0, 0.0
    for k in range(len(documents) - 1, -1, -1):
        d = documents[k]
        if labels[d] != label:
            above, level, label = above + level, 0.0, labels[d]
        potential[d] -= weight * above * up[k]
        level += document_weights[d] / up[k]
    return loss


@parallel
def best_thresholds(codes, counts, potential, worth, threshold_index):  # type: ignore[no-untyped-def]
    """For each feature, find the threshold with the largest absolute sum of potentials above it."""
    for j in prange(len(codes)):
        sums = np.zeros(counts[j] + 1)
        row = codes[j]
        for d in range(len(row)):
            sums[row[d]] += potential[d]
        worth[j], threshold_index[j] = 0.0, -1
        above = 0.0
        for k in range(counts[j] - 1, -1, -1):
            above += sums[k + 1]
            if abs(above) > abs(worth[j]):
                worth[j], threshold_index[j] = above, k


def best_stump(
    codes: NDArray[np.uint16], counts: NDArray[np.int64], potential: NDArray[np.float64]
) -> tuple[int, int, float]:
    """Feature, index of the threshold and worth of the best stump."""
    worth, threshold_index = np.empty(len(codes)), np.empty(len(codes), dtype=np.int64)
    best_thresholds(codes, counts, potential, worth, threshold_index)
    j: Any = np.argmax(np.abs(worth))
    return int(j), int(threshold_index[j]), float(worth[j])


_FILE = "stumps.json"
_MAX_THRESHOLDS = 65_534  # codes are 16 bits wide


@accept_aliases
@dataclass(eq=False)
class StumpRanker(Ranker):
    """A sum of weighted thresholds on single features (RankBoost).

    Parameters
    ----------
    rounds
        Maximum number of stumps.
    thresholds
        Maximum number of candidate thresholds per feature; if it has more distinct values, quantiles are used.
    patience
        With validation data: stop after this many rounds without a better metric.
    threads
        Number of threads; None: all.
    transforms
        Applied to the features first; monotone ones change nothing.
    seed
        Has no effect; all rankers take one.

    Examples
    --------
    >>> import plackett as pk
    >>> ranker = pk.StumpRanker(rounds=5).fit(pk.synthetic("letor", n_lists=20))
    >>> len(ranker.stump_features_)
    5
    """

    takes_missing: ClassVar[bool] = True
    row_wise: ClassVar[bool] = True

    rounds: int = 500
    thresholds: int = 255
    patience: int = 100
    threads: int | None = None
    transforms: tuple[str, ...] = ()
    seed: int = 0

    def _fit(self, train: Dataset, validation: Dataset | None, context: FitContext) -> None:
        self._check_settings()
        parts = {"train": train} | ({} if validation is None else {"validation": validation})
        with kernel_threads(self.threads):
            boosting = StumpBoosting(self, parts, context)
            boosting.run()
        self.curves_: Curves = boosting.curves
        """Means of the metrics after each round, for each part of the data."""
        self.losses_: tuple[float, ...] = tuple(boosting.losses)
        """The exponential loss over the pairs of the training lists before each round."""
        stumps = boosting.stumps[: boosting.best]
        merged: tuple[Any, ...] = merge_stumps(stumps, boosting.thresholds)
        init = context.init
        if isinstance(init, StumpRanker):
            before: tuple[Any, ...] = (init.stump_features_, init.stump_thresholds_, init.stump_weights_)
            merged = _sort(*(np.concatenate(pair) for pair in zip(before, merged, strict=True)))
        self._best_step = len(stumps)
        self._set_stumps(*merged)

    def coefficients_by_name(self) -> dict[str, float]:
        """How much each feature can change the score, the largest first; unused features are absent."""
        names = self._feature_labels()
        ranges = {}
        for j in np.unique(self.stump_features_):
            steps = np.cumsum(self.stump_weights_[self.stump_features_ == j])
            ranges[names[j]] = float(max(steps.max(), 0.0) - min(steps.min(), 0.0))
        return dict(sorted(ranges.items(), key=lambda item: -item[1]))

    _importance_kinds: ClassVar[tuple[str, ...]] = ("weights",)
    _explained_by: ClassVar[Method] = "weights"

    def _importance(self, kind: str) -> list[float]:  # noqa: ARG002 - there is one
        ranges = self.coefficients_by_name()
        return [ranges.get(name, 0.0) for name in self._feature_labels()]

    def _contributions(self, features: Any, offsets: Offsets) -> tuple[float, NDArray[np.float64]]:
        rows = self._transform_grouped(features, offsets)
        values = np.zeros(rows.shape)
        for j, column in enumerate(dense_columns(rows)):
            scores = np.zeros(len(column))
            self._add_feature(j, column, scores)
            values[:, j] = scores
        return 0.0, values

    def _predict(self, data: Dataset) -> Scores:
        scores = np.zeros(data.n_docs)
        for j, column in enumerate(dense_columns(data.features)):
            self._add_feature(j, column, scores)
        return scores

    def _add_feature(self, j: int, column: NDArray[np.float32], scores: Scores) -> None:
        """Add to each document's score what the stumps of one feature contribute."""
        low, high = np.searchsorted(self.stump_features_, [j, j + 1])
        if high > low:
            levels = np.append(0.0, np.cumsum(self.stump_weights_[low:high]))
            _add_levels(column, self.stump_thresholds_[low:high], levels, scores)

    def _check_settings(self) -> None:
        for name in ("rounds", "thresholds", "patience"):
            if (value := getattr(self, name)) < 1:
                raise UsageError(f"StumpRanker needs {name} >= 1, got {value!r}.")
        if self.thresholds > _MAX_THRESHOLDS:
            raise UsageError(f"StumpRanker takes at most {_MAX_THRESHOLDS} thresholds, got {self.thresholds}.")

    def _set_stumps(self, features: NDArray[np.int64], thresholds: NDArray[np.float32], weights: Scores) -> None:
        self.stump_features_: NDArray[np.int64] = features
        """The feature of each stump, ascending."""
        self.stump_thresholds_: NDArray[np.float32] = thresholds
        """Its threshold, ascending within a feature."""
        self.stump_weights_: Scores = weights
        """What it adds to the score above the threshold."""

    def _write(self, folder: Path) -> None:
        content = {
            "features": self.stump_features_.tolist(),
            "thresholds": self.stump_thresholds_.tolist(),
            "weights": self.stump_weights_.tolist(),
        }
        (folder / _FILE).write_text(json.dumps(content), encoding="utf-8")
        write_learning_curves(self.curves_, folder)

    def _read(self, folder: Path) -> None:
        path = folder / _FILE
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            features = np.array(content["features"], dtype=np.int64)
            thresholds = np.array(content["thresholds"], dtype=np.float32)
            weights = np.array(content["weights"], dtype=np.float64)
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise DataError(f"holds no stumps: {error}", path=str(path)) from error
        shapes = {features.shape, thresholds.shape, weights.shape}
        known = np.all((features >= 0) & (features < (self.n_features_ or 0)))
        finite = np.all(np.isfinite(thresholds)) and np.all(np.isfinite(weights))
        if len(shapes) > 1 or features.ndim != 1 or not known or not finite:
            raise DataError("must hold one feature, threshold and weight per stump", path=str(path))
        self._set_stumps(*_sort(features, thresholds, weights))
        self.curves_, self.losses_ = read_learning_curves(folder), ()


def _sort(
    features: NDArray[np.int64], thresholds: NDArray[np.float32], weights: Scores
) -> tuple[NDArray[np.int64], NDArray[np.float32], Scores]:
    """Stumps by feature and threshold."""
    order = np.lexsort((thresholds, features))
    return features[order], thresholds[order], weights[order]


@parallel
def _add_levels(column, thresholds, levels, scores):  # type: ignore[no-untyped-def]
    for d in prange(len(column)):
        if not np.isnan(column[d]):
            scores[d] += levels[np.searchsorted(thresholds, column[d])]
