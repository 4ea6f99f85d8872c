"""The one form in which ranking data travels through plackett.

Rows as they came, before they are grouped into lists: what every reader produces.

A short name for the contents of a data set, so that results can say what they were made from.
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

from plackett.base.errors import DataError, DataWarning
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
    first_appearance,
)

if TYPE_CHECKING:
    from plackett.data.clicks.propensities import Propensities


@dataclass(frozen=True)
class Table:
    """Rows of (query, document, features, label) in the order of their source.

    Readers have checked the values (labels finite and not negative, features finite unless
    missing values were allowed); grouping and ordering is left to ``Dataset.from_table``.
    """

    features: Features | csr_array
    """float32; a reader gives its array away: ``Dataset.from_table`` may reorder it in place."""
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
    """Name of the file, for messages."""
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
    """Lists of documents with features and labels, validated once and then trusted.

    Documents are grouped by list. Within a list they stand in the order of a hash of their
    features (and document id), lists in the order of the hash of their documents: an order that
    depends neither on the labels nor on how the caller's rows were sorted or queries were named.
    ``rows`` leads back to the caller's order.

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
    """One per list: the hash of its contents, to which noise is keyed."""
    rows: Rows
    """One per document: its row in what the caller gave."""
    document_ids: Ids | None = None
    weights: NDArray[np.float64] | None = None
    """One per list, or None for equal weights."""
    document_weights: NDArray[np.float64] | None = None
    """One per document: the factor of its gain; or None, all 1."""
    feature_names: tuple[str, ...] | None = None
    groups: Rows | None = None
    """One per list: lists of the same number belong together, such as impressions of one query, and
    random divisions do not part them; None: each list stands for itself."""

    def __post_init__(self) -> None:
        for array in (self.labels, self.offsets, self.query_ids, self.keys, self.rows):
            array.flags.writeable = False
        x = self.features
        for array in (x.data, x.indices, x.indptr) if isinstance(x, csr_array) else (x,):
            array.flags.writeable = False
        for optional in (self.document_ids, self.weights, self.document_weights, self.groups):
            if optional is not None:
                optional.flags.writeable = False

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
            such as impressions of one query, are never parted by a random division.
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
        return cls._group(table, weights, owned=False)[0]

    @classmethod
    def from_table(cls, table: Table, *, strict: bool = False) -> Dataset:
        """Group the rows a reader gave; takes over its arrays.

        A query id that comes back after another one is merged with its first rows and a
        :class:`~plackett.base.errors.DataWarning`, or refused if ``strict``.
        """
        dataset, contiguous = cls._group(table, table.weights, owned=True)
        if not contiguous:
            report_scattered(table.source, strict=strict)
        return dataset

    @classmethod
    def _group(cls, table: Table, weights: Any, *, owned: bool) -> tuple[Dataset, bool]:
        if table.n_docs == 0:
            raise DataError(f"{table.source or 'the data'} has no documents.")
        names, codes, contiguous = first_appearance(table.query_ids)
        per_list = None if weights is None else as_weights(weights, names, codes)
        groups = None if table.groups is None else as_groups(table.groups, names, codes)
        plan = arrange(table.features, codes, len(names), table.document_ids)
        features = table.features
        if isinstance(features, csr_array):
            features = features[plan.rows]
        else:
            features = (
                permute_rows(features, plan.rows) if owned else take_rows(features, plan.rows)
            )
        dataset = cls(
            # A view: making it read-only must not touch an array that is still the caller's.
            features=features if isinstance(features, csr_array) else features.view(),
            labels=table.labels[plan.rows],
            offsets=plan.offsets,
            query_ids=names[plan.lists],
            keys=plan.keys,
            rows=plan.rows,
            document_ids=_taken(table.document_ids, plan.rows),
            weights=None if per_list is None else per_list[plan.lists],
            document_weights=_taken(table.document_weights, plan.rows),
            feature_names=table.feature_names,
            groups=_taken(groups, plan.lists),
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
        """Make lists to learn from out of a click log and the features of its documents.

        Parameters
        ----------
        clicks
            A :class:`~plackett.data.clicks.ClickLog`, or a table (pandas, polars, Arrow, a
            dictionary of columns) with ``impression``, ``query``, ``document``, ``position`` and
            ``click``; :func:`plackett.data.clicks.read_clicks` reads one from a file.
        documents
            The features: a data set with document ids, whose labels are not looked at.
        by
            ``"impression"``: a list is what was shown once, its labels are the clicks. ``"query"``:
            a list is all that was ever shown for a query; a document's label is 1 if it was ever
            clicked, and its weight goes by the sum of its clicks.
        propensities
            How likely each position is to be examined, to undo the bias of position: a click at
            position k counts 1/propensity, as weights of list and document. None: it counts 1.
        clip
            Propensities below it count as it: less variance for some bias. None: 0.2 for lists by
            impression, 0 (as they are) for lists by query.
        """
        from plackett.data.clicks.dataset import lists_from_clicks  # imports this module

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
        """Put one value per document back in the order of the caller's rows.

        For a part of a data set, the documents it has are in the order of the caller's rows.
        """
        values = np.asarray(scores)
        if values.shape[:1] != (self.n_docs,):
            raise DataError(f"expected {self.n_docs} values, one per document, got {values.shape}.")
        return values[np.argsort(self.rows, kind="stable")]

    def lists(self, start: int, stop: int) -> Dataset:
        """The lists from position ``start`` to ``stop``: views, without copying features."""
        if not 0 <= start < stop <= self.n_lists:
            raise DataError(
                f"lists({start}, {stop}): positions must satisfy 0 <= start < stop <= "
                f"{self.n_lists}."
            )
        low, high = int(self.offsets[start]), int(self.offsets[stop])
        documents = slice(low, high)
        offsets = self.offsets[start : stop + 1] - low
        return self._pick(documents, slice(start, stop), offsets, self.keys[start:stop])

    def select(self, lists: ArrayLike) -> Dataset:
        """The lists at these positions, in canonical order whatever the order of the positions.

        Neighbouring lists share the features of this data set; others are copied.
        """
        given = np.asarray(lists)
        if given.size and given.dtype.kind not in "iu":
            raise DataError(f"positions of lists are integers, got {given.dtype}.")
        chosen = np.unique(given.astype(np.int64))
        if len(chosen) == 0:
            raise DataError("a data set needs at least one list; none was selected.")
        if chosen[0] < 0 or chosen[-1] >= self.n_lists:
            bad = int(chosen[0] if chosen[0] < 0 else chosen[-1])
            raise DataError(f"there is no list {bad}: positions go from 0 to {self.n_lists - 1}.")
        if chosen[-1] - chosen[0] + 1 == len(chosen):
            return self.lists(int(chosen[0]), int(chosen[-1]) + 1)
        sizes = np.diff(self.offsets)[chosen]
        offsets = offsets_from_sizes(sizes)
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
        documents = np.repeat(self.offsets[chosen], sizes) + within
        return self._pick(documents, chosen, offsets, self.keys[chosen])

    def documents(self, keep: ArrayLike) -> Dataset:
        """Only the documents where ``keep`` is true; lists left without any vanish.

        Contents change, so keys and the order of lists are found anew. ``rows`` still refer to
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
        """These documents, which form these lists."""
        features: Features | csr_array
        if isinstance(self.features, csr_array) or isinstance(documents, slice):
            features = self.features[documents]
        else:
            features = take_rows(self.features, documents)
        return replace(
            self,
            features=features,
            labels=self.labels[documents],
            offsets=offsets,
            query_ids=self.query_ids[lists],
            keys=keys,
            rows=self.rows[documents],
            document_ids=_taken(self.document_ids, documents),
            weights=_taken(self.weights, lists),
            document_weights=_taken(self.document_weights, documents),
            groups=_taken(self.groups, lists),
        )

    def with_features(self, features: Any) -> Dataset:
        """The same documents with other features, in the same order and with the same keys.

        They may be anything :meth:`from_arrays` takes; NaN stands for a missing value.
        """
        matrix, _ = as_features(features)
        if matrix.shape[0] != self.n_docs:
            raise DataError(f"expected {self.n_docs} rows of features, got {matrix.shape[0]}.")
        names = self.feature_names if matrix.shape[1] == self.n_features else None
        check_features(matrix, "nan", names)
        # A view: making it read-only must not touch an array that is still the caller's.
        matrix = matrix if isinstance(matrix, csr_array) else matrix.view()
        return replace(self, features=matrix, feature_names=names)

    def with_labels(self, labels: ArrayLike) -> Dataset:
        """The same documents with other labels, in the same order and with the same keys."""
        return replace(self, labels=as_labels(labels, self.n_docs))

    def __repr__(self) -> str:
        plural = "" if self.n_features == 1 else "s"
        low, high = (f"{v:g}" for v in (self.labels.min(), self.labels.max()))
        return (
            f"Dataset({self.n_lists:,} lists, {self.n_docs:,} documents, "
            f"{self.n_features:,} feature{plural}, labels {low}..{high})"
        )


def _taken(values: NDArray[Any] | None, which: Rows | slice) -> NDArray[Any] | None:
    return None if values is None else values[which]


def report_scattered(source: str | None, *, strict: bool) -> None:
    """Warn that rows of a query are not next to each other, or refuse them if ``strict``."""
    message = (
        f"{source or 'the data'}: the rows of some queries are not next to each other; rows with "
        "the same query id form one list"
    )
    if strict:
        raise DataError(f"{message}, which strict reading refuses.")
    warnings.warn(f"{message}.", DataWarning, stacklevel=4)


def fingerprint(data: Dataset) -> str:
    """32 hexadecimal digits of the features and their names, labels, lists, weights and groups.

    The keys of the lists are hashes of their documents, so features are not read again. The order
    of rows and the names of queries do not matter.
    """
    digest = hashlib.sha256()
    for array in (data.keys, data.offsets, data.labels):
        digest.update(np.ascontiguousarray(array).tobytes())
    for name, weights in ((b"weights", data.weights), (b"documents", data.document_weights)):
        if weights is not None:
            digest.update(name + np.ascontiguousarray(weights).tobytes())
    if data.groups is not None:  # random divisions depend on them
        digest.update(b"groups" + first_appearance(data.groups)[1].tobytes())
    digest.update(repr((data.n_features, data.feature_names)).encode())
    return digest.hexdigest()[:32]
