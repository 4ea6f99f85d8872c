"""Documents of a click log found in a data set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.ragged import Ids, Rows, list_of_document
from plackett.data.clicks.log import ClickLog, at_row, codes_of
from plackett.data.dataset import Dataset


def match_documents(log: ClickLog, documents: Dataset) -> Rows:
    """For each row of the log, the place of its document in the data set.

    Documents are found by query and document id; where the log has no queries, by document id
    alone, which must then be that of one document only.
    """
    if log.by_rows:
        return _by_rows(log, documents)
    if documents.document_ids is None:
        raise DataError(
            "the features have no document ids to find the documents of the log by; name their "
            "column with document=, or give document_ids."
        )
    columns = [(log.documents, documents.document_ids)]
    if log.queries is not None:
        per_document = documents.query_ids[list_of_document(documents.offsets)]
        columns.append((log.queries, per_document))
    wanted, known = _common_codes(columns, len(log))
    order = np.argsort(known, kind="stable")
    at = np.searchsorted(known[order], wanted)
    safe = np.minimum(at, len(order) - 1)
    _refuse_absent(known[order][safe] != wanted, log)
    after = np.searchsorted(known[order], wanted, side="right")
    _refuse_ambiguous(after - at, log)
    return order[at]


def _by_rows(log: ClickLog, documents: Dataset) -> Rows:
    order = np.argsort(documents.rows, kind="stable")
    at = np.minimum(np.searchsorted(documents.rows[order], log.documents), len(order) - 1)
    _refuse_absent(documents.rows[order][at] != log.documents, log)
    return order[at]


def _common_codes(
    columns: list[tuple[Ids, Ids]], n: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers for the rows of both sides, equal where all columns are."""
    total: NDArray[np.int64] | None = None
    for of_log, of_data in columns:
        if of_log.dtype.kind != of_data.dtype.kind:  # 7 and "7" are the same id in files
            of_log, of_data = of_log.astype(np.str_), of_data.astype(np.str_)
        codes = codes_of(np.concatenate([of_log, of_data]))
        total = codes if total is None else codes_of(total * (codes.max() + 1) + codes)
    assert total is not None
    return total[:n], total[n:]


def _spelt(log: ClickLog, row: int) -> str:
    of = "" if log.queries is None else f" of query {log.queries[row].item()!r}"
    return f"document {log.documents[row].item()!r}{of}"


def _refuse_absent(absent: NDArray[np.bool_], log: ClickLog) -> None:
    if absent.any():
        more = int(absent.sum()) - 1
        also = f" (and {more:,} more rows)" if more else ""
        row = int(np.argmax(absent))
        message = (
            f"{_spelt(log, row)} has no features{also}; add them, or leave these rows out, for "
            "example with ClickLog.of_queries."
        )
        raise at_row(log.source, row, message)


def _refuse_ambiguous(times: NDArray[np.int64], log: ClickLog) -> None:
    if (times > 1).any():
        row = int(np.argmax(times > 1))
        remedy = "the log needs a column of queries" if log.queries is None else "keep one of them"
        message = f"{_spelt(log, row)} is {times[row]} times in the features; {remedy}."
        raise at_row(log.source, row, message)
