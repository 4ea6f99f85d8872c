"""A ranker taken apart: which models it sums, with which factor, after which transforms.

The trees of a sum of rankers.

Names of features, and what each target demands of them.

What happens to documents that lack a feature: checked against what a target does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from plackett.base.errors import UsageError
from plackett.data.transforms import FittedChain, FittedTransform, QueryMinMax
from plackett.models.crossfit import CrossFit
from plackett.models.ensembles import Ensemble, EnsembleRanker, read_lightgbm_sum
from plackett.models.linear import LinearRanker
from plackett.models.neural.ranker import BaseNeuralRanker
from plackett.models.ranker import Ranker
from plackett.models.stumps import StumpRanker
from plackett.models.trees import TreeRanker
from plackett.serving.export.trees import LARGEST, Trees, before_transforms, from_ensemble, joined

Kind = Literal["trees", "linear", "net"]

_KINDS: tuple[tuple[Kind, tuple[type[Ranker], ...]], ...] = (
    ("trees", (TreeRanker, StumpRanker, EnsembleRanker)),
    ("linear", (LinearRanker,)),
    ("net", (BaseNeuralRanker,)),
)


@dataclass(frozen=True)
class Part:
    """One model of a sum."""

    ranker: Ranker
    factor: float
    """What its scores are multiplied with."""
    transforms: tuple[FittedTransform, ...]
    """What its features go through first, in this order."""


def parts_of(ranker: Ranker) -> tuple[Part, ...]:
    """The models whose weighted sum the ranker is; refused if it is no such sum."""
    found = tuple(_parts(ranker, 1.0, ()))
    for part in found:
        if any(isinstance(each, QueryMinMax) for each in part.transforms):
            raise UsageError(
                "the model scales features within each list (query-minmax); search engines score "
                "one document at a time and cannot. Fit it with transforms=('standard',), or scale "
                "features before they reach plackett."
            )
    return found


def kind_of(parts: tuple[Part, ...]) -> Kind:
    """What the models of a sum are."""
    for kind, classes in _KINDS:
        if all(isinstance(part.ranker, classes) for part in parts):
            return kind
    names = sorted({type(part.ranker).__name__ for part in parts})
    raise UsageError(f"{' and '.join(names)} cannot be exported as one model.")


def _parts(ranker: Ranker, factor: float, before: tuple[FittedTransform, ...]) -> list[Part]:
    if ranker.n_features_ is None:
        raise UsageError(f"this {type(ranker).__name__} is not fitted yet; call fit first.")
    transforms = before + _flat(ranker.transform_)
    if not isinstance(ranker, CrossFit):
        return [Part(ranker, factor, transforms)]
    if ranker.combine != "scale":
        raise UsageError(
            f'CrossFit with combine="{ranker.combine}" brings scores to a common scale in each '
            "list; search engines score one document at a time and cannot. Use "
            'combine="scale".'
        )
    share = factor / len(ranker.members_)
    return [
        part
        for member, scale in zip(ranker.members_, ranker.scales_, strict=True)
        for part in _parts(member, share / float(scale), transforms)
    ]


def _flat(transform: FittedTransform | None) -> tuple[FittedTransform, ...]:
    if transform is None:
        return ()
    return transform.transforms if isinstance(transform, FittedChain) else (transform,)


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


_LIGHTGBM = ' \t\r\n",:[]{}'
_XGBOOST = "[]<"

_FORBIDDEN = {
    "lightgbm-text": _LIGHTGBM,
    "xgboost-json": _XGBOOST,
    "xgboost-ubj": _XGBOOST,
    "opensearch-xgboost": _XGBOOST,
}
"""Characters that a target refuses in names."""


def _of_file(ranker: Ranker) -> tuple[str, ...] | None:
    """Names that an imported model's file gives, but not those that LightGBM makes up."""
    names = ranker.ensemble_.feature_names if isinstance(ranker, EnsembleRanker) else None
    made_up = names and all(name == f"Column_{j}" for j, name in enumerate(names))
    return None if made_up else names


def names_for(ranker: Ranker, form: str, given: Sequence[str] | None) -> tuple[str, ...]:
    """Those given, else the model's or its file's, else f1, f2 and so on."""
    count = ranker.n_features_ or 0
    names = tuple(given) if given is not None else ranker.feature_names_ or _of_file(ranker)
    if names is None:
        return tuple(f"f{j + 1}" for j in range(count))
    if len(names) != count:
        raise UsageError(f"{len(names)} feature names for a model of {count} features.")
    if len(set(names)) != count:
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise UsageError(f"two features are called {twice!r}; names must differ.")
    for name in names:
        wrong = sorted(set(name) & set(_FORBIDDEN.get(form, "")))
        if wrong or not name:
            raise UsageError(
                f"{form} cannot hold the feature name {name!r}"
                + (f": it contains {wrong[0]!r}" if wrong else "")
                + "; give others with feature_names=."
            )
    return names


Missing = Literal["keep", "zero", "never"]
MISSING: tuple[Missing, ...] = ("keep", "zero", "never")


def differs_from_zero(trees: Trees) -> bool:
    """Whether some node sends a missing value elsewhere than zero."""
    return bool((trees.nan_left != trees.zero_left).any())


def check_absent_is_zero(trees: Trees, missing: Missing, target: str) -> None:
    """Refuse trees that treat missing values unlike zeros, for a target that reads them as zeros.

    With ``missing="never"`` the caller states that every document has every feature.
    """
    if missing != "never" and differs_from_zero(trees):
        count = int((trees.nan_left != trees.zero_left).sum())
        raise UsageError(
            f"{target} reads a missing feature as 0, but {count} splits of the model send missing "
            'values elsewhere than zeros. Export with missing="never" if every document has every '
            "feature, or fit the model on features without missing values."
        )
