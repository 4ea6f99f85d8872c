r"""Trees in the one form that every target can be written from.

A document goes left if :math:`x \le t`, with x and t float32, or if x is missing and the node says
so. For float32 features that is all there is in the trees of LightGBM and XGBoost but sets of
categories:

- a float64 threshold has the same answers as the largest float32 not above it;
- XGBoost's :math:`x < t` is :math:`x \le t'` with the float32 below t;
- LightGBM takes values up to 1e-35 in size for zero, so a threshold among them is moved to that
  border;
- where LightGBM knows no missing values it reads NaN as zero: NaN goes where zero goes.

Thresholds are held within the range of finite float32 numbers. A feature whose value is the
largest float32 itself may then go the other way, at nodes that no other number passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.models.ensembles import Ensemble
from plackett.models.ensembles.layout import (
    CATEGORICAL,
    DEFAULT_LEFT,
    MISSING_NAN,
    MISSING_ZERO,
    missing_type,
)

LARGEST = np.finfo(np.float32).max
TINY = np.float32(1e-35)
"""Values up to this size are zero to LightGBM."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Trees:
    """Regression trees; arrays are laid out as in :class:`~plackett.models.ensembles.Ensemble`."""

    n_features: int
    nodes: NDArray[np.int64]
    leaves: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    nan_left: NDArray[np.bool_]
    """Whether a missing value goes left, per inner node."""
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    values: NDArray[np.float64]
    """Of each leaf."""
    base: float = 0.0
    """Added to every score."""

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.nodes) - 1

    @property
    def zero_left(self) -> NDArray[np.bool_]:
        """Whether zero goes left, per inner node."""
        return self.threshold >= 0

    def scaled(self, factor: float) -> Trees:
        """The same trees with scores times ``factor``."""
        if factor == 1.0:
            return self
        return replace(self, values=self.values * factor, base=self.base * factor)

    def with_base_as_tree(self) -> Trees:
        """The base score as a first tree of one leaf, for targets that have no base score."""
        if self.base == 0.0:
            return self
        return replace(
            self,
            nodes=np.concatenate([[0], self.nodes]),
            leaves=np.concatenate([[0], self.leaves + 1]),
            values=np.concatenate([[self.base], self.values]),
            base=0.0,
        )


def joined(trees: Sequence[Trees]) -> Trees:
    """The sum of several ensembles as one."""
    if len(trees) == 1:
        return trees[0]
    return Trees(
        n_features=trees[0].n_features,
        nodes=_offsets([np.diff(each.nodes) for each in trees]),
        leaves=_offsets([np.diff(each.leaves) for each in trees]),
        feature=np.concatenate([each.feature for each in trees]),
        threshold=np.concatenate([each.threshold for each in trees]),
        nan_left=np.concatenate([each.nan_left for each in trees]),
        left=np.concatenate([each.left for each in trees]),
        right=np.concatenate([each.right for each in trees]),
        values=np.concatenate([each.values for each in trees]),
        base=float(sum(each.base for each in trees)),
    )


def from_ensemble(ensemble: Ensemble) -> Trees:
    """Trees of an ensemble; refused where it has sets of categories or odd zeros."""
    if (ensemble.decision & CATEGORICAL).any():
        raise UsageError(
            "the model has splits on categories, which this form cannot hold; export it as "
            "lightgbm-text, or fit it without categorical features."
        )
    threshold = single_below(ensemble.threshold)
    if ensemble.library == "lightgbm":
        threshold = _around_zero(ensemble.threshold, threshold)
    return Trees(
        n_features=ensemble.n_features,
        nodes=ensemble.nodes,
        leaves=ensemble.leaves,
        feature=ensemble.feature,
        threshold=threshold,
        nan_left=_nan_left(ensemble, zero_left=threshold >= 0),
        left=ensemble.left,
        right=ensemble.right,
        values=ensemble.leaf_values,
        base=ensemble.base_score,
    )


def _nan_left(ensemble: Ensemble, *, zero_left: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether each node sends missing values left; zeros that are missing must go with them."""
    default_left = (ensemble.decision & DEFAULT_LEFT) != 0
    missing = missing_type(ensemble.decision)
    odd = (missing == MISSING_ZERO) & (default_left != zero_left)
    if odd.any():
        raise UsageError(
            "the model was fitted with zero_as_missing and sends zeros against the order of "
            f"values at {int(odd.sum())} splits; only lightgbm-text holds that."
        )
    return np.where(missing == MISSING_NAN, default_left, zero_left)


def single_below(threshold: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest float32 that is not above each threshold."""
    with np.errstate(over="ignore", under="ignore"):
        near = threshold.astype(np.float32)
        below = np.nextafter(near, np.float32(-np.inf))
    return np.clip(np.where(near > threshold, below, near), -LARGEST, LARGEST)


def _around_zero(
    threshold: NDArray[np.float64], single: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Move thresholds among the values that LightGBM takes for zero to the border of these."""
    upper = (threshold >= 0) & (threshold <= TINY)
    lower = (threshold < 0) & (threshold >= -TINY)
    single = np.where(upper, TINY, single)
    return np.where(lower, np.nextafter(-TINY, np.float32(-np.inf)), single)


def _offsets(sizes: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
