"""Statistics of a data set, as in papers on ranking, and its fingerprint, which identifies it in results."""

import hashlib
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from plackett.base.ragged import factorize
from plackett.data.canonical import take
from plackett.data.dataset import Dataset, check_dataset
from plackett.data.large_arrays import check_before_use

_MOST_BINS = 12


@dataclass(frozen=True)
class Description:
    """Counts and shares of a data set (Zhu & Klabjan 2020, Table 1, and some more)."""

    n_lists: int
    n_docs: int
    n_features: int
    n_levels: int
    lowest_share: float
    """Share of documents with the lowest label (LR)."""
    longest: int
    """Documents in the longest list (MPQ)."""
    mean_lowest_share: float
    """Mean over lists of the share of documents with the lowest label (ALRPQ)."""
    shortest: int
    median_length: float
    mean_length: float
    blank_lists: int
    """Lists without a relevant document."""
    single_label_lists: int
    """Lists in which all documents have the same label."""
    zero_share: float
    """Share of feature values that are zero."""
    missing_share: float
    """Share of feature values that are missing (NaN)."""
    constant_features: int
    labels: dict[str, int]
    """Documents by label (by range, if there are many labels)."""
    lengths: dict[str, int]
    """Lists by number of documents, in ranges."""

    def to_dict(self) -> dict[str, Any]:
        """Data for JSON."""
        return asdict(self)


def describe(dataset: Dataset) -> Description:
    """Compute the statistics of a data set.

    >>> import plackett as pk
    >>> pk.describe(pk.Dataset.from_arrays([[1.0], [2.0]], [0, 1], [7, 7])).n_levels
    2
    """
    check_dataset(dataset)
    check_before_use(dataset.features)
    labels, sizes = dataset.labels, dataset.list_sizes
    levels = np.unique(labels)
    lowest = labels == levels[0]
    per_list = dataset.reduce_lists(np.add, lowest.astype(np.int64)) / sizes
    top = dataset.reduce_lists(np.maximum, labels)
    bottom = dataset.reduce_lists(np.minimum, labels)
    zero, missing, constant = _describe_features(dataset)
    return Description(
        n_lists=dataset.n_lists,
        n_docs=dataset.n_docs,
        n_features=dataset.n_features,
        n_levels=len(levels),
        lowest_share=float(lowest.mean()),
        longest=int(sizes.max()),
        mean_lowest_share=float(per_list.mean()),
        shortest=int(sizes.min()),
        median_length=float(np.median(sizes)),
        mean_length=float(sizes.mean()),
        blank_lists=int(np.sum(top == 0)),
        single_label_lists=int(np.sum(top == bottom)),
        zero_share=zero,
        missing_share=missing,
        constant_features=constant,
        labels=_label_counts(labels),
        lengths=_length_counts(sizes),
    )


def _describe_features(dataset: Dataset) -> tuple[float, float, int]:
    """Shares of zeros and of NaN, and the number of constant columns; one column at a time."""
    cells = dataset.n_docs * dataset.n_features
    if cells == 0:
        return 0.0, 0.0, 0
    if not isinstance(dataset.features, np.ndarray):
        values = dataset.features.data
        stored = int(np.count_nonzero(values))
        low = dataset.features.nanmin(axis=0).toarray()
        high = dataset.features.nanmax(axis=0).toarray()
        missing = int(np.isnan(values).sum())
        constant = int(np.sum((low == high) | np.isnan(low)))  # NaN: the whole column is missing
        return 1.0 - stored / cells, missing / cells, constant
    zeros = missing = constant = 0
    for column in dataset.features.T:
        zeros += column.size - int(np.count_nonzero(column))
        n_missing = int(np.isnan(column).sum())
        missing += n_missing
        present = column[~np.isnan(column)] if n_missing else column
        constant += int(present.size == 0 or present.min() == present.max())
    return zeros / cells, missing / cells, constant


def _label_counts(labels: np.ndarray[Any, np.dtype[np.float32]]) -> dict[str, int]:
    levels, counts = np.unique(labels, return_counts=True)
    if len(levels) <= _MOST_BINS:
        return {f"{level:g}": int(n) for level, n in zip(levels, counts, strict=True)}
    numbers, edges = np.histogram(labels, bins=_MOST_BINS)
    ranges = [f"{low:.3g}-{high:.3g}" for low, high in pairwise(edges)]
    return dict(zip(ranges, map(int, numbers), strict=True))


def _length_counts(sizes: np.ndarray[Any, np.dtype[np.int64]]) -> dict[str, int]:
    """Ranges 1, 2-3, 4-7, 8-15 ...: lengths have long tails, so bins double."""
    exponents = np.floor(np.log2(sizes)).astype(np.int64)
    result = {}
    for e in range(int(exponents.min()), int(exponents.max()) + 1):
        low, high = 2**e, 2 ** (e + 1) - 1
        result[f"{low}" if low == high else f"{low}-{high}"] = int(np.sum(exponents == e))
    return result


def fingerprint(data: Dataset) -> str:
    """Hash of features and their names, labels, lists, weights and groups: 32 hexadecimal digits.

    The keys of the lists are hashes of their documents, so features are not read again. The order
    of rows and the names of queries do not matter.
    """
    order = data.order
    digest = hashlib.sha256()
    for array in (order.keys, order.offsets, order.sort(data.labels)):
        digest.update(np.ascontiguousarray(array).tobytes())
    groups = take(data.groups, order.lists)
    optional = {
        b"weights": take(data.weights, order.lists),
        b"documents": None if data.document_weights is None else order.sort(data.document_weights),
        b"positions": None if data.positions is None else order.sort(data.positions),
        b"groups": None if groups is None else factorize(groups)[1],  # random splits depend on them
    }
    for name, values in optional.items():
        if values is not None:
            digest.update(name + values.tobytes())
    digest.update(repr((data.n_features, data.feature_names)).encode())
    if data.categories is not None:
        digest.update(repr(sorted(data.categories.items())).encode())
    return digest.hexdigest()[:32]
