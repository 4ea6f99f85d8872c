"""A trial for auto_trials.py: symmetric trees, as CatBoost grows them, with objectives of plackett.

Every level of a tree has one split, the same in all nodes. It is the one with the highest gain
``sum over leaves of (sum g)^2 / (sum h + L2)``, plus noise, over a sample of the features; lists are weighed by draws
from the exponential distribution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from plackett.models.fit_context import FitContext, Selection, measure, smooth
from plackett.models.ranker import Ranker
from plackett.models.trees.ranker import as_objective, bind_objective, reseed

_BINS = 64


@numba.njit(nogil=True)
def grow(codes, n_bins, g, h, features, depth, l2, noise, seed):
    """One tree: the feature and the bin of each level, and the leaf of each document."""
    np.random.seed(seed)  # noqa: NPY002 - the only generator that compiled code has
    leaf = np.zeros(codes.shape[1], np.int64)
    chosen = np.zeros((depth, 2), np.int64)
    for level in range(depth):
        n_leaves = 1 << level
        best = -np.inf
        for f in features:
            sums = np.zeros((2, n_leaves, n_bins[f]))
            for i in range(len(leaf)):
                sums[0, leaf[i], codes[f, i]] += g[i]
                sums[1, leaf[i], codes[f, i]] += h[i]
            total = sums.sum(axis=2)
            left = np.zeros((2, n_leaves))
            for b in range(n_bins[f] - 1):
                gain = noise * np.random.normal()  # noqa: NPY002
                for k in range(n_leaves):
                    left[0, k] += sums[0, k, b]
                    left[1, k] += sums[1, k, b]
                    right = total[0, k] - left[0, k]
                    gain += left[0, k] ** 2 / (left[1, k] + l2) + right**2 / (total[1, k] - left[1, k] + l2)
                if gain > best:
                    best, chosen[level, 0], chosen[level, 1] = gain, f, b
        for i in range(len(leaf)):
            leaf[i] = 2 * leaf[i] + (codes[chosen[level, 0], i] > chosen[level, 1])
    return chosen, leaf


@dataclass(eq=False)
class SymmetricTrees(Ranker):
    """Symmetric trees; complete enough for a trial, not for saving."""

    objective: Any = "yetirank"
    trees: int = 1000
    learning_rate: float = 0.05
    depth: int = 6
    l2: float = 3.0
    strength: float = 1.0
    feature_fraction: float = 0.5
    patience: int = 100
    smoothing: int = 11
    seed: int = 0
    threads: int | None = None
    transforms: tuple[str, ...] = ()

    def _fit(self, train: Any, validation: Any, context: FitContext) -> None:
        features = np.asarray(train.features)
        self.borders = [_borders(column) for column in features.T]
        codes, others = self._codes(features), self._codes(np.asarray(validation.features))
        n_bins = np.array([len(borders) + 1 for borders in self.borders])
        usable = np.flatnonzero(n_bins > 1)
        gradients = bind_objective(reseed(as_objective(self.objective), self.seed), train).float32_gradient
        rng, sizes = np.random.default_rng(self.seed), np.diff(train.offsets)
        scores, held_out = np.zeros(train.n_docs), np.zeros(validation.n_docs)
        self.forest: list[Any] = []
        curve: list[float] = []
        selection = Selection()
        while len(curve) < self.trees and (selection.best is None or selection.steps_since_best < self.patience):
            g, h = (np.asarray(a, np.float64) for a in gradients(scores, len(curve)))
            l2, noise = self.l2 * h.mean(), self.strength * np.mean(g * g) / h.mean()
            weights = np.repeat(rng.exponential(size=len(sizes)), sizes)
            drawn = np.sort(rng.choice(usable, max(1, int(len(usable) * self.feature_fraction)), replace=False))
            seed = int(rng.integers(2**31))
            chosen, leaf = grow(codes, n_bins, g * weights, h * weights, drawn, self.depth, l2, noise, seed)
            sums = [np.bincount(leaf, a * weights, 1 << self.depth) for a in (g, h)]
            values = -self.learning_rate * sums[0] / (sums[1] + l2)
            scores += values[leaf]
            self.forest.append((chosen, values))
            held_out += values[_leaves(chosen, others)]
            curve.append(measure(held_out, validation, context.metrics)[0])
            while selection.steps < len(curve) - self.smoothing // 2:
                selection.offer(smooth([curve], selection.steps, self.smoothing))
        del self.forest[selection.best_step + 1 :]

    def _codes(self, features: np.ndarray) -> np.ndarray:
        pairs = zip(self.borders, features.T, strict=True)
        return np.stack([np.searchsorted(b, column).astype(np.uint8) for b, column in pairs])

    def _predict(self, data: Any) -> np.ndarray:
        codes = self._codes(np.asarray(data.features))
        return sum((values[_leaves(chosen, codes)] for chosen, values in self.forest), np.zeros(data.n_docs))

    def _write(self, folder: Any) -> None:
        raise NotImplementedError

    _read = _write


def _leaves(chosen: np.ndarray, codes: np.ndarray) -> np.ndarray:
    leaf = np.zeros(codes.shape[1], np.int64)
    for feature, border in chosen:
        leaf = 2 * leaf + (codes[feature] > border)
    return leaf


def _borders(column: np.ndarray) -> np.ndarray:
    values = np.unique(column)
    if len(values) <= _BINS:
        return (values[:-1] + values[1:]) / 2
    return np.unique(np.quantile(column, np.linspace(0, 1, _BINS + 1)[1:-1]))
