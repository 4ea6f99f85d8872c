"""A ranker as a weighted sum of models, for export.

Each part is one model with its factor and its transforms; its kind (trees, linear, net) determines which targets can
represent the sum. This module also checks feature names and missing values against what a target supports.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from plackett.base.errors import Message, Parameter, UsageError
from plackett.data.transforms import FittedCategories, FittedChain, FittedTransform, QueryMinMax
from plackett.models import AutoRanker, BaseLinearRanker, BaseNeuralRanker, CrossFit, Ranker, StumpRanker, TreeRanker
from plackett.models.ensembles import EnsembleRanker, read_lightgbm_sum
from plackett.serving.export import trees

ModelKind = Literal["trees", "linear", "net"]
Missing = Literal["keep", "zero", "never"]

_KINDS: tuple[tuple[ModelKind, tuple[type[Ranker], ...]], ...] = (
    ("trees", (TreeRanker, StumpRanker, EnsembleRanker)),
    ("linear", (BaseLinearRanker,)),
    ("net", (BaseNeuralRanker,)),
)


@dataclass(frozen=True)
class Part:
    """One model of a weighted sum."""

    ranker: Ranker
    factor: float
    transforms: tuple[FittedTransform, ...]


@dataclass(frozen=True)
class ExportRequest:
    """A model to be written, with the caller's options."""

    parts: tuple[Part, ...]
    kind: ModelKind
    names: tuple[str, ...]
    name: str
    missing: Missing

    @cached_property
    def trees(self) -> trees.Trees:
        """All trees of the parts, on untransformed features, with the factors in their leaves."""
        return trees.concatenate([trees.undo_transforms(_part_trees(p), p.transforms) for p in self.parts])


def find_parts(ranker: Ranker) -> tuple[Part, ...]:
    """Return the models whose weighted sum is the ranker; raise UsageError if it is not such a sum."""
    parts = tuple(_find_parts(ranker, 1.0, ()))
    for part in parts:
        if any(isinstance(transform, QueryMinMax) for transform in part.transforms):
            raise UsageError(
                "the model scales features within each list (query-minmax); search engines score one document at a "
                "time and cannot do this. Fit it with transforms=('standard',), or scale features before they reach "
                "plackett."
            )
        if any(transform.uses_lists for transform in part.transforms):
            raise UsageError(
                "the model uses features of the whole list (list-means or list-context); search engines score one "
                "document at a time and cannot compute them. Fit it without these transforms, serve it with plackett, "
                'or fit an AutoRanker with distill="trees".'
            )
    return parts


def _find_parts(ranker: Ranker, factor: float, before: tuple[FittedTransform, ...]) -> list[Part]:
    if ranker.n_features_ is None:
        raise UsageError(f"this {type(ranker).__name__} is not fitted yet; call fit first.")
    fitted = ranker.transform_
    chain = fitted.transforms if isinstance(fitted, FittedChain) else (fitted,)
    transforms = before + tuple(transform for transform in chain if transform is not None)
    if any(isinstance(transform, FittedCategories) for transform in transforms):
        raise UsageError(
            f"this {type(ranker).__name__} encodes categories, which export targets do not support. Export trees "
            "(lightgbm-text), serve the model with plackett, or encode the categories as features before fit."
        )
    if isinstance(ranker, AutoRanker):
        return [part for member, weight in ranker.parts() for part in _find_parts(member, factor * weight, transforms)]
    if not isinstance(ranker, CrossFit):
        return [Part(ranker, factor, transforms)]
    if ranker.combine != "scale":
        raise UsageError(
            f'CrossFit with combine="{ranker.combine}" brings scores to a common scale in each '
            "list; search engines score one document at a time and cannot do this. Use "
            'combine="scale".'
        )
    share = factor / len(ranker.members_)
    return [
        part
        for member, scale in zip(ranker.members_, ranker.scales_, strict=True)
        for part in _find_parts(member, share / float(scale), transforms)
    ]


def find_kind(parts: tuple[Part, ...]) -> ModelKind:
    """Return the kind that all models of a sum share."""
    for kind, classes in _KINDS:
        if all(isinstance(part.ranker, classes) for part in parts):
            return kind
    names = sorted({type(part.ranker).__name__ for part in parts})
    raise UsageError(
        f"{' and '.join(names)} cannot be exported as one model. An AutoRanker with "
        'distill="trees" can, and so can one with members="trees".'
    )


def _part_trees(part: Part) -> trees.Trees:
    ranker = part.ranker
    if isinstance(ranker, StumpRanker):
        return _stump_trees(ranker).scale(part.factor)
    if isinstance(ranker, EnsembleRanker):
        ensemble = ranker.ensemble_
    else:
        assert isinstance(ranker, TreeRanker)
        ensemble = read_lightgbm_sum(ranker.model_)
    if ensemble.n_trees == 0:
        raise UsageError("the model has no trees.")
    return trees.from_ensemble(ensemble).scale(part.factor)


def _stump_trees(ranker: StumpRanker) -> trees.Trees:
    """One tree per stump; values at or below the threshold and missing ones add nothing."""
    n = len(ranker.stump_features_)
    if n == 0:
        raise UsageError("the model has no stumps.")
    return trees.Trees(
        n_features=ranker.n_features_ or 0,
        node_offsets=np.arange(n + 1),
        leaf_offsets=2 * np.arange(n + 1),
        feature=ranker.stump_features_.astype(np.int32),
        threshold=np.clip(ranker.stump_thresholds_, -trees.LARGEST, trees.LARGEST),
        nan_left=np.ones(n, np.bool_),
        left=np.full(n, -1, np.int32),
        right=np.full(n, -2, np.int32),
        values=np.stack([np.zeros(n), ranker.stump_weights_], axis=1).reshape(-1),
    )


_FORBIDDEN = {
    "lightgbm-text": ' \t\r\n",:[]{}',
    **dict.fromkeys(("xgboost-json", "xgboost-ubj", "opensearch-xgboost"), "[]<"),
}
"""Characters that a target does not accept in names of features."""


def check_feature_names(ranker: Ranker, target: str, names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the given names, else the model's or its file's, else f1, f2 and so on."""
    count = ranker.n_features_ or 0
    chosen = tuple(names) if names is not None else ranker.feature_names_
    if chosen is None and isinstance(ranker, EnsembleRanker):  # unless LightGBM made them up
        of_file = ranker.ensemble_.feature_names
        chosen = None if of_file == tuple(f"Column_{j}" for j in range(count)) else of_file
    if chosen is None:
        return tuple(f"f{j + 1}" for j in range(count))
    if len(chosen) != count:
        raise UsageError(f"{len(chosen)} feature names for a model of {count} features.")
    if len(set(chosen)) != count:
        repeated = next(name for i, name in enumerate(chosen) if name in chosen[:i])
        raise UsageError(f"two features are called {repeated!r}; names must differ.")
    for name in chosen:
        forbidden = sorted(set(name) & set(_FORBIDDEN.get(target, "")))
        if forbidden or not name:
            reason = f": it contains {forbidden[0]!r}" if forbidden else ""
            text = f"{target} does not accept the feature name {name!r}{reason}; give others with "
            raise UsageError(Message(text, Parameter("feature_names"), "."))
    return chosen


def check_absent_is_zero(request: ExportRequest, target: str) -> None:
    """Raise UsageError if the target reads missing values as zeros and the trees treat them differently.

    With ``missing="never"`` the caller states that every document has every feature.
    """
    count = int(request.trees.nan_differs_from_zero.sum())
    if request.missing != "never" and count:
        raise UsageError(
            Message(
                f"{target} reads a missing feature as 0, but {count} splits of the model send "
                "missing values elsewhere than zeros. Export with ",
                Parameter("missing", "never"),
                " if every document has every feature, or fit the model on features without missing values.",
            )
        )
