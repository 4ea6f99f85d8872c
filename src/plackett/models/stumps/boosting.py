r"""The rounds of RankBoost, which stop on a metric and can be taken up again.

The distribution over pairs that RankBoost keeps, without the pairs (Freund et al. 2003).

With scores s so far, the weight of a pair with labels :math:`y_i > y_j` is in proportion to
:math:`e^{-(s_i - s_j)}`, and what a weak learner h is worth is

.. math:: r = \sum_{y_i > y_j} D_{ij} (h_i - h_j) = \sum_d \pi_d h_d, \qquad
    \pi_d \propto e^{-s_d} \sum_{y_j < y_d} e^{s_j} - e^{s_d} \sum_{y_i > y_d} e^{-s_i}.

The pairs factorise: with documents sorted by label once, the potential :math:`\pi` of a list costs
O(n) per round, for any number of label levels. A weighted document multiplies the pairs in which
it is the better one.

Candidate thresholds of each feature, and where each document lies among them.

A feature with few distinct values is cut between any two of them; one with many at evenly spread
quantiles. A document's code is the number of thresholds below its value, so it lies above the k-th
threshold (from 0) if and only if its code is more than k. A missing value lies above none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from plackett.base.kernels import compiled
from plackett.base.ragged import Features, Labels, Offsets, Scores
from plackett.data.dataset import Dataset
from plackett.models.ranker import FitContext
from plackett.models.selection import Selection, measure

if TYPE_CHECKING:
    from plackett.models.stumps.ranker import StumpRanker


_WIDEST = 300.0  # exponents are cut off there: squares of exponentials stay finite


def label_order(labels: Labels, offsets: Offsets) -> NDArray[np.int64]:
    """Documents of each list by ascending label, as positions in the whole."""
    lists = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.lexsort((labels, lists))


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def fill_potential(scores, labels, order, offsets, weights, each, potential, losses):  # type: ignore[no-untyped-def]
    """Fill the potential of each document, and the loss of each list, not yet normalised."""
    for q in prange(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        losses[q] = 0.0
        potential[low:high] = 0.0
        if high - low > 1:
            losses[q] = _fill_list(scores, labels, order[low:high], weights[q], each, potential)


@compiled
def _fill_list(scores, labels, documents, weight, each, potential):  # type: ignore[no-untyped-def]
    middle = 0.5 * (np.min(scores[documents]) + np.max(scores[documents]))
    up = np.empty(len(documents))
    for k in range(len(documents)):
        up[k] = np.exp(min(max(scores[documents[k]] - middle, -_WIDEST), _WIDEST))
    loss = 0.0
    below, level, label = 0.0, 0.0, labels[documents[0]]  # sums of lower levels, of this one
    for k in range(len(documents)):
        d = documents[k]
        if labels[d] != label:
            below, level, label = below + level, 0.0, labels[d]
        potential[d] = weight * each[d] * below / up[k]
        loss += potential[d]
        level += up[k]
    above, level = 0.0, 0.0
    for k in range(len(documents) - 1, -1, -1):
        d = documents[k]
        if labels[d] != label:
            above, level, label = above + level, 0.0, labels[d]
        potential[d] -= weight * above * up[k]
        level += each[d] / up[k]
    return loss


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def best_thresholds(codes, counts, potential, worth, place):  # type: ignore[no-untyped-def]
    """For each feature the threshold with the largest sum of potentials above it, in size."""
    for j in prange(len(codes)):
        sums = np.zeros(counts[j] + 1)
        row = codes[j]
        for d in range(len(row)):
            sums[row[d]] += potential[d]
        worth[j], place[j] = 0.0, -1
        above = 0.0
        for k in range(counts[j] - 1, -1, -1):
            above += sums[k + 1]
            if abs(above) > abs(worth[j]):
                worth[j], place[j] = above, k


def best_stump(
    codes: NDArray[np.uint16], counts: NDArray[np.int64], potential: NDArray[np.float64]
) -> tuple[int, int, float]:
    """Feature, place of the threshold and worth of the best stump."""
    worth, place = np.empty(len(codes)), np.empty(len(codes), dtype=np.int64)
    best_thresholds(codes, counts, potential, worth, place)
    j: Any = np.argmax(np.abs(worth))
    return int(j), int(place[j]), float(worth[j])


@dataclass(frozen=True)
class Codes:
    """Documents coded by thresholds."""

    thresholds: tuple[NDArray[np.float32], ...]
    """For each feature, ascending; none for a constant one."""
    codes: NDArray[np.uint16]
    """features x documents."""


def code(features: Features | csr_array, most: int) -> Codes:
    """Choose at most so many thresholds of each feature, and code the documents."""
    n, d = features.shape
    codes = np.empty((d, n), dtype=np.uint16)
    thresholds = []
    for j, column in enumerate(columns(features)):
        found = _thresholds(column, most)
        codes[j] = np.searchsorted(found, column, side="left")
        codes[j, np.isnan(column)] = 0
        thresholds.append(found)
    return Codes(tuple(thresholds), codes)


def columns(features: Features | csr_array) -> Iterator[NDArray[np.float32]]:
    """The features one after the other, as dense arrays."""
    if isinstance(features, csr_array):
        sparse = csc_array(features)
        for j in range(sparse.shape[1]):
            yield _dense(sparse, j)
    else:
        for j in range(features.shape[1]):
            yield np.ascontiguousarray(features[:, j])


def _dense(sparse: csc_array, j: int) -> NDArray[np.float32]:
    column = np.zeros(sparse.shape[0], dtype=np.float32)
    low, high = sparse.indptr[j], sparse.indptr[j + 1]
    column[sparse.indices[low:high]] = sparse.data[low:high]
    return column


def _thresholds(column: NDArray[np.float32], most: int) -> NDArray[np.float32]:
    values = np.unique(column[~np.isnan(column)])
    if len(values) < 2:
        return np.empty(0, dtype=np.float32)
    if len(values) > most + 1:
        # Cuts between neighbours in rank: quantiles of the documents, not of the distinct values.
        ordered = np.sort(column[~np.isnan(column)])
        at = np.linspace(0, len(ordered) - 1, most + 2)[1:-1].astype(np.int64)
        lower = np.unique(ordered[at])
        place = np.searchsorted(values, lower)
        place = place[place < len(values) - 1]
    else:
        place = np.arange(len(values) - 1)
    low, high = values[place], values[place + 1]
    middle = (0.5 * (low.astype(np.float64) + high)).astype(np.float32)
    # Between neighbouring floats there is no middle; and "above" must not include the lower one.
    return np.where((middle >= low) & (middle < high), middle, low)


_STATE = "stumps.json"
_PERFECT = 1.0 - 1e-9  # a stump that puts every pair right would get an infinite weight
_WORTHLESS = 1e-12

Stump = tuple[int, int, float]
"""Feature, place of the threshold among the feature's, weight."""


@dataclass
class Boosting:
    """One fit: the lists, coded by thresholds, and how far it is."""

    ranker: StumpRanker
    parts: dict[str, Dataset]
    run: FitContext
    stumps: list[Stump] = field(default_factory=list)
    selection: Selection = field(default_factory=Selection)

    def __post_init__(self) -> None:
        train = self.parts["train"]
        self.codes: Codes = code(train.features, self.ranker.thresholds)
        self._counts = np.array([len(each) for each in self.codes.thresholds])
        self._above = {part: self._coded(data) for part, data in self.parts.items()}
        self.scores = {part: np.zeros(data.n_docs) for part, data in self.parts.items()}
        self._order = label_order(train.labels, train.offsets)
        given = train.weights
        self._weights = np.ones(train.n_lists) if given is None else given
        given = train.document_weights
        self._document_weights = np.ones(train.n_docs) if given is None else given
        names = self.run.metric_names
        self.curves = {part: {m: list[float]() for m in names} for part in self.parts}
        self.losses: list[float] = []

    def grow(self) -> None:
        """Add stumps until there are enough, validation stops improving, or none is of use."""
        self._resume()
        while not self._is_over() and self._round():
            store = self.run.checkpoint
            if store is not None and store.due():
                with store.saving(len(self.stumps)) as folder:
                    (folder / _STATE).write_text(json.dumps(self.stumps))

    def _round(self) -> bool:
        potential, total = self._potential()
        if total <= 0.0:
            return False
        feature, place, worth = best_stump(self.codes.codes, self._counts, potential)
        r = float(np.clip(worth / total, -_PERFECT, _PERFECT))
        if place < 0 or abs(r) < _WORTHLESS:
            return False
        self.losses.append(total)
        self._add((feature, place, 0.5 * float(np.log1p(r) - np.log1p(-r))))
        status = f"stumps, {self.run.metric_names[0]} {self._latest():.4f}"
        self.run.progress(status, len(self.stumps), self.ranker.rounds)
        if "validation" in self.parts:
            self.run.watch(len(self.stumps), self.ranker.rounds, self._latest())
        return True

    def _potential(self) -> tuple[NDArray[np.float64], float]:
        train = self.parts["train"]
        potential, losses = np.empty(train.n_docs), np.empty(train.n_lists)
        fill_potential(
            self.scores["train"],
            train.labels,
            self._order,
            train.offsets,
            self._weights,
            self._document_weights,
            potential,
            losses,
        )
        return potential, float(np.sum(losses))

    def _add(self, stump: Stump) -> None:
        feature, place, weight = stump
        self.stumps.append(stump)
        for part, data in self.parts.items():
            self.scores[part] += weight * (self._above[part][feature] > place)
            means = measure(self.scores[part], data, self.run.metrics)
            for name, mean in zip(self.run.metric_names, means, strict=True):
                self.curves[part][name].append(mean)
            if part == "validation":
                self.selection.offer(means)

    def _resume(self) -> None:
        """Add the stumps of the latest state again, in their order, for the same bits."""
        store = self.run.checkpoint
        latest = None if store is None else store.latest()
        if latest is not None:
            for feature, place, weight in json.loads((latest / _STATE).read_text()):
                self.losses.append(self._potential()[1])
                self._add((feature, place, weight))

    def _is_over(self) -> bool:
        waiting = (
            self.selection.best is not None
            and self.selection.steps_since_best >= self.ranker.patience
        )
        return waiting or len(self.stumps) >= self.ranker.rounds

    def _latest(self) -> float:
        part = "validation" if "validation" in self.parts else "train"
        return self.curves[part][self.run.metric_names[0]][-1]

    def _coded(self, data: Dataset) -> NDArray[np.uint16]:
        if data is self.parts["train"]:
            return self.codes.codes
        return recode(data, self.codes)

    @property
    def best(self) -> int:
        """How many stumps to keep."""
        return len(self.stumps) if self.selection.best is None else self.selection.best_step + 1


def recode(data: Dataset, codes: Codes) -> NDArray[np.uint16]:
    """Code other documents by the same thresholds."""
    found = np.empty((data.n_features, data.n_docs), dtype=np.uint16)
    for j, column in enumerate(columns(data.features)):
        found[j] = np.searchsorted(codes.thresholds[j], column, side="left")
        found[j, np.isnan(column)] = 0
    return found


def steps_of(
    stumps: list[Stump], codes: Codes
) -> tuple[NDArray[np.int64], NDArray[np.float32], Scores]:
    """Features, thresholds and weights of stumps, sorted; equal ones are merged."""
    total: dict[tuple[int, int], float] = {}
    for feature, place, weight in stumps:
        total[feature, place] = total.get((feature, place), 0.0) + weight
    kept = sorted(total)
    features = np.array([j for j, _ in kept], dtype=np.int64)
    thresholds = np.array([codes.thresholds[j][k] for j, k in kept], dtype=np.float32)
    return features, thresholds, np.array([total[each] for each in kept])
