r"""How much each feature counts in a fitted model.

============  ==================================================================================
kind          importance of a feature
============  ==================================================================================
gain, split   trees: the total gain of its splits, and their number
weights       linear models: absolute coefficient times the feature's standard deviation; stumps:
              how far the feature can move the score
gradient      nets: the mean over documents of :math:`|\partial s / \partial x_j|`, times the
              feature's standard deviation, on a sample of the training lists
permutation   any model: how far a metric falls when the feature's values are permuted over the
              documents of given data
============  ==================================================================================

A cross-fit has the mean of its members' shares, an :class:`AutoRanker` their weighted mean (kind
``shares``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.errors import UsageError
from plackett.data.large_arrays import iter_blocks, release_pages
from plackett.metrics import evaluate

if TYPE_CHECKING:
    from plackett.data.dataset import Dataset
    from plackett.models.ranker import Ranker

Importances = NDArray[np.float64]
"""One number per feature."""


def importances(
    ranker: Ranker, kind: str | None, data: Dataset | None, *, metric: Any, seed: int
) -> Importances:
    """The importance of each feature, in the order of the model's features."""
    kinds = ranker._importance_kinds
    if kind is None:
        kind = kinds[0] if kinds and data is None else "permutation"
    if kind == "permutation":
        if data is None:
            raise UsageError(
                "importance by permutation is measured on data: importance(data=validation)."
            )
        return permutation_importance(ranker, data, metric=metric, seed=seed)
    if kind not in kinds:
        listed = ", ".join(repr(name) for name in (*kinds, "permutation"))
        raise UsageError(
            f"importance of a {type(ranker).__name__} is by one of {listed}, got {kind!r}."
        )
    return np.asarray(ranker._importance(kind), dtype=np.float64)


def permutation_importance(
    ranker: Ranker, data: Dataset, *, metric: Any = "ndcg@10", seed: int = 0
) -> Importances:
    """How far the mean of a metric falls when a feature is permuted over all documents."""
    (before,) = evaluate(ranker.predict(data), data, metric).values()
    features = data.features
    dense = features.toarray() if isinstance(features, csr_array) else np.array(features)
    rng = np.random.default_rng(seed)
    result = np.zeros(data.n_features)
    for j in range(data.n_features):
        column = dense[:, j].copy()
        if len(column) == 0 or np.all(column == column[0]):
            continue
        dense[:, j] = rng.permutation(column)
        changed = data.with_features(dense.copy())
        (after,) = evaluate(ranker.predict(changed), data, metric).values()
        result[j] = before - after
        dense[:, j] = column
    return result


def shares(amounts: Importances) -> Importances:
    """Amounts as shares that add up to 1; zeros stay zeros."""
    total = amounts.sum()
    return amounts / total if total > 0 else np.zeros(len(amounts))


def deviations(features: NDArray[np.float32] | csr_array) -> Importances:
    """The standard deviation of each feature; missing values are left out."""
    if isinstance(features, csr_array):
        squares = features.multiply(features).mean(axis=0)
        return np.sqrt(np.maximum(squares - np.square(features.mean(axis=0)), 0.0))
    shift = np.nan_to_num(np.array(features[0], dtype=np.float64))  # against cancellation
    count, total, square = (np.zeros(features.shape[1]) for _ in range(3))
    for rows in iter_blocks(features):
        block = features[rows] - shift
        known = ~np.isnan(block)
        block[~known] = 0.0
        count += known.sum(axis=0)
        total += block.sum(axis=0)
        square += np.square(block).sum(axis=0)
        release_pages(features)
    count = np.maximum(count, 1)
    return np.sqrt(np.maximum(square / count - np.square(total / count), 0.0))
