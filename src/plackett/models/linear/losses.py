r"""An objective as a function of the weights of the features: :math:`L(w) = \sum_q \ell_q(Xw)`."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from plackett.base.ragged import Features, Scores
from plackett.data.dataset import Dataset
from plackett.models.linear.fused import blocks_of, each_block
from plackett.models.linear.products import Weights, times, transposed_times
from plackett.objectives import Objective
from plackett.objectives.bound import Lists


class Loss(Protocol):
    """What the solvers minimise, before the penalty."""

    data: Dataset

    def evaluate(self, weights: Weights) -> tuple[float, Weights]:
        """The sum over lists and its gradient."""

    def curvature(self, weights: Weights) -> Scores:
        """The curvature of each document at these weights."""


class DenseLoss:
    """Dense features, scores that are not perturbed: one pass over the features a step."""

    def __init__(self, objective: Objective, data: Dataset) -> None:
        self.data = data
        self.lists = bound(objective, data)
        self._features: Features = np.asarray(data.features)
        self._keys = self.lists.noise_keys(0)
        self._params = np.array(objective.params, dtype=np.float64)
        self._blocks = blocks_of(data.offsets)
        given = self.lists.weights
        self._list_weights = np.ones(data.n_lists) if given is None else given

    def evaluate(self, weights: Weights) -> tuple[float, Weights]:
        values = np.zeros(self.data.n_lists)
        parts = np.zeros((len(self._blocks) - 1, self.data.n_features))
        each_block()(
            self.lists.objective.function.compiled,
            self._features,
            weights,
            self.lists.labels,
            self.lists.offsets,
            *self.lists.extra,
            self._keys,
            self._params,
            self._list_weights,
            self._blocks,
            values,
            parts,
        )
        return float(np.sum(values)), np.asarray(parts.sum(axis=0))

    def curvature(self, weights: Weights) -> Scores:
        return self.lists.evaluate(times(self._features, weights)).curvature


class ScoreLoss:
    """Any features, any objective: products with the features before and after the objective."""

    def __init__(self, objective: Objective, data: Dataset) -> None:
        self.data = data
        self.lists = bound(objective, data)

    def evaluate(self, weights: Weights, step: int = 0) -> tuple[float, Weights]:
        """The sum over lists and its gradient, with the noise of a step."""
        found = self.lists.evaluate(times(self.data.features, weights), step)
        return float(np.sum(found.values)), transposed_times(self.data.features, found.gradient)

    def curvature(self, weights: Weights) -> Scores:
        return self.lists.evaluate(times(self.data.features, weights)).curvature


def is_sparse(data: Dataset) -> bool:
    """Whether the features are a sparse matrix."""
    return isinstance(data.features, csr_array)


def bound(objective: Objective, data: Dataset) -> Lists:
    """The objective for the lists of a data set, with its weights."""
    each = data.document_weights
    return objective.bind(data.labels, data.offsets, data.keys, data.weights, document_weights=each)
