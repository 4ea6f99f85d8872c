"""The data set of a ranking problem: lists of documents with features and labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from plackett.base import ragged
from plackett.base.errors import DataError, DataWarning, Message, Parameter, UsageError
from plackett.base.ragged import Features, Ids, Keys, Labels, Offsets, Rows
from plackett.data import inputs
from plackett.data.canonical import CanonicalOrder, PermutedRows, hash_documents, take, take_rows
from plackett.data.large_arrays import allocate, iter_blocks

if TYPE_CHECKING:
    from plackett.data.clicks.propensities import Propensities

_PER_ROW = ("labels", "document_ids", "document_weights", "positions")
"""The arrays that a table and a data set share."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Dataset:
    """Lists of documents with features and labels, checked once when it is built.

    Everything is in the order of the caller's rows, and lists are numbered in the order in which
    they first appear. Training, random draws and ties use the canonical order of the rows instead
    (:attr:`order`), which depends neither on the order of the rows nor on the names of queries.

    Build it from a table with named columns, with :meth:`from_arrays`, or with :func:`plackett.read`.

    Examples
    --------
    >>> import plackett as pk
    >>> ds = pk.Dataset.from_arrays([[0.1], [0.9], [0.4]], [0, 2, 1], ["a", "b", "a"])
    >>> ds
    Dataset(2 lists, 3 documents, 1 feature, labels 0..2)
    >>> ds.labels.tolist(), ds.query_ids.tolist(), ds.list_ids.tolist()
    ([0.0, 2.0, 1.0], ['a', 'b', 'a'], ['a', 'b'])
    """

    features: Features | csr_array
    """float32, one row per document: a C-contiguous array or a SciPy CSR array."""
    labels: Labels
    list_of_row: Rows
    """One per row: the number of its list."""
    list_ids: Ids
    """One per list, its query id: int64 or str."""
    rows: Rows
    """One per row: its number in the data that this set was selected from."""
    document_ids: Ids | None = None
    weights: NDArray[np.float64] | None = None
    """One per list, or None for equal weights."""
    document_weights: NDArray[np.float64] | None = None
    """One per row: the factor by which the document's gain is multiplied. None: all 1."""
    positions: Rows | None = None
    """One per row, for labels that are clicks: the position, from 1, at which the document was shown; None: not
    known."""
    feature_names: tuple[str, ...] | None = None
    groups: Rows | None = None
    """One per list: lists of the same group, such as impressions of one query, are kept together by
    random splits. None: each list is its own group."""
    categories: inputs.Categories | None = None
    """For each feature that holds categories, what its values 0, 1, 2 ... stand for."""

    def __init__(
        self,
        data: Any,
        *arrays: Any,
        label: str | None = "label",
        query: str = "query_id",
        document: str | None = None,
        weight: str | None = None,
        features: str | Sequence[str] | None = None,
        drop: Sequence[str] = (),
        categorical: Sequence[str] = (),
        missing: inputs.Missing = None,
    ) -> None:
        """Make a data set of a table with named columns.

        Parameters
        ----------
        data
            A pandas or polars data frame, an Arrow table, or a mapping from names to columns.
        arrays
            Not allowed: pass arrays (features, labels, query ids) to :meth:`from_arrays`.
        label, query, document, weight
            The names of these columns. If the default is absent, other common names are tried, as in
            :func:`plackett.read`; ``label=None`` is for data without labels.
        features
            The columns of features, or one column of lists. Default: all remaining columns.
        drop
            Columns to leave out.
        categorical
            Columns of text or numbers that are categories. Columns of a categorical type with text
            values need not be named.
        missing
            "nan" if null and NaN stand for a missing value; otherwise they raise an error.

        Examples
        --------
        >>> import pandas as pd
        >>> import plackett as pk
        >>> df = pd.DataFrame({"qid": ["a", "a", "b"], "grade": [0, 2, 1], "bm25": [1.5, 9.0, 4.0]})
        >>> pk.Dataset(df, label="grade", query="qid")
        Dataset(2 lists, 3 documents, 1 feature, labels 0..2)
        """
        from plackett.data.columnar.reader import read_frame  # imports pyarrow
        from plackett.data.files import ReadOptions

        if arrays:
            raise UsageError(
                "Dataset takes one table; for arrays use Dataset.from_arrays(features, labels, query_ids)."
            )
        columns: dict[str, Any] = {"label": label, "query": query, "document": document, "weight": weight}
        columns |= {"features": features, "drop": drop, "categorical": categorical}
        table = read_frame(data, ReadOptions(**columns, missing=missing))
        self.__dict__.update(self._group(table, table.weights).__dict__)

    @classmethod
    def _make(cls, *, order: CanonicalOrder | None = None, **arrays: Any) -> Dataset:
        """Make a data set of checked arrays; ``order`` is given where it is known."""
        dataset = object.__new__(cls)
        arrays.setdefault("rows", np.arange(len(arrays["labels"])))
        for field in fields(cls):
            value = arrays.pop(field.name, None)
            if isinstance(value, np.ndarray):
                value = value.view()  # so that the caller's array stays writable
                value.flags.writeable = False
            elif isinstance(value, csr_array):
                for part in (value.data, value.indices, value.indptr):
                    part.flags.writeable = False
            dataset.__dict__[field.name] = value
        assert not arrays, f"unknown arrays: {list(arrays)}"
        if order is not None:
            dataset.__dict__["order"] = order
        return dataset

    def _replace(self, **changes: Any) -> Dataset:
        """The same rows with some arrays replaced; the order is kept, if known, unless it is among the changes."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        return self._make(**{"order": self.__dict__.get("order"), **arrays, **changes})

    @classmethod
    def from_arrays(
        cls,
        features: Any,
        labels: Any,
        query_ids: Any = None,
        *,
        group: Any = None,
        document_ids: Any = None,
        weights: Mapping[Any, float] | ArrayLike | None = None,
        document_weights: Any = None,
        positions: Any = None,
        groups: Any = None,
        feature_names: Sequence[str] | None = None,
        categorical: Sequence[str] = (),
        missing: inputs.Missing = None,
    ) -> Dataset:
        """Group rows, in any order, into lists.

        Parameters
        ----------
        features
            One row per document: a NumPy array, a pandas, polars or Arrow table, or a SciPy sparse
            matrix. Stored as float32; a C-contiguous float32 array is used as it is, not copied.
        labels
            One non-negative real number per row; None for data without labels (all zero).
        query_ids
            One integer or string per row; rows of the same id form a list.
        group
            Instead of query ids: the number of rows of each list, one list after the other.
        document_ids
            Optional integer or string per row.
        weights
            Optional weight of each list: a mapping from query id, one value per list in order of
            first appearance, or one per row (the same in all rows of a list).
        document_weights
            Optional non-negative number per row by which the document's gain is multiplied, such as the
            inverse of its probability of being examined (see ``docs/guide/clicks``).
        positions
            Optional whole number per row, from 1: where the document was shown, if labels are clicks.
        groups
            Optional integer or string per row, the same in all rows of a list: lists of one group,
            such as impressions of one query, are kept together by random splits.
        feature_names
            Optional; by default the column names of the table, if it has any.
        categorical
            Columns of a table that are categories, though they hold text or numbers.
        missing
            "nan" if NaN stands for a missing value; otherwise NaN raises an error.
        """
        matrix, names, categories = inputs.as_features(features, categorical)
        n_docs = int(matrix.shape[0])
        if n_docs == 0:
            raise DataError("the data has no documents.")
        if (query_ids is None) == (group is None):
            raise UsageError(
                "Dataset.from_arrays needs the query of each row (query_ids=), or the number of "
                "rows of each query (group=)."
            )
        if query_ids is None:
            query_ids = inputs.ids_from_sizes(group, n_docs)
        names = inputs.check_names(names if feature_names is None else feature_names, matrix.shape[1])
        inputs.check_features(matrix, missing, names)
        table = inputs.Table(
            features=matrix,
            labels=np.zeros(n_docs, np.float32) if labels is None else inputs.as_labels(labels, n_docs),
            query_ids=inputs.as_ids(query_ids, n_docs, what="query_ids"),
            document_ids=None if document_ids is None else inputs.as_ids(document_ids, n_docs, what="document_ids"),
            document_weights=(
                None if document_weights is None else inputs.as_document_weights(document_weights, n_docs)
            ),
            positions=None if positions is None else inputs.as_positions(positions, n_docs),
            groups=None if groups is None else inputs.as_ids(groups, n_docs, what="groups"),
            feature_names=names,
            categories=categories,
        )
        return cls._group(table, weights)

    @classmethod
    def from_pandas(cls, frame: Any, **options: Any) -> Dataset:
        """Make a data set of a data frame; the same as ``Dataset(frame, **options)``."""
        return cls(frame, **options)

    from_polars = from_pandas

    @classmethod
    def from_table(cls, table: inputs.Table, *, strict: bool = False) -> Dataset:
        """Group the rows of a reader into lists; this takes ownership of its arrays.

        Rows of a query that are not next to each other form one list with a
        :class:`~plackett.base.errors.DataWarning`, or raise a DataError if ``strict``.
        """
        dataset = cls._group(table, table.weights)
        if dataset.is_grouped:
            return dataset
        if strict:
            # Lists are numbered by first appearance: a number below that of the row before belongs to an earlier list.
            row = int(np.argmax(np.diff(dataset.list_of_row) < 0)) + 1
            name = dataset.list_ids[dataset.list_of_row[row]].item()
            text = f"row {row} (counted from 0): query id {name!r} occurs again after rows of other queries; "
            remedy = ("sort the rows by query, or read them without ", Parameter("strict", True), ".")
            raise DataError(Message(text, *remedy), path=table.source)
        source = table.source or "the data"
        problem = "the rows of some queries are not next to each other; rows with the same query id form one list."
        warnings.warn(f"{source}: {problem}", DataWarning, stacklevel=4)
        return dataset

    @classmethod
    def _group(cls, table: inputs.Table, weights: Any) -> Dataset:
        """Group rows into lists."""
        if table.n_docs == 0:
            raise DataError(f"{table.source or 'the data'} has no documents.")
        names, codes, _ = ragged.factorize(table.query_ids)
        if table.run_lengths is not None:
            codes = np.repeat(codes, table.run_lengths)
        arrays = {name: getattr(table, name) for name in ("features", "feature_names", "categories", *_PER_ROW)}
        return cls._make(
            list_of_row=codes,
            list_ids=names,
            weights=None if weights is None else inputs.as_weights(weights, names, codes),
            groups=None if table.groups is None else inputs.as_groups(table.groups, names, codes),
            **arrays,
        )

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
            Probability that each position is examined, to correct position bias: a click at position k counts
            1/propensity, through the weights of list and document. None: every click counts 1.
        clip
            Lower bound of the propensities; it reduces variance and adds some bias. None: 0.2 for lists by
            impression, no bound for lists by query.
        """
        from plackett.data.clicks.lists import lists_from_clicks  # imports this module

        return lists_from_clicks(clicks, documents, by, propensities, clip)

    @property
    def n_lists(self) -> int:
        """Number of lists."""
        return len(self.list_ids)

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return len(self.labels)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.features.shape[1])

    @property
    def query_ids(self) -> Ids:
        """One per row: int64 or str."""
        return self.list_ids[self.list_of_row]

    @cached_property
    def list_sizes(self) -> Rows:
        """One per list: the number of its documents."""
        return np.bincount(self.list_of_row, minlength=self.n_lists)

    @cached_property
    def is_grouped(self) -> bool:
        """Whether the rows of each list are next to each other."""
        return bool(np.all(np.diff(self.list_of_row) >= 0))

    @cached_property
    def offsets(self) -> Offsets:
        """Where each list begins, followed by the number of rows; for rows grouped by query."""
        if not self.is_grouped:
            raise DataError(
                "the rows of some queries are not next to each other, so that lists have no "
                "offsets; ds.grouped() is the same data with the rows of each query together."
            )
        return ragged.offsets_from_sizes(self.list_sizes)

    @cached_property
    def order(self) -> CanonicalOrder:
        """The canonical order of the rows, in which models are trained and ties are broken."""
        hashes = hash_documents(self.features, self.document_ids)
        return CanonicalOrder.of(hashes, self.list_of_row, self.n_lists)

    @property
    def keys(self) -> Keys:
        """One per list: the hash of its contents, which seeds its random numbers."""
        return self.order.restore_lists(self.order.keys)

    def reduce_lists(self, function: np.ufunc, values: NDArray[Any]) -> NDArray[Any]:
        """Combine one value per row into one per list, for example with ``np.maximum``."""
        if not self.is_grouped:
            values = values[np.argsort(self.list_of_row, kind="stable")]
        return np.asarray(function.reduceat(values, ragged.offsets_from_sizes(self.list_sizes)[:-1]))

    def to_rows(self, scores: ArrayLike) -> NDArray[Any]:
        """Deprecated: return the scores as they are, since they are in the order of the rows already."""
        warnings.warn("Dataset.to_rows is deprecated: it changes nothing.", DeprecationWarning, stacklevel=2)
        return np.asarray(scores)

    def rank(self, scores: NDArray[np.float64]) -> Rows:
        """Rows list by list, best first; equal scores come in canonical order, as in metrics."""
        return np.lexsort((self.order.places, -scores, self.list_of_row))

    def grouped(self) -> Dataset:
        """Return the same data with the rows of each list next to each other.

        Lists keep the order in which they first appear, and documents their order within a list.
        """
        if self.is_grouped:
            return self
        return self.rearrange(np.argsort(self.list_of_row, kind="stable"))

    def rearrange(self, rows: Rows) -> Dataset:
        """Return all rows in another order, which must keep the order in which lists first appear."""
        return self._take(rows, np.arange(self.n_lists), self.list_of_row[rows])

    def canonical(self, *, copy: bool = True) -> Dataset:
        """Return the same data in canonical order, as training uses it.

        Without ``copy``, dense features are a :class:`~plackett.data.canonical.PermutedRows`, which
        reads the rows of this data set in that order.
        """
        order = self.order
        if order.is_identity:
            return self
        features: Any = self.features
        if copy or isinstance(features, csr_array):
            features = take_rows(features, order.rows)
        else:
            features = PermutedRows(features, order.rows)
        lists = ragged.list_of_document(order.offsets)
        identity = CanonicalOrder.identity(order.offsets, order.keys)
        return self._take(order.rows, order.lists, lists, order=identity, features=features)

    def lists(self, start: int, stop: int) -> Dataset:
        """Return the lists from position ``start`` to ``stop``."""
        if not 0 <= start < stop <= self.n_lists:
            raise DataError(f"lists({start}, {stop}): positions must satisfy 0 <= start < stop <= {self.n_lists}.")
        return self.select(np.arange(start, stop))

    def select(self, lists: ArrayLike) -> Dataset:
        """Return the lists at these positions; their rows keep their order.

        If all selected rows are next to each other, features are shared with this data set; otherwise they are copied.
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
        keep = np.zeros(self.n_lists, np.bool_)
        keep[positions] = True
        order = self.order.restrict(keep) if "order" in self.__dict__ else None
        chosen = np.flatnonzero(keep[self.list_of_row])
        low, high = int(chosen[0]), int(chosen[-1]) + 1
        rows = slice(low, high) if high - low == len(chosen) else chosen
        numbers = (np.cumsum(keep) - 1)[self.list_of_row[rows]]
        return self._take(rows, positions, numbers, order=order)

    def documents(self, keep: ArrayLike) -> Dataset:
        """Return the documents where ``keep`` is true; lists left without documents are dropped.

        The contents of lists change, and with them their keys.
        """
        mask = inputs.as_column(keep)
        if mask.dtype != np.bool_ or mask.shape != (self.n_docs,) or not mask.any():
            raise DataError(f"keep must be {self.n_docs} booleans, at least one of them true.")
        lists, numbers, _ = ragged.factorize(self.list_of_row[mask])
        return self._take(np.flatnonzero(mask), lists, numbers)

    def _take(
        self,
        rows: Rows | slice,
        lists: Rows,
        list_of_row: Rows,
        *,
        order: CanonicalOrder | None = None,
        features: Any = None,
    ) -> Dataset:
        """Return these rows, which form these lists."""
        arrays = {name: take(getattr(self, name), rows) for name in ("rows", *_PER_ROW)}
        arrays |= {name: take(getattr(self, name), lists) for name in ("list_ids", "weights", "groups")}
        if features is None:
            features = take_rows(self.features, rows)
        return self._replace(order=order, features=features, list_of_row=list_of_row, **arrays)

    def with_features(self, features: Any) -> Dataset:
        """Return the same documents with other features; their canonical order is kept.

        The features may be of any type that :meth:`from_arrays` accepts; NaN is a missing value.
        """
        matrix, _, _ = inputs.as_features(features)
        if matrix.shape[0] != self.n_docs:
            raise DataError(f"expected {self.n_docs} rows of features, got {matrix.shape[0]}.")
        names = self.feature_names if matrix.shape[1] == self.n_features else None
        inputs.check_features(matrix, "nan", names)
        return self._replace(order=self.order, features=matrix, feature_names=names, categories=None)

    def without_features(self) -> Dataset:
        """Return the same documents without features; their canonical order is kept."""
        return self.with_features(np.empty((self.n_docs, 0), np.float32))

    def with_categories(self, categories: inputs.Categories) -> Dataset:
        """Return the same documents, their categories numbered as in ``categories``.

        A value that does not occur there becomes NaN, a missing value.
        """
        names = self.feature_names or ()
        old: Any = self.features
        features = allocate(old, old.shape)
        for rows in iter_blocks(old):
            features[rows] = old[rows]
        for name, values in (self.categories or {}).items():
            number = {value: i for i, value in enumerate(categories.get(name, ()))}
            new = np.array([number.get(value, np.nan) for value in values] + [np.nan], np.float32)
            column = features[:, names.index(name)]
            codes = np.where(np.isnan(column), len(values), column).astype(np.int64)
            features[:, names.index(name)] = new[codes]
        return self._replace(features=features, categories=categories)

    def with_labels(self, labels: ArrayLike) -> Dataset:
        """Return the same documents with other labels; their canonical order is kept."""
        return self._replace(labels=inputs.as_labels(labels, self.n_docs))

    def __repr__(self) -> str:
        plural = "" if self.n_features == 1 else "s"
        low, high = (f"{v:g}" for v in (self.labels.min(), self.labels.max()))
        return (
            f"Dataset({self.n_lists:,} lists, {self.n_docs:,} documents, "
            f"{self.n_features:,} feature{plural}, labels {low}..{high})"
        )


def check_dataset(value: object) -> None:
    """Raise UsageError for anything that is not a data set."""
    if not isinstance(value, Dataset):
        raise UsageError(
            f"expected a plackett.Dataset, got {type(value).__name__}; plackett.read and "
            "plackett.Dataset.from_arrays make data sets."
        )
