"""What callers hand over (NumPy, pandas, polars, pyarrow, SciPy) made into our arrays, checked.

Libraries of tables are recognised by class without importing them: an object of pandas can only
exist where pandas is already imported.

Ids that come as Python objects or text, checked: NumPy alone would merge different ones.

It makes ``[1, "1"]`` two equal strings, and drops NUL at the end of a string.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse
from numba import njit, prange
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.ragged import Features, Ids, Labels, Rows
from plackett.data.large_arrays import iter_blocks


def from_objects(column: NDArray[Any], what: str) -> NDArray[Any]:
    """Ids of an array of Python objects: all integers, all strings or all bytes of UTF-8."""
    if len(column) and all(isinstance(value, bytes) for value in column):
        column = _decoded(column, what)
    if all(isinstance(value, str) for value in column):
        for row, value in enumerate(column):
            if "\0" in value:  # at the end of a string, NumPy would drop it
                raise _bad_text(row, value, what)
        return column.astype(np.str_)
    if all(
        isinstance(value, (int, np.integer)) and not isinstance(value, bool) for value in column
    ):
        try:
            return column.astype(np.int64)
        except OverflowError as error:
            raise DataError(f"{what} must fit in 64 bits: {error}.") from error
    kinds = sorted({type(value).__name__ for value in column})
    raise DataError(f"{what} must be all integers or all strings, got {', '.join(kinds)}.")


def _decoded(column: NDArray[Any], what: str) -> NDArray[Any]:
    try:
        return np.array([value.decode("utf-8") for value in column], dtype=object)
    except UnicodeDecodeError as error:
        raise DataError(f"{what} must be text in UTF-8, got {error.object!r}.") from error


def checked_text(column: NDArray[np.str_], what: str) -> Ids:
    """Refuse what a file could not hold: NUL, and halves of surrogate pairs."""
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
        f"{what} must be text without NUL and lone surrogates, got {value!r} in row {row} "
        "(counted from 0)."
    )


Missing: TypeAlias = Literal["nan"] | None
"""How missing feature values come: None, there are none (NaN is refused); "nan", as NaN."""


def _is_a(value: object, library: str, *names: str) -> bool:
    module = sys.modules.get(library)
    return module is not None and isinstance(value, tuple(getattr(module, n) for n in names))


def as_column(values: Any) -> NDArray[Any]:
    """One-dimensional NumPy array of a list, array, Series or Arrow column."""
    if _is_a(values, "pyarrow", "Array", "ChunkedArray"):
        return np.asarray(values.to_numpy(zero_copy_only=False))
    if _is_a(values, "pandas", "Series", "Index") or _is_a(values, "polars", "Series"):
        return np.asarray(values.to_numpy())
    return np.asarray(values)


def as_features(features: Any) -> tuple[Features | scipy.sparse.csr_array, tuple[str, ...] | None]:
    """Dense float32 (or CSR) features of any table-like object, and its column names if it has."""
    if scipy.sparse.issparse(features):
        return _sparse(features), None
    if _is_a(features, "pandas", "DataFrame"):
        columns = [features.iloc[:, j] for j in range(features.shape[1])]
        return _from_columns(columns, features.columns, len(features))
    if _is_a(features, "polars", "DataFrame"):
        return _from_columns(features.get_columns(), features.columns, features.height)
    if _is_a(features, "pyarrow", "Table", "RecordBatch"):
        return _from_columns(features.columns, features.column_names, features.num_rows)
    return _dense(features), None


def _sparse(features: Any) -> scipy.sparse.csr_array:
    if features.ndim != 2:
        raise DataError(
            f"features must have two dimensions (documents x features), got shape {features.shape}."
        )
    with np.errstate(over="ignore"):  # overflow gives inf, which check_features refuses
        matrix = scipy.sparse.csr_array(features, dtype=np.float32, copy=True)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # it may share the caller's arrays
        matrix.sum_duplicates()
    return matrix


def _from_columns(
    columns: Sequence[Any], names: Any, n_docs: int
) -> tuple[Features, tuple[str, ...]]:
    matrix = np.empty((n_docs, len(columns)), np.float32)
    for at, column in enumerate(columns):
        try:
            with np.errstate(over="ignore"):
                matrix[:, at] = _nullable(column)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"feature {names[at]!r} must be numbers: {error}. Encode text and categories as "
                "numbers first."
            ) from error
    return matrix, _names(names)


def _nullable(column: Any) -> NDArray[Any]:
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


def _names(columns: Any) -> tuple[str, ...]:
    return tuple(str(c) for c in columns)


def _dense(values: Any) -> Features:
    try:
        given = np.asarray(values)
    except ValueError as error:  # NumPy's words for rows of different lengths
        raise DataError(
            "features must be a table of numbers, with as many values in each row as in the others."
        ) from error
    try:
        with np.errstate(over="ignore"):
            matrix = np.asarray(_numbers(given), dtype=np.float32, order="C")
    except (TypeError, ValueError) as error:
        raise DataError(
            f"features must be numbers, one row per document: {error}. Encode text and categories "
            "as numbers first."
        ) from error
    if matrix.shape == (0,):
        return matrix.reshape(0, 0)  # an empty list: no rows
    if matrix.ndim != 2:
        raise DataError(
            f"features must have two dimensions (documents x features), got shape {matrix.shape}."
        )
    return matrix


def check_features(
    features: Features | scipy.sparse.csr_array,
    missing: Missing,
    names: Sequence[str] | None = None,
) -> None:
    """Refuse infinite features, and NaN unless it stands for a missing value."""
    if missing not in (None, "nan"):
        raise DataError(f'missing must be None or "nan", got {missing!r}.')
    sparse = features if isinstance(features, scipy.sparse.csr_array) else None
    values = np.asarray(features if sparse is None else sparse.data)
    values = values.reshape(-1, 1) if sparse is not None else values
    row, column = _first_bad(values, missing == "nan")
    if row < 0:
        return
    found = values[row, column]
    if sparse is not None:
        column = int(sparse.indices[row])
        row = int(np.searchsorted(sparse.indptr, row, side="right") - 1)
    remedy = (
        'pass missing="nan" if NaN stands for a missing value'
        if np.isnan(found)
        else "features must be finite float32 numbers (up to 3.4e38)"
    )
    name = f"{column + 1} (counted from 1)" if names is None else repr(names[column])
    raise DataError(f"row {row} (counted from 0): feature {name} is {found}; {remedy}.")


@njit(cache=True, nogil=True, parallel=True)
def _bad_rows(values, allow_nan, bad):  # type: ignore[no-untyped-def]
    for row in prange(values.shape[0]):
        for column in range(values.shape[1]):
            value = values[row, column]
            if np.isinf(value) or (np.isnan(value) and not allow_nan):
                bad[row] = True


def _first_bad(values: NDArray[np.float32], allow_nan: bool) -> tuple[int, int]:
    bad = np.zeros(len(values), np.bool_)
    for rows in iter_blocks(values):
        _bad_rows(values[rows], allow_nan, bad[rows])
    if not bad.any():
        return -1, -1
    row = int(np.argmax(bad))
    wrong = np.isinf(values[row]) if allow_nan else ~np.isfinite(values[row])
    return row, int(np.argmax(wrong))


def as_labels(labels: Any, n_docs: int) -> Labels:
    """Labels as float32: one non-negative real number per row."""
    column = as_column(labels)
    if column.shape != (n_docs,):
        raise DataError(f"labels must be {n_docs} numbers, one per row, got shape {column.shape}.")
    try:
        with np.errstate(over="ignore"):
            result = np.ascontiguousarray(_numbers(column), dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"labels must be numbers: {error}.") from error
    bad = ~(np.isfinite(result) & (result >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"row {row} (counted from 0): label {column[row]}; labels are finite numbers, zero or "
            "greater."
        )
    return result + np.float32(0)  # -0.0 becomes 0.0


def as_ids(ids: Any, n_docs: int, *, what: str) -> Ids:
    """Ids as int64 or str, one per row."""
    column = as_column(ids)
    if column.shape != (n_docs,):
        raise DataError(f"{what} must be {n_docs} values, one per row, got shape {column.shape}.")
    if isinstance(ids, (list, tuple)) and column.dtype.kind in "US":
        column = np.array(ids, dtype=object)  # NumPy has made [1, "1"] two equal strings
    if column.dtype.kind in ("O", "T"):
        column = from_objects(column.astype(object), what)
    if column.dtype.kind == "S":
        column = from_objects(np.array(column.tolist(), dtype=object), what)
    if column.dtype.kind == "U":
        return checked_text(column, what)
    if column.dtype.kind not in "iu" or (
        column.dtype == np.uint64 and len(column) and column.max() > np.iinfo(np.int64).max
    ):
        raise DataError(
            f"{what} must be integers (64 bits, signed) or strings, got {column.dtype}."
        )
    return np.ascontiguousarray(column, dtype=np.int64)


def first_appearance(ids: Ids) -> tuple[Ids, Rows, bool]:
    """Number ids by first appearance.

    Returns
    -------
    names
        The distinct ids in order of first appearance.
    codes
        For each row, the number of its id.
    contiguous
        False if some id comes back after another one.
    """
    if len(ids) == 0:
        return ids, np.empty(0, np.int64), True
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    heads = ids[starts]  # one per run: usually far fewer than rows
    unique, first, inverse = np.unique(heads, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    codes = np.repeat(number[inverse], np.diff(np.append(starts, len(ids))))
    return unique[order], codes, len(unique) == len(heads)


def as_weights(weights: Any, names: Ids, codes: Rows) -> NDArray[np.float64]:
    """One weight per list, in order of first appearance, from any of the forms callers use.

    A mapping from query id to weight, one value per list in order of first appearance, or one
    value per row that is the same in all rows of a list.
    """
    if isinstance(weights, Mapping):
        lacking = [q for q in names.tolist() if q not in weights]
        if lacking:
            raise DataError(f"weights lack query {lacking[0]!r} (and {len(lacking) - 1} more).")
        weights = [weights[q] for q in names.tolist()]
    try:
        given = np.asarray(_nullable(weights), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"weights must be numbers: {error}.") from error
    result = _from_sequence(given, names, codes)
    bad = ~(np.isfinite(result) & (result >= 0))
    if bad.any():
        at = int(np.argmax(bad))
        raise DataError(
            f"the weight of query {names[at].item()!r} is {result[at]}; weights are finite and not "
            "negative."
        )
    return result


def as_document_weights(weights: Any, n_docs: int) -> NDArray[np.float64]:
    """One weight per row, finite and not negative."""
    column = as_column(weights)
    if column.shape != (n_docs,):
        raise DataError(
            f"document_weights must be {n_docs} numbers, one per row, got shape {column.shape}."
        )
    try:
        result = np.array(_numbers(column), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"document_weights must be numbers: {error}.") from error
    bad = ~(np.isfinite(result) & (result >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"row {row} (counted from 0): document weight {result[row]}; weights are finite and "
            "not negative."
        )
    return result


def as_groups(groups: Ids, names: Ids, codes: Rows) -> Rows:
    """The group of each list, as numbers from 0, from one id per row."""
    numbers = np.unique(groups, return_inverse=True)[1].astype(np.int64)
    result = np.empty(len(names), np.int64)
    result[codes] = numbers
    differ = result[codes] != numbers
    if differ.any():
        name = names[codes[int(np.argmax(differ))]].item()
        raise DataError(f"the rows of query {name!r} are of different groups; a list is of one.")
    return result


def _from_sequence(given: NDArray[np.float64], names: Ids, codes: Rows) -> NDArray[np.float64]:
    if given.shape == (len(names),):
        return given
    if given.shape != (len(codes),):
        raise DataError(
            f"weights must be {len(names)} (one per list, in order of first appearance), "
            f"{len(codes)} (one per row) or a mapping from query id, got shape {given.shape}."
        )
    result = np.empty(len(names))
    result[codes] = given
    differ = result[codes] != given
    if differ.any():
        name = names[codes[int(np.argmax(differ))]].item()
        raise DataError(
            f"the rows of query {name!r} have different weights; a list has one weight."
        )
    return result


def check_names(names: Sequence[str] | None, n_features: int) -> tuple[str, ...] | None:
    """Feature names: one per column, all different."""
    if names is None:
        return None
    result = _names(names)
    if len(result) != n_features:
        raise DataError(f"{len(result)} feature names for {n_features} features.")
    if len(set(result)) != len(result):
        twice = next(n for n in result if result.count(n) > 1)
        raise DataError(f"feature name {twice!r} occurs more than once.")
    return result
