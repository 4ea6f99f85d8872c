"""What a tree model goes by: importance of features, and contributions to single scores."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.models.trees.predicting import predicted


def importance(
    booster: Any, names: tuple[str, ...], kind: Literal["gain", "split"]
) -> dict[str, float]:
    """Total gain or number of splits of each feature, the largest first."""
    if kind not in ("gain", "split"):
        raise UsageError(f'importance is by "gain" or by "split", got {kind!r}.')
    values = booster.feature_importance(importance_type=kind)
    order = np.argsort(-values, kind="stable")
    return {names[j]: float(values[j]) for j in order}


def contributions(booster: Any, features: Any) -> NDArray[np.float64]:
    """SHAP values of each feature and, in the last column, the mean score."""
    return predicted(booster.predict, features, pred_contrib=True)
