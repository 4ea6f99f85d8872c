"""How much each feature contributes to a fitted model, as shares that add up to 1.

======== ==================================================================================
model    share of a feature
======== ==================================================================================
trees    of the total gain of all splits
linear   of the sum over features of absolute coefficient times standard deviation of the feature
CrossFit the mean over its members
======== ==================================================================================

Other models (nets, stumps, imported ensembles) have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.ragged import Values
from plackett.models.crossfit import CrossFit
from plackett.models.linear import LinearRanker
from plackett.models.ranker import Ranker

if TYPE_CHECKING:
    from plackett.data.dataset import Dataset


def feature_importance(ranker: Ranker, data: Dataset) -> Values | None:
    """Share of each feature in a fitted model; None for models that have none.

    Parameters
    ----------
    ranker
        Fitted.
    data
        Lists on which the spread of features is measured, for linear models.
    """
    from plackett.models.trees import TreeRanker

    if isinstance(ranker, CrossFit):
        shares = [feature_importance(member, data) for member in ranker.members_]
        known = [share for share in shares if share is not None]
        return np.mean(known, axis=0) if len(known) == len(shares) else None
    if isinstance(ranker, TreeRanker):
        gains = ranker.importance()
        names = data.feature_names or [str(j + 1) for j in range(data.n_features)]
        return _shares(np.array([gains[name] for name in names]))
    if isinstance(ranker, LinearRanker):
        spread = _standard_deviations(ranker._prepare(data).features)
        return _shares(np.abs(ranker.coefficients_) * spread)
    return None


def _shares(amounts: NDArray[np.float64]) -> Values:
    total = amounts.sum()
    return amounts / total if total > 0 else np.zeros(len(amounts))


def _standard_deviations(features: NDArray[np.float32] | csr_array) -> NDArray[np.float64]:
    if not isinstance(features, csr_array):
        return np.std(features, axis=0, dtype=np.float64)
    squares = features.multiply(features).mean(axis=0)
    return np.sqrt(np.maximum(squares - np.square(features.mean(axis=0)), 0.0))
