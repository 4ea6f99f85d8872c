"""The trees of a sum of rankers."""

from __future__ import annotations

import numpy as np

from plackett.base.errors import UsageError
from plackett.models.ensembles import Ensemble, EnsembleRanker, read_lightgbm_sum
from plackett.models.stumps import StumpRanker
from plackett.models.trees import TreeRanker
from plackett.serving.export.parts import Part
from plackett.serving.export.raw_thresholds import before_transforms
from plackett.serving.export.trees import LARGEST, Trees, from_ensemble, joined


def trees_of(parts: tuple[Part, ...]) -> Trees:
    """All trees of the parts, on untransformed features, with the factors in their leaves."""
    return joined([before_transforms(_trees(part), part.transforms) for part in parts])


def ensemble_of(part: Part) -> Ensemble | None:
    """The ensemble of a part as its library has it; None for parts that are no such thing."""
    if isinstance(part.ranker, TreeRanker):
        return read_lightgbm_sum(part.ranker.model_)
    if isinstance(part.ranker, EnsembleRanker):
        return part.ranker.ensemble_
    return None


def _trees(part: Part) -> Trees:
    if isinstance(part.ranker, StumpRanker):
        return _stumps(part.ranker).scaled(part.factor)
    ensemble = ensemble_of(part)
    assert ensemble is not None
    if ensemble.n_trees == 0:
        raise UsageError("the model has no trees.")
    return from_ensemble(ensemble).scaled(part.factor)


def _stumps(ranker: StumpRanker) -> Trees:
    """One tree per stump: at or below the threshold, or missing, it adds nothing."""
    n = len(ranker.stump_features_)
    if n == 0:
        raise UsageError("the model has no stumps.")
    return Trees(
        n_features=ranker.n_features_ or 0,
        nodes=np.arange(n + 1),
        leaves=2 * np.arange(n + 1),
        feature=ranker.stump_features_.astype(np.int32),
        threshold=np.clip(ranker.stump_thresholds_, -LARGEST, LARGEST),
        nan_left=np.ones(n, np.bool_),
        left=np.full(n, -1, np.int32),
        right=np.full(n, -2, np.int32),
        values=np.stack([np.zeros(n), ranker.stump_weights_], axis=1).reshape(-1),
    )
