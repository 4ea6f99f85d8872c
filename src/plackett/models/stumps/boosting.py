"""The rounds of RankBoost, which stop on a metric and can be taken up again."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plackett.base.ragged import Scores
from plackett.data.dataset import Dataset
from plackett.models.run import Run
from plackett.models.selection import Selection, measure
from plackett.models.stumps.pairs import best_stump, fill_potential, label_order
from plackett.models.stumps.thresholds import Codes, code, columns

if TYPE_CHECKING:
    from plackett.models.stumps.ranker import StumpRanker


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
    run: Run
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
        names = self.run.spellings
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
        status = f"stumps, {self.run.spellings[0]} {self._latest():.4f}"
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
            for name, mean in zip(self.run.spellings, means, strict=True):
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
        waiting = self.selection.best is not None and self.selection.waited >= self.ranker.patience
        return waiting or len(self.stumps) >= self.ranker.rounds

    def _latest(self) -> float:
        part = "validation" if "validation" in self.parts else "train"
        return self.curves[part][self.run.spellings[0]][-1]

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
