"""Convert and check the arrays and tables that callers pass: NumPy, pandas, polars, Arrow, SciPy.

Table libraries are recognized by class without being imported. A :class:`Table` holds rows before they are grouped.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array, issparse

from plackett.base.errors import DataError, Message, Parameter
from plackett.base.ragged import Features, Ids, Labels, Rows
from plackett.data.large_arrays import find_not_finite

Missing: TypeAlias = Literal["nan"] | None
"""How missing feature values are marked. None: there are none, and NaN raises an error."""


def _is_a(value: object, library: str, *names: str) -> bool:
    module = sys.modules.get(library)
    return module is not None and isinstance(value, tuple(getattr(module, n) for n in names))


def as_column(values: Any) -> NDArray[Any]:
    """One-dimensional NumPy array of a list, array, Series or Arrow column."""
    if _is_a(values, "pyarrow", "Array", "ChunkedArray"):
        from plackett.data.columnar.reader import name_file_in_errors  # imports pyarrow

        with name_file_in_errors(None, "table"):  # such as text that is not UTF-8
            return np.asarray(values.to_numpy(zero_copy_only=False))
    if _is_a(values, "pandas", "Series", "Index") or _is_a(values, "polars", "Series"):
        return np.asarray(values.to_numpy())
    return np.asarray(values)


Categories = Mapping[str, tuple[str, ...]]
"""For each feature that holds categories, what its values 0, 1, 2 ... stand for."""


def as_features(
    features: Any, categorical: Sequence[str] = ()
) -> tuple[Features | csr_array, tuple[str, ...] | None, Categories | None]:
    """Dense float32 (or CSR) features of any table-like object, its column names and categories.

    The columns ``categorical`` of a table are categories whatever their type.
    """
    if issparse(features):
        return _from_sparse(features), None, None
    if _is_a(features, "pandas", "DataFrame"):
        columns = [features.iloc[:, j] for j in range(features.shape[1])]
        return _from_columns(columns, features.columns, len(features), categorical)
    if _is_a(features, "polars", "DataFrame"):
        return _from_columns(features.get_columns(), features.columns, features.height, categorical)
    if _is_a(features, "pyarrow", "Table", "RecordBatch"):
        return _from_columns(features.columns, features.column_names, features.num_rows, categorical)
    if len(categorical):
        raise DataError("categorical= names columns of a pandas, polars or Arrow table; arrays hold numbers only.")
    return _from_dense(features), None, None


def read_categories(content: Any, names: Sequence[str]) -> Categories | None:
    """Categories from the JSON of a manifest, checked."""
    if content is None:
        return None
    valid = isinstance(content, dict) and bool(content)
    for name, values in content.items() if valid else ():
        is_text = isinstance(values, list) and all(isinstance(value, str) for value in values)
        valid = valid and name in names and is_text
    if not valid:
        raise DataError("categories must map names of features to lists of texts.")
    return {name: tuple(values) for name, values in content.items()}


def _from_sparse(features: Any) -> csr_array:
    if features.ndim != 2:
        raise DataError(f"features must have two dimensions (documents x features), got shape {features.shape}.")
    with np.errstate(over="ignore"):  # overflow gives inf, which check_features refuses
        matrix = csr_array(features, dtype=np.float32, copy=True)
    matrix.sum_duplicates()
    return matrix


def _from_columns(
    columns: Sequence[Any], names: Any, n_docs: int, categorical: Sequence[str]
) -> tuple[Features, tuple[str, ...], Categories | None]:
    for name in categorical:
        if name not in map(str, names):
            raise DataError(f"categorical= names the column {name!r}, which the table does not have.")
    matrix = np.empty((n_docs, len(columns)), np.float32)
    categories: dict[str, tuple[str, ...]] = {}
    for j, column in enumerate(columns):
        try:
            if str(names[j]) in categorical or _is_category(column):
                matrix[:, j], categories[str(names[j])] = _number_categories(column)
                continue
            with np.errstate(over="ignore"):
                matrix[:, j] = _nullable_numbers(column)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"feature {names[j]!r} must be numbers: {error}; take it as categories (categorical=), or leave it out."
            ) from error
    return matrix, tuple(str(name) for name in names), categories or None


def _is_category(column: Any) -> bool:
    """Whether a column of a table has a categorical type with text values."""
    if _is_a(column, "pandas", "Series"):
        return str(column.dtype) == "category" and column.cat.categories.dtype.kind in "OUT"
    if _is_a(column, "polars", "Series"):
        return str(column.dtype).startswith(("Categorical", "Enum"))
    return str(column.type).startswith(("dictionary<values=string", "dictionary<values=large_string"))


def _number_categories(column: Any) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """The number of each value in alphabetical order, NaN for a missing one; and all values."""
    from plackett.data.columnar.reader import as_categories  # imports pyarrow

    encoded = as_categories(column)
    values = encoded.dictionary.to_pylist()
    codes = np.asarray(encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False))
    names = sorted({values[code] for code in np.unique(codes) if code < len(values) and values[code] is not None})
    number = {name: float(i) for i, name in enumerate(names)}
    numbers = np.array([number.get(value, np.nan) for value in values] + [np.nan], np.float32)
    return numbers[codes], tuple(names)


def _from_dense(values: Any) -> Features:
    try:
        array = np.asarray(values)
    except ValueError as error:  # NumPy raises it for rows of different lengths
        raise DataError(
            "features must be a table of numbers, with as many values in each row as in the others."
        ) from error
    try:
        with np.errstate(over="ignore"):
            matrix = np.asarray(_numbers(array), dtype=np.float32, order="C")
    except (TypeError, ValueError) as error:
        raise DataError(
            f"features must be numbers, one row per document: {error}. Encode text and categories as numbers first."
        ) from error
    if matrix.shape == (0,):
        return matrix.reshape(0, 0)  # an empty list: no rows
    if matrix.ndim != 2:
        raise DataError(f"features must have two dimensions (documents x features), got shape {matrix.shape}.")
    return matrix


def _nullable_numbers(column: Any) -> NDArray[Any]:
    if _is_a(column, "pandas", "Series") and column.dtype.kind in "biuf":
        return np.asarray(column.to_numpy(np.float32, na_value=np.nan))
    return _numbers(as_column(column))


def _numbers(values: Any) -> NDArray[Any]:
    # NumPy would read the string "1.5" as a number and a date as a count of days.
    array = np.asarray(values)
    kind = array.dtype.kind
    if kind in "biuf" or (kind == "O" and not any(isinstance(v, (str, bytes)) for v in array.flat)):
        return array
    raise TypeError(f"found {'text' if kind in 'OUST' else array.dtype}")


def check_features(
    features: Features | csr_array, missing: Missing, names: Sequence[str] | None = None, *, first_row: int = 0
) -> None:
    """Raise DataError for infinite features, and for NaN unless it marks a missing value.

    Error messages count rows from ``first_row``.
    """
    if missing not in (None, "nan"):
        raise DataError(f'missing must be None or "nan", got {missing!r}.')
    sparse = features if isinstance(features, csr_array) else None
    values = np.asarray(features) if sparse is None else np.asarray(sparse.data).reshape(-1, 1)
    position = find_not_finite(values, allow_nan=missing == "nan")
    if position is None:
        return
    row, column = position
    value = values[position]
    if sparse is not None:
        column = int(sparse.indices[row])
        row = int(np.searchsorted(sparse.indptr, row, side="right") - 1)
    remedy = (
        Message("pass ", Parameter("missing", "nan"), " if NaN stands for a missing value")
        if np.isnan(value)
        else "features must be finite float32 numbers (up to 3.4e38)"
    )
    name = f"{column + 1} (counted from 1)" if names is None else repr(names[column])
    where = f"row {first_row + row} (counted from 0): feature {name} is {value}; "
    raise DataError(Message(where, remedy, "."))


def as_labels(labels: Any, n_docs: int, *, first_row: int = 0) -> Labels:
    """Labels as float32: one non-negative real number per row.

    Error messages count rows from ``first_row``.
    """
    column = as_column(labels)
    result = _as_floats(column, n_docs, np.float32, "labels")
    row = _first_not_weight(result)
    if row is not None:
        text = f"label {column[row]}; labels are finite numbers, zero or greater."
        raise DataError(f"row {first_row + row} (counted from 0): {text}")
    return result + np.float32(0)  # -0.0 becomes 0.0


def as_document_weights(weights: Any, n_docs: int, *, first_row: int = 0) -> NDArray[np.float64]:
    """One weight per row, finite and not negative; error messages count from ``first_row``."""
    result = _as_floats(as_column(weights), n_docs, np.float64, "document_weights")
    row = _first_not_weight(result)
    if row is not None:
        where = f"row {first_row + row} (counted from 0)"
        raise DataError(f"{where}: document weight {result[row]}; weights are finite and not negative.")
    return result.copy()


def as_positions(positions: Any, n_docs: int, *, first_row: int = 0) -> Rows:
    """One position per row, a whole number from 1; error messages count from ``first_row``."""
    values = _as_floats(as_column(positions), n_docs, np.float64, "positions")
    bad = ~((values >= 1) & (values == np.floor(values)) & (values < 2**53))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(f"row {first_row + row} (counted from 0): position {values[row]:g}; positions are 1, 2, 3 ...")
    return values.astype(np.int64)


def _as_floats(column: NDArray[Any], n_docs: int, dtype: DTypeLike, what: str) -> NDArray[Any]:
    if column.shape != (n_docs,):
        raise DataError(f"{what} must be {n_docs} numbers, one per row, got shape {column.shape}.")
    try:
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(_numbers(column), dtype=dtype)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must be numbers: {error}.") from error


def _first_not_weight(values: NDArray[Any]) -> int | None:
    """Position of the first value that is negative or not finite."""
    bad = ~(np.isfinite(values) & (values >= 0))
    return int(np.argmax(bad)) if bad.any() else None


def as_ids(ids: Any, n_docs: int, *, what: str) -> Ids:
    """Ids as int64 or str, one per row; error messages call them ``what``."""
    column = as_column(ids)
    if column.shape != (n_docs,):
        raise DataError(f"{what} must be {n_docs} values, one per row, got shape {column.shape}.")
    if isinstance(ids, (list, tuple)) and column.dtype.kind in "US":
        column = np.array(ids, dtype=object)  # NumPy has made [1, "1"] two equal strings
    if column.dtype.kind in "OTS":
        column = _from_objects(column.astype(object), what)
    if column.dtype.kind == "U":
        return _check_text(column, what)
    if column.dtype.kind == "f" and np.all(np.floor(column) == column) and np.all(np.abs(column) < 2**53):
        column = column.astype(np.int64)  # pandas turns integers into floats if a table has gaps
    if column.dtype.kind not in "iu":
        raise DataError(f"{what} must be integers or strings, got {column.dtype}; convert them with astype(str).")
    if column.dtype == np.uint64 and len(column) and column.max() > np.iinfo(np.int64).max:
        return column.astype(np.str_)  # too large for int64
    return np.ascontiguousarray(column, dtype=np.int64)


def ids_from_sizes(sizes: Any, n_docs: int) -> Rows:
    """A query id per row, from the number of rows of each query."""
    counts = as_column(sizes)
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 1).any():
        raise DataError("group must be the sizes of the lists: positive whole numbers.")
    if counts.sum() != n_docs:
        hint = "; one id per row is qid=" if len(counts) == n_docs else ""
        raise DataError(f"group holds {len(counts)} sizes that add up to {int(counts.sum())}, for {n_docs} rows{hint}.")
    return np.repeat(np.arange(len(counts)), counts)


def _from_objects(column: NDArray[Any], what: str) -> NDArray[Any]:
    """Ids of an array of Python objects: all integers, all strings or all bytes of UTF-8."""
    if len(column) and all(isinstance(value, bytes) for value in column):
        try:
            column = np.array([value.decode("utf-8") for value in column], dtype=object)
        except UnicodeDecodeError as error:
            raise DataError(f"{what} must be text in UTF-8, got {error.object!r}.") from error
    if all(isinstance(value, str) for value in column):
        for row, value in enumerate(column):
            if "\0" in value:  # NumPy would drop it at the end of a string
                raise _bad_text(row, value, what)
        return column.astype(np.str_)
    if all(isinstance(value, (int, np.integer)) and not isinstance(value, bool) for value in column):
        try:
            return column.astype(np.int64)
        except OverflowError:  # numbers of any size are ids as text
            return column.astype(np.str_)
    kinds = sorted({type(value).__name__ for value in column})
    raise DataError(f"{what} must be all integers or all strings, got {', '.join(kinds)}; convert them to str.")


def _check_text(column: NDArray[np.str_], what: str) -> Ids:
    """Raise DataError for text that a file cannot contain: NUL, and halves of surrogate pairs."""
    column = np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("="))
    if column.size and column.dtype.itemsize:
        points = column.view(np.uint32).reshape(len(column), -1)
        bad = ((points >= 0xD800) & (points <= 0xDFFF)).any(axis=1)
        bad |= ((points[:, :-1] == 0) & (points[:, 1:] != 0)).any(axis=1)
        if bad.any():
            row = int(np.argmax(bad))
            raise _bad_text(row, str(column[row]), what)
    return column


def _bad_text(row: int, value: str, what: str) -> DataError:
    return DataError(
        f"{what} must be text without NUL and lone surrogates, got {value!r} in row {row} (counted from 0)."
    )


def as_weights(weights: Any, names: Ids, codes: Rows) -> NDArray[np.float64]:
    """One weight per list, in order of first appearance, from any supported form.

    The forms are a mapping from query id to weight, one value per list in order of first appearance,
    and one value per row that is the same in all rows of a list.
    """
    if isinstance(weights, Mapping):
        lacking = [query for query in names.tolist() if query not in weights]
        if lacking:
            raise DataError(f"weights lack query {lacking[0]!r} (and {len(lacking) - 1} more).")
        weights = [weights[query] for query in names.tolist()]
    try:
        values = np.asarray(_nullable_numbers(weights), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"weights must be numbers: {error}.") from error
    if values.shape == (len(names),):
        result = values
    elif values.shape == (len(codes),):
        result = _one_per_list(values, names, codes, "have different weights; a list has one")
    else:
        raise DataError(
            f"weights must be {len(names)} (one per list, in order of first appearance), "
            f"{len(codes)} (one per row) or a mapping from query id, got shape {values.shape}."
        )
    bad = _first_not_weight(result)
    if bad is not None:
        raise DataError(
            f"the weight of query {names[bad].item()!r} is {result[bad]}; weights are finite and not negative."
        )
    return result


def as_groups(groups: Ids, names: Ids, codes: Rows) -> Rows:
    """The group of each list, as numbers from 0, from one id per row."""
    numbers = np.unique(groups, return_inverse=True)[1].astype(np.int64)
    return _one_per_list(numbers, names, codes, "are in different groups; a list is in one")


def _one_per_list(values: NDArray[Any], names: Ids, codes: Rows, problem: str) -> NDArray[Any]:
    """The value of each list, from one value per row that is the same in all rows of a list."""
    result = np.empty(len(names), values.dtype)
    result[codes] = values
    differ = result[codes] != values
    if differ.any():
        name = names[codes[int(np.argmax(differ))]].item()
        raise DataError(f"the rows of query {name!r} {problem}.")
    return result


def check_names(names: Sequence[str] | None, n_features: int) -> tuple[str, ...] | None:
    """Feature names: one per column, all different."""
    if names is None:
        return None
    result = tuple(str(name) for name in names)
    if len(result) != n_features:
        raise DataError(f"{len(result)} feature names for {n_features} features.")
    if len(set(result)) != len(result):
        duplicate = next(name for name in result if result.count(name) > 1)
        raise DataError(f"feature name {duplicate!r} occurs more than once.")
    return result


@dataclass(frozen=True)
class Table:
    """Rows of (query, document, features, label) in the order of their source.

    Readers check the values (labels finite and not negative, features finite unless missing values
    are allowed); ``Dataset.from_table`` groups the rows into lists.
    """

    features: Features | csr_array
    """float32; ``Dataset.from_table`` takes ownership of the array."""
    labels: Labels
    query_ids: Ids
    """One per row: int64 or str; with ``run_lengths``, one per run of rows."""
    document_ids: Ids | None = None
    """One per row: int64 or str."""
    weights: NDArray[np.float64] | None = None
    """One per row, the same in all rows of a list."""
    document_weights: NDArray[np.float64] | None = None
    """One per row."""
    positions: Rows | None = None
    """One per row, from 1."""
    groups: Ids | None = None
    """One per row, the same in all rows of a list: int64 or str."""
    feature_names: tuple[str, ...] | None = None
    categories: Categories | None = None
    """For each feature that holds categories, what its values 0, 1, 2 ... stand for."""
    source: str | None = None
    """Name of the file, for error messages."""
    full_rows: bool = True
    """False if rows of a text file omit features, so that its width is only a lower bound."""
    run_lengths: Rows | None = None
    """The number of rows of each run of equal query ids; text ids for every row would be the largest column."""

    @property
    def n_docs(self) -> int:
        """Number of rows."""
        return len(self.labels)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.features.shape[1])
