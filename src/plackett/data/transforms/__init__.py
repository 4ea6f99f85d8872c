"""Transforms of features: fitted to the training data, and stored with the model as numbers.

The dictionary that ``to_dict`` returns has a name, a version and numbers; all of it is checked when it is
read, and nothing in it is executed.
"""

from dataclasses import fields
from typing import Any

from plackett.base.errors import DataError, UsageError
from plackett.data.transforms.base import (
    FORMAT_VERSION,
    Chain,
    FittedCategories,
    FittedChain,
    FittedTransform,
    Transform,
    chain,
    encode_categories,
)
from plackett.data.transforms.features import (
    FittedImpute,
    FittedQuantile,
    FittedStandard,
    Impute,
    Log1p,
    Quantile,
    QueryMinMax,
    Standard,
)
from plackett.data.transforms.list_context import ListContext, ListMeans

__all__ = [
    "TRANSFORMS",
    "Chain",
    "FittedCategories",
    "FittedChain",
    "FittedImpute",
    "FittedQuantile",
    "FittedStandard",
    "FittedTransform",
    "Impute",
    "ListContext",
    "ListMeans",
    "Log1p",
    "Quantile",
    "QueryMinMax",
    "Standard",
    "Transform",
    "chain",
    "encode_categories",
    "transform",
    "transform_from_dict",
]


TRANSFORMS: tuple[type[Transform], ...] = (QueryMinMax, Standard, Log1p, Quantile, Impute, ListMeans, ListContext)
"""The transforms that ``transform`` makes by name; ``chain`` makes a chain."""

_UNFITTED: dict[str, type[Transform]] = {**{t.name: t for t in TRANSFORMS}, Chain.name: Chain}
_FITTED: dict[str, type[FittedTransform]] = {
    t.name: t for t in (FittedCategories, FittedStandard, FittedQuantile, FittedImpute, FittedChain)
}


def transform(name: str, **parameters: Any) -> Transform:
    """Make a transform by name, such as ``transform("quantile", n_quantiles=100)``."""
    by_name = {t.name: t for t in TRANSFORMS}
    if name not in by_name:
        raise UsageError(f"there is no transform {name!r}; there are {', '.join(by_name)}.")
    known = [f.name for f in fields(by_name[name])]  # type: ignore[arg-type]
    for parameter in parameters:
        if parameter not in known:
            raise UsageError(f"{name} has no parameter {parameter!r}; it has {', '.join(known) or 'none'}.")
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
        parts = content["transforms"]
        if not isinstance(parts, list):
            raise DataError(f"chain: transforms must be a list, got {type(parts).__name__}.")
        content = {"transforms": tuple(_restore(part, nested=True) for part in parts)}
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
