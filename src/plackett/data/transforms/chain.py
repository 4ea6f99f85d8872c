"""Chains of transforms, transforms by name, and transforms restored from plain data.

A dictionary of ``to_dict`` holds a name, a version and numbers; all of it is checked when it is
read, and nothing in it is executed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import chain as concatenate
from typing import Any, ClassVar

from scipy.sparse import csr_array

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import Features, Offsets
from plackett.data.transforms.base import (
    FORMAT_VERSION,
    FittedTransform,
    Transform,
    apply_in_blocks,
)
from plackett.data.transforms.impute import FittedImpute, Impute
from plackett.data.transforms.quantile import FittedQuantile, Quantile
from plackett.data.transforms.scaling import FittedStandard, Log1p, QueryMinMax, Standard


@dataclass(frozen=True, eq=False)
class Chain(Transform):
    """Several transforms, applied in order; each is fitted to the result of the one before it.

    A chain within a chain is flattened, so equal sequences are equal values.
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
        object.__setattr__(self, "transforms", tuple(concatenate.from_iterable(flat)))

    def fit_features(self, features: Features | csr_array, offsets: Offsets) -> FittedChain:
        fitted: list[FittedTransform] = []
        for number, part in enumerate(self.transforms, start=1):
            fitted.append(part.fit_features(features, offsets))
            if number < len(self.transforms):  # the last result is not needed
                features = apply_in_blocks(fitted[-1], features, offsets)
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
        object.__setattr__(self, "transforms", tuple(concatenate.from_iterable(flat)))

    @property
    def uses_lists(self) -> bool:  # type: ignore[override]
        """Whether one of the transforms does."""
        return any(part.uses_lists for part in self.transforms)

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


TRANSFORMS: tuple[type[Transform], ...] = (QueryMinMax, Standard, Log1p, Quantile, Impute)
"""The transforms that ``transform`` makes by name; ``chain`` makes a chain."""

_UNFITTED: dict[str, type[Transform]] = {**{t.name: t for t in TRANSFORMS}, Chain.name: Chain}
_FITTED: dict[str, type[FittedTransform]] = {
    t.name: t for t in (FittedStandard, FittedQuantile, FittedImpute, FittedChain)
}


def transform(name: str, **parameters: Any) -> Transform:
    """Make a transform by name, such as ``transform("quantile", n_quantiles=100)``."""
    by_name = {t.name: t for t in TRANSFORMS}
    if name not in by_name:
        raise UsageError(f"there is no transform {name!r}; there are {', '.join(by_name)}.")
    known = [f.name for f in fields(by_name[name])]  # type: ignore[arg-type]
    for parameter in parameters:
        if parameter not in known:
            raise UsageError(
                f"{name} has no parameter {parameter!r}; it has {', '.join(known) or 'none'}."
            )
    return by_name[name](**parameters)


def transform_from_dict(data: Any) -> Transform | FittedTransform:
    """Restore a transform, fitted or not, from the dictionary of its ``to_dict``."""
    return _restore(data, nested=False)


def _restore(data: Any, *, nested: bool) -> Transform | FittedTransform:
    kind = _check_envelope(data)
    classes: dict[str, Any] = dict(_UNFITTED if kind == "parameters" else _FITTED)
    if nested:
        del classes["chain"]  # chains are flat; this also bounds the depth of the recursion
    name = data["transform"]
    if not isinstance(name, str) or name not in classes:
        raise DataError(f"unknown transform {name!r} ({kind}); known are {', '.join(classes)}.")
    content = data[kind]
    expected = [f.name for f in fields(classes[name])]
    if not isinstance(content, dict) or set(content) != set(expected):
        actual = sorted(map(str, content)) if isinstance(content, dict) else content
        raise DataError(f"{name}: {kind} must be {expected}, got {actual}.")
    if name == "chain":
        content = {"transforms": _restore_parts(content["transforms"])}
    try:
        result: Transform | FittedTransform = classes[name](**content)
    except UsageError as error:  # here the wrong value is in the data, not in the caller's code
        raise DataError(str(error)) from error
    return result


def _check_envelope(data: Any) -> str:
    """Check everything but the numbers, and return the key that holds them."""
    if not isinstance(data, dict) or "transform" not in data or "version" not in data:
        raise DataError('a transform is a dictionary with "transform" and "version".')
    version = data["version"]
    if type(version) is not int or version != FORMAT_VERSION:
        raise DataError(
            f"the transform has version {version!r}; this release reads version {FORMAT_VERSION}. "
            "Fit it again, or use the release that wrote it."
        )
    kinds = sorted(set(data) - {"transform", "version"}, key=str)
    if kinds not in (["parameters"], ["fitted"]):
        raise DataError(f'a transform has either "parameters" or "fitted", got {kinds}.')
    return str(kinds[0])


def _restore_parts(parts: Any) -> tuple[Transform | FittedTransform, ...]:
    if not isinstance(parts, list):
        raise DataError(f"chain: transforms must be a list, got {type(parts).__name__}.")
    return tuple(_restore(part, nested=True) for part in parts)
