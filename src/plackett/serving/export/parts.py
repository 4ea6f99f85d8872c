"""A ranker taken apart: which models it sums, with which factor, after which transforms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from plackett.base.errors import UsageError
from plackett.data.transforms import FittedChain, FittedTransform, QueryMinMax
from plackett.models.crossfit import CrossFit
from plackett.models.ensembles import EnsembleRanker
from plackett.models.linear import LinearRanker
from plackett.models.neural.ranker import Net
from plackett.models.ranker import Ranker
from plackett.models.stumps import StumpRanker
from plackett.models.trees import TreeRanker

Kind = Literal["trees", "linear", "net"]

_KINDS: tuple[tuple[Kind, tuple[type[Ranker], ...]], ...] = (
    ("trees", (TreeRanker, StumpRanker, EnsembleRanker)),
    ("linear", (LinearRanker,)),
    ("net", (Net,)),
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
