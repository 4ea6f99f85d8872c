"""The data set of a ranking problem: lists of documents with features and labels.

:class:`Table` holds rows as a reader produces them; :class:`Dataset` groups them into lists.
:func:`fingerprint` is a short hash of a data set, by which results name the data they come from.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from plackett.base.errors import DataError, DataWarning, Message, Parameter
from plackett.base.ragged import (
    Features,
    Ids,
    Keys,
    Labels,
    Offsets,
    Rows,
    list_of_document,
    offsets_from_sizes,
)
from plackett.data.canonical import arrange, arrange_hashes, hash_documents, permute_rows, take_rows
from plackett.data.inputs import (
    Missing,
    as_column,
    as_document_weights,
    as_features,
    as_groups,
    as_ids,
    as_labels,
    as_weights,
    check_features,
    check_names,
    factorize,
)

if TYPE_CHECKING:
    from plackett.data.clicks.propensities import Propensities


@dataclass(frozen=True)
class Table:
    """Rows of (query, document, features, label) in the order of their source.

    Readers check the values (labels finite and not negative, features finite unless missing values
    are allowed); ``Dataset.from_table`` groups and orders the rows.
    """

    features: Features | csr_array
    """float32; ``Dataset.from_table`` takes the array over and may reorder it in place."""
    labels: Labels
    query_ids: Ids
    """One per row: int64 or str."""
    document_ids: Ids | None = None
    """One per row: int64 or str."""
    weights: NDArray[np.float64] | None = None
    """One per row, the same in all rows of a list."""
    document_weights: NDArray[np.float64] | None = None
    """One per row."""
    groups: Ids | None = None
    """One per row, the same in all rows of a list: int64 or str."""
    feature_names: tuple[str, ...] | None = None
    source: str | None = None
    """Name of the file, for error messages."""
    full_rows: bool = True
    """False if rows of a text file leave features out, so that its width is only a lower bound."""

    @property
    def n_docs(self) -> int:
        """Number of rows."""
        return len(self.labels)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.features.shape[1])


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Lists of documents with features and labels, checked once when it is built.

    Documents are grouped by list. Within a list they are sorted by a hash of their features (and
    document id), and lists by the hash of their documents. This canonical order depends neither on
    the labels nor on the order of the caller's rows nor on the names of queries. ``rows`` gives the
    caller's row of each document.

    Build it with :meth:`from_arrays` or :func:`plackett.read`, not with the constructor.

    Examples
    --------
    >>> import plackett as pk
    >>> ds = pk.Dataset.from_arrays([[0.1], [0.9], [0.4]], [0, 2, 1], ["a", "b", "a"])
    >>> ds
    Dataset(2 lists, 3 documents, 1 feature, labels 0..2)
    >>> ds.to_rows(ds.labels).tolist()
    [0.0, 2.0, 1.0]
    """

    features: Features | csr_array
    """float32, one row per document: a C-contiguous array or a SciPy CSR array."""
    labels: Labels
    offsets: Offsets
    query_ids: Ids
    """One per list: int64 or str."""
    keys: Keys
    """One per list: the hash of its contents, which seeds its random numbers."""
    rows: Rows
    """One per document: its row in the caller's data."""
    document_ids: Ids | None = None
    weights: NDArray[np.float64] | None = None
    """One per list, or None for equal weights."""
    document_weights: NDArray[np.float64] | None = None
    """One per document: the factor of its gain. None: all 1."""
    feature_names: tuple[str, ...] | None = None
    groups: Rows | None = None
    """One per list: lists of the same group, such as impressions of one query, are kept together by
    random splits. None: each list is its own group."""

    def __post_init__(self) -> None:
        x = self.features
        arrays = (
            *((x.data, x.indices, x.indptr) if isinstance(x, csr_array) else (x,)),
            *(self.labels, self.offsets, self.query_ids, self.keys, self.rows),
            *(self.document_ids, self.weights, self.document_weights, self.groups),
        )
        for array in arrays:
            if array is not None:
                array.flags.writeable = False

    @classmethod
    def from_arrays(
        cls,
        features: Any,
        labels: Any,
        query_ids: Any,
        *,
        document_ids: Any = None,
        weights: Mapping[Any, float] | ArrayLike | None = None,
        document_weights: Any = None,
        groups: Any = None,
        feature_names: Sequence[str] | None = None,
        missing: Missing = None,
    ) -> Dataset:
        """Group rows, in any order, into lists.

        Parameters
        ----------
        features
            One row per document: a NumPy array, a pandas, polars or Arrow table, or a SciPy sparse
            matrix. Stored as float32.
        labels
            One non-negative real number per row; None for data without labels (all zero).
        query_ids
            One integer or string per row; rows of the same id form a list.
        document_ids
            Optional integer or string per row.
        weights
            Optional weight of each list: a mapping from query id, one value per list in order of
            first appearance, or one per row (the same in all rows of a list).
        document_weights
            Optional number per row, not negative: the factor of the document's gain, such as the
            inverse of its chance of being examined (see ``docs/guide/clicks``).
        groups
            Optional integer or string per row, the same in all rows of a list: lists of one group,
            such as impressions of one query, are kept together by random splits.
        feature_names
            Optional; by default the column names of the table, if it has any.
        missing
            "nan" if NaN stands for a missing value; otherwise NaN is refused.
        """
        matrix, names = as_features(features)
        n_docs = int(matrix.shape[0])
        if n_docs == 0:
            raise DataError("the data has no documents.")
        names = check_names(names if feature_names is None else feature_names, matrix.shape[1])
        check_features(matrix, missing, names)
        table = Table(
            features=matrix,
            labels=np.zeros(n_docs, np.float32) if labels is None else as_labels(labels, n_docs),
            query_ids=as_ids(query_ids, n_docs, what="query_ids"),
            document_ids=(
                None if document_ids is None else as_ids(document_ids, n_docs, what="document_ids")
            ),
            document_weights=(
                None if document_weights is None else as_document_weights(document_weights, n_docs)
            ),
            groups=None if groups is None else as_ids(groups, n_docs, what="groups"),
            feature_names=names,
        )
        return cls._group(table, weights, in_place=False)[0]

    @classmethod
    def from_table(cls, table: Table, *, strict: bool = False) -> Dataset:
        """Group the rows of a reader; takes over its arrays.

        Rows of a query that are not next to each other are merged with a
        :class:`~plackett.base.errors.DataWarning`, or refused if ``strict``.
        """
        dataset, contiguous = cls._group(table, table.weights, in_place=True)
        if not contiguous:
            if strict:
                text = f"{_describe_scattered(table.source)}; "
                raise DataError(Message(text, Parameter("strict", True), " refuses them."))
            warn_scattered(table.source)
        return dataset

    @classmethod
    def _group(cls, table: Table, weights: Any, *, in_place: bool) -> tuple[Dataset, bool]:
        """Group rows into lists; also returns whether the rows of each query were contiguous."""
        if table.n_docs == 0:
            raise DataError(f"{table.source or 'the data'} has no documents.")
        names, codes, contiguous = factorize(table.query_ids)
        per_list = None if weights is None else as_weights(weights, names, codes)
        groups = None if table.groups is None else as_groups(table.groups, names, codes)
        plan = arrange(table.features, codes, len(names), table.document_ids)
        features = table.features
        if in_place and not isinstance(features, csr_array):
            permute_rows(features, plan.rows)
        else:
            features = take_rows(features, plan.rows)
        dataset = cls(
            features=_view(features),
            labels=table.labels[plan.rows],
            offsets=plan.offsets,
            query_ids=names[plan.lists],
            keys=plan.keys,
            rows=plan.rows,
            document_ids=take(table.document_ids, plan.rows),
            weights=take(per_list, plan.lists),
            document_weights=take(table.document_weights, plan.rows),
            feature_names=table.feature_names,
            groups=take(groups, plan.lists),
        )
        return dataset, contiguous

    @classmethod
    def from_clicks(
        cls,
        clicks: Any,
        documents: Dataset,
        *,
        by: Literal["impression", "query"] = "impression",
        propensities: Propensities | Mapping[int, float] | ArrayLike | None = None,
        clip: float | None = None,
    ) -> Dataset:
        """Make training lists from a click log and the features of its documents.

        Parameters
        ----------
        clicks
            A :class:`~plackett.data.clicks.ClickLog`, or a table (pandas, polars, Arrow, a
            dictionary of columns) with ``impression``, ``query``, ``document``, ``position`` and
            ``click``; :func:`plackett.data.clicks.read_clicks` reads one from a file.
        documents
            The features: a data set with document ids. Its labels are not used.
        by
            ``"impression"``: a list holds the documents of one impression, its labels are the
            clicks. ``"query"``: a list holds all documents ever shown for a query; a document's
            label is 1 if it was ever clicked, and its weight grows with the sum of its clicks.
        propensities
            Probability that each position is examined, to correct position bias: a click at
            position k counts 1/propensity, through the weights of list and document. None: it
            counts 1.
        clip
            Lower bound of the propensities: less variance for some bias. None: 0.2 for lists by
            impression, no bound for lists by query.
        """
        from plackett.data.clicks.lists import lists_from_clicks  # imports this module

        return lists_from_clicks(clicks, documents, by=by, propensities=propensities, clip=clip)

    @property
    def n_lists(self) -> int:
        """Number of lists."""
        return len(self.offsets) - 1

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return len(self.labels)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.features.shape[1])

    def to_rows(self, scores: ArrayLike) -> NDArray[Any]:
        """Put one value per document in the order of the caller's rows."""
        values = np.asarray(scores)
        if values.shape[:1] != (self.n_docs,):
            raise DataError(f"expected {self.n_docs} values, one per document, got {values.shape}.")
        return values[np.argsort(self.rows, kind="stable")]

    def lists(self, start: int, stop: int) -> Dataset:
        """Return the lists from position ``start`` to ``stop`` as views of the features."""
        if not 0 <= start < stop <= self.n_lists:
            raise DataError(
                f"lists({start}, {stop}): positions must satisfy 0 <= start < stop <= "
                f"{self.n_lists}."
            )
        low, high = int(self.offsets[start]), int(self.offsets[stop])
        offsets = self.offsets[start : stop + 1] - low
        return self._pick(slice(low, high), slice(start, stop), offsets, self.keys[start:stop])

    def select(self, lists: ArrayLike) -> Dataset:
        """Return the lists at these positions, in canonical order.

        Contiguous lists share the features of this data set; others are copied.
        """
        positions = np.asarray(lists)
        if positions.size and positions.dtype.kind not in "iu":
            raise DataError(f"positions of lists are integers, got {positions.dtype}.")
        positions = np.unique(positions.astype(np.int64))
        if len(positions) == 0:
            raise DataError("a data set needs at least one list; none was selected.")
        first, last = int(positions[0]), int(positions[-1])
        if first < 0 or last >= self.n_lists:
            bad = first if first < 0 else last
            raise DataError(f"there is no list {bad}: positions go from 0 to {self.n_lists - 1}.")
        if last - first + 1 == len(positions):
            return self.lists(first, last + 1)
        sizes = np.diff(self.offsets)[positions]
        offsets = offsets_from_sizes(sizes)
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
        documents = np.repeat(self.offsets[positions], sizes) + within
        return self._pick(documents, positions, offsets, self.keys[positions])

    def documents(self, keep: ArrayLike) -> Dataset:
        """Return the documents where ``keep`` is true; lists left without documents are dropped.

        The contents of lists change, and with them their keys and order. ``rows`` still refer to
        the caller's rows.
        """
        mask = as_column(keep)
        if mask.dtype != np.bool_ or mask.shape != (self.n_docs,) or not mask.any():
            raise DataError(f"keep must be {self.n_docs} booleans, at least one of them true.")
        lists, codes = np.unique(list_of_document(self.offsets)[mask], return_inverse=True)
        hashes = hash_documents(self.features, self.document_ids)[mask]
        plan = arrange_hashes(hashes, codes, len(lists))
        documents = np.flatnonzero(mask)[plan.rows]
        return self._pick(documents, lists[plan.lists], plan.offsets, plan.keys)

    def _pick(
        self, documents: Rows | slice, lists: Rows | slice, offsets: Offsets, keys: Keys
    ) -> Dataset:
        """Return these documents, which form these lists."""
        return replace(
            self,
            features=take_rows(self.features, documents),
            labels=self.labels[documents],
            offsets=offsets,
            query_ids=self.query_ids[lists],
            keys=keys,
            rows=self.rows[documents],
            document_ids=take(self.document_ids, documents),
            weights=take(self.weights, lists),
            document_weights=take(self.document_weights, documents),
            groups=take(self.groups, lists),
        )

    def with_features(self, features: Any) -> Dataset:
        """Return the same documents with other features, in the same order and with the same keys.

        The features may be of any type that :meth:`from_arrays` takes; NaN is a missing value.
        """
        matrix, _ = as_features(features)
        if matrix.shape[0] != self.n_docs:
            raise DataError(f"expected {self.n_docs} rows of features, got {matrix.shape[0]}.")
        names = self.feature_names if matrix.shape[1] == self.n_features else None
        check_features(matrix, "nan", names)
        return replace(self, features=_view(matrix), feature_names=names)

    def with_labels(self, labels: ArrayLike) -> Dataset:
        """Return the same documents with other labels, in the same order and with the same keys."""
        return replace(self, labels=as_labels(labels, self.n_docs))

    def __repr__(self) -> str:
        plural = "" if self.n_features == 1 else "s"
        low, high = (f"{v:g}" for v in (self.labels.min(), self.labels.max()))
        return (
            f"Dataset({self.n_lists:,} lists, {self.n_docs:,} documents, "
            f"{self.n_features:,} feature{plural}, labels {low}..{high})"
        )


def take(values: NDArray[Any] | None, positions: Rows | slice) -> NDArray[Any] | None:
    """The values at these positions, or None for an array that is absent."""
    return None if values is None else values[positions]


def _view(features: Features | csr_array) -> Features | csr_array:
    """A view, so that making it read-only does not change the caller's array."""
    return features if isinstance(features, csr_array) else features.view()


def warn_scattered(source: str | None) -> None:
    """Warn that the rows of some queries are not next to each other."""
    warnings.warn(f"{_describe_scattered(source)}.", DataWarning, stacklevel=5)


def _describe_scattered(source: str | None) -> str:
    return (
        f"{source or 'the data'}: the rows of some queries are not next to each other; rows with "
        "the same query id form one list"
    )


def fingerprint(data: Dataset) -> str:
    """Hash of features and their names, labels, lists, weights and groups: 32 hexadecimal digits.

    The keys of the lists are hashes of their documents, so features are not read again. The order
    of rows and the names of queries do not matter.
    """
    digest = hashlib.sha256()
    for array in (data.keys, data.offsets, data.labels):
        digest.update(np.ascontiguousarray(array).tobytes())
    for name, weights in ((b"weights", data.weights), (b"documents", data.document_weights)):
        if weights is not None:
            digest.update(name + np.ascontiguousarray(weights).tobytes())
    if data.groups is not None:  # random splits depend on them
        digest.update(b"groups" + factorize(data.groups)[1].tobytes())
    digest.update(repr((data.n_features, data.feature_names)).encode())
    return digest.hexdigest()[:32]
