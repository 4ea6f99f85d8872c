"""Base classes of transforms, before and after fitting, and chains of them.

A :class:`Transform` holds parameters. Its ``fit`` reads a data set and returns a :class:`FittedTransform`, which holds
numbers and changes features. Both are frozen; both become plain data with ``to_dict`` and are restored, to the bit, by
:func:`~plackett.data.transforms.transform_from_dict`. A transform that has nothing to learn (``query-minmax``,
``log1p``) is its own fitted transform.

All transforms follow these rules:

- ``apply`` returns a new float32 array and does not change its input. The result of a document
  depends only on its own features or on those of its list, so large features can be transformed in
  blocks of whole lists (:func:`apply_in_blocks`).
- Features are finite or NaN, as :class:`~plackett.data.dataset.Dataset` has checked. NaN stays
  NaN, except under ``impute``; it is ignored in fitting. No result is infinite.
- Features stored as CSR stay CSR if the transform keeps zeros (``log1p``). The other transforms raise
  an error for them: the result would be dense and may not fit in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.errors import DataError, FeatureMismatch, UsageError
from plackett.base.ragged import Features, Offsets, list_blocks
from plackett.data.large_arrays import allocate, is_large, release_pages, rows_per_block

if TYPE_CHECKING:
    from plackett.data.dataset import Dataset


Stateless = TypeVar("Stateless", bound="StatelessTransform")

FORMAT_VERSION = 1
"""Version of the dictionaries; raised when their meaning changes."""


class _Value:
    """Equality, hash and serialization of a frozen dataclass whose fields may be arrays."""

    name: ClassVar[str]
    kind: ClassVar[str]
    """Which key of the dictionary holds the fields: "parameters" or "fitted"."""

    def to_dict(self) -> dict[str, Any]:
        """Data for JSON: strings, numbers and lists only."""
        content = {f.name: _to_plain(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]
        return {"transform": self.name, "version": FORMAT_VERSION, self.kind: content}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(repr(self.to_dict()))


class Transform(_Value, ABC):
    """A transform before fitting: parameters from which ``fit`` makes a fitted transform."""

    kind = "parameters"

    def fit(self, dataset: Dataset) -> FittedTransform:
        """Fit to the features of a data set (training data, never test data)."""
        canonical = dataset.canonical()  # sums do not depend on the order of the rows
        return self.fit_features(canonical.features, canonical.offsets)

    @abstractmethod
    def fit_features(self, features: Features | csr_array, offsets: Offsets) -> FittedTransform:
        """Fit to the arrays of a data set."""


class FittedTransform(_Value, ABC):
    """A transform after fitting: numbers that change features."""

    kind = "fitted"
    uses_lists: ClassVar[bool] = False
    """Whether a document's result depends on the other documents of its list."""

    def width(self, n_features: int) -> int:
        """The number of features of the result."""
        return n_features

    def names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The names of the features of the result."""
        return names

    def source(self, n_features: int) -> Iterator[int]:
        """For each feature of the result, the feature that it is made of; -1: none."""
        yield from range(n_features)

    @abstractmethod
    def apply(self, features: Features | csr_array, offsets: Offsets) -> Features | csr_array:
        """Return changed features, float32, in a new array."""

    def _check_fields(self, floats: Sequence[str], counts: Sequence[str] = ()) -> None:
        """Make fields arrays of finite numbers, or tuples of counts, from those of a caller or a file."""
        for name in floats:
            array = finite_floats(getattr(self, name), f"{self.name}: {name}")
            object.__setattr__(self, name, array)  # the dataclass is frozen
        for name in counts:
            numbers = getattr(self, name)
            if not isinstance(numbers, (list, tuple)) or any(type(n) is not int or n < 0 for n in numbers):
                raise DataError(f"{self.name}: {name} must be a list of integers, zero or greater.")
            object.__setattr__(self, name, tuple(numbers))


def _to_plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return [_to_plain(item) for item in value]
    return value.to_dict() if isinstance(value, _Value) else value


class StatelessTransform(Transform, FittedTransform):
    """A transform that has nothing to learn: it is its own fitted transform."""

    def fit_features(self: Stateless, features: Features | csr_array, offsets: Offsets) -> Stateless:
        require_dense(features, self.name)
        return self


def require_dense(features: Features | csr_array, name: str, n_features: int | None = None) -> Features:
    """Return the features; raise if they are sparse, or their number differs from that in the fit."""
    if isinstance(features, csr_array):
        raise DataError(
            f"{name} does not support sparse features (CSR): it would fill in their zeros. Use log1p, which keeps "
            "zeros, no transform at all (transforms=()), or dense features (features.toarray()) if they fit in memory."
        )
    if n_features is not None and features.shape[1] != n_features:
        raise FeatureMismatch(
            f"{name} was fitted on {n_features} features, got {features.shape[1]}; give the same "
            "features as in training."
        )
    return features


def finite_floats(values: Any, what: str) -> NDArray[np.float64]:
    """Make a read-only float64 array of finite numbers, from an array or a list of a file."""
    is_list = isinstance(values, (list, tuple)) and all(type(v) in (int, float) for v in values)
    if not is_list and not (isinstance(values, np.ndarray) and values.dtype.kind in "fiu"):
        kind = type(values).__name__
        if isinstance(values, (list, tuple)):
            wrong = next(v for v in values if type(v) not in (int, float))
            kind = f"a list with {type(wrong).__name__} in it"
        raise DataError(f"{what} must be a list of numbers, got {kind}.")
    try:
        result = np.array(values, dtype=np.float64)
    except OverflowError as error:
        raise DataError(f"{what} must be numbers that fit in 64 bits: {error}.") from error
    if result.ndim != 1 or not np.isfinite(result).all():
        raise DataError(f"{what} must be one list of finite numbers.")
    result.flags.writeable = False
    return result


def apply_in_blocks(
    transform: FittedTransform, features: Features | csr_array, offsets: Offsets
) -> Features | csr_array:
    """Apply a transform to features of any size; the result of large ones is in a scratch file."""
    if isinstance(features, csr_array) or not is_large(features):
        return transform.apply(features, offsets)
    out = allocate(features, (len(features), transform.width(features.shape[1])))
    for start, stop in list_blocks(offsets, rows_per_block(features[0].nbytes)):
        low, high = int(offsets[start]), int(offsets[stop])
        out[low:high] = transform.apply(features[low:high], offsets[start : stop + 1] - low)
        release_pages(features)
        release_pages(out)
    return out


def _flatten(parts: Sequence[Any], kind: type, problem: str) -> tuple[Any, ...]:
    """The transforms of a chain, which must be of one kind, with inner chains flattened."""
    for part in parts:
        if not isinstance(part, kind):
            raise UsageError(problem.format(part))
    return tuple(single for part in parts for single in getattr(part, "transforms", (part,)))


@dataclass(frozen=True, eq=False)
class Chain(Transform):
    """Several transforms, applied in order; each is fitted to the result of the one before it.

    A chain within a chain is flattened, so equal sequences are equal values.
    """

    name: ClassVar[str] = "chain"
    transforms: tuple[Transform, ...]

    def __post_init__(self) -> None:
        problem = "chain takes transforms that are not fitted, such as Standard(), got {!r}."
        object.__setattr__(self, "transforms", _flatten(self.transforms, Transform, problem))

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
        problem = "a fitted chain takes fitted transforms, got {!r}; fit it first."
        object.__setattr__(self, "transforms", _flatten(self.transforms, FittedTransform, problem))

    @property
    def uses_lists(self) -> bool:  # type: ignore[override]
        """Whether one of the transforms does."""
        return any(part.uses_lists for part in self.transforms)

    def width(self, n_features: int) -> int:
        for part in self.transforms:
            n_features = part.width(n_features)
        return n_features

    def names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        for part in self.transforms:
            names = part.names(names)
        return names

    def source(self, n_features: int) -> Iterator[int]:
        sources = list(range(n_features))
        for part in self.transforms:
            sources = [sources[j] if j >= 0 else -1 for j in part.source(len(sources))]
        yield from sources

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


_PRIOR_DOCUMENTS = 10


@dataclass(frozen=True, eq=False, repr=False)
class FittedCategories(FittedTransform):
    """A number for each value of the features that hold categories; other features are unchanged."""

    name: ClassVar[str] = "categories"
    columns: tuple[int, ...]
    sizes: tuple[int, ...]
    """The number of values of each of these columns."""
    values: NDArray[np.float64]
    """The numbers for all columns, one column after the other."""

    def __post_init__(self) -> None:
        self._check_fields(floats=["values"], counts=["columns", "sizes"])
        if len(self.columns) != len(self.sizes) or sum(self.sizes) != len(self.values):
            raise DataError("categories: columns, sizes and values must belong together.")

    def apply(self, features: Features | csr_array, offsets: Offsets) -> Features:
        out = require_dense(features, self.name).copy()
        if self.columns and max(self.columns) >= out.shape[1]:
            raise DataError(f"categories: there is no feature {max(self.columns) + 1}.")
        tables = np.split(self.values, np.cumsum(self.sizes)[:-1]) if self.columns else []
        for column, table in zip(self.columns, tables, strict=True):
            numbers = out[:, column]
            known = (numbers >= 0) & (numbers < len(table))  # NaN is not
            codes = np.where(known, numbers, len(table)).astype(np.int64)
            out[:, column] = np.append(table, 0.0)[codes]
        return out

    def __repr__(self) -> str:
        return f"FittedCategories({len(self.columns)} features)"


def encode_categories(dataset: Dataset) -> FittedCategories:
    """Fit the encoding to the labels of a data set in canonical order (training data, never test data)."""
    categories, names = dataset.categories or {}, dataset.feature_names or ()
    means = dataset.reduce_lists(np.add, dataset.labels.astype(np.float64)) / dataset.list_sizes
    relative = dataset.labels - means[dataset.list_of_row]
    columns = tuple(names.index(name) for name in categories)
    sizes = tuple(len(values) for values in categories.values())
    tables = [np.empty(0)]
    for column, size in zip(columns, sizes, strict=True):
        numbers = np.asarray(dataset.features[:, column])
        known = ~np.isnan(numbers)
        codes = numbers[known].astype(np.int64)
        sums = np.bincount(codes, relative[known], minlength=size)
        tables.append(sums / (np.bincount(codes, minlength=size) + _PRIOR_DOCUMENTS))
    return FittedCategories(columns, sizes, np.concatenate(tables))
