"""Transforms one after the other, each fitted on what the one before it gives."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain as joined
from typing import ClassVar

from scipy.sparse import csr_array

from plackett.base.errors import UsageError
from plackett.base.ragged import Features, Offsets
from plackett.data.transforms.applying import applied
from plackett.data.transforms.base import FittedTransform, Transform


@dataclass(frozen=True, eq=False)
class Chain(Transform):
    """Several recipes, applied in order.

    A chain within a chain is taken apart, so equal sequences are equal values.
    """

    name: ClassVar[str] = "chain"
    transforms: tuple[Transform, ...]

    def __post_init__(self) -> None:
        for part in self.transforms:
            if not isinstance(part, Transform):
                raise UsageError(
                    f"chain takes transforms that are not fitted, such as Standard(), got {part!r}."
                )
        flat = (p.transforms if isinstance(p, Chain) else (p,) for p in self.transforms)
        object.__setattr__(self, "transforms", tuple(joined.from_iterable(flat)))

    def fit_features(self, features: Features | csr_array, offsets: Offsets) -> FittedChain:
        fitted: list[FittedTransform] = []
        for place, part in enumerate(self.transforms):
            fitted.append(part.fit_features(features, offsets))
            if place + 1 < len(self.transforms):  # the last output has no reader
                features = applied(fitted[-1], features, offsets)
        return FittedChain(tuple(fitted))


@dataclass(frozen=True, eq=False)
class FittedChain(FittedTransform):
    """Several fitted transforms, applied in order."""

    name: ClassVar[str] = "chain"
    transforms: tuple[FittedTransform, ...]

    def __post_init__(self) -> None:
        for part in self.transforms:
            if not isinstance(part, FittedTransform):
                raise UsageError(
                    f"a fitted chain takes fitted transforms, got {part!r}; fit it first."
                )
        flat = (p.transforms if isinstance(p, FittedChain) else (p,) for p in self.transforms)
        object.__setattr__(self, "transforms", tuple(joined.from_iterable(flat)))

    def apply(self, features: Features | csr_array, offsets: Offsets) -> Features | csr_array:
        if not self.transforms:
            return features.copy()
        for part in self.transforms:
            features = part.apply(features, offsets)
        return features


def chain(*transforms: Transform) -> Chain:
    """Apply transforms in the order given.

    Examples
    --------
    >>> from plackett.data.transforms import Log1p, Standard
    >>> chain(Log1p(), Standard())
    Chain(transforms=(Log1p(clip=None), Standard()))
    """
    return Chain(transforms)
