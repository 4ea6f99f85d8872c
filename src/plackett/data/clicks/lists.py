r"""Lists to learn from, made of clicks.

A click at position k counts :math:`u = 1/p_k`, the inverse of its propensity: documents far down
are clicked less often than they deserve, by just that factor (inverse propensity scoring;
Joachims, Swaminathan & Schnabel 2017). Objectives that divide by the gains of a list, as all of
NDCG do, would cancel a factor that the whole list shares; so it goes into two places. With U the
mean of u over the clicked documents of a list,

- the weight of a clicked document is u/U, that of any other 1,
- the weight of a list is kU for an impression with k clicks, and U for a query.

An objective that divides by the gains of a list, which with weights of mean 1 are those of k
documents, gives a click kU (u/U) / k = u: the estimate of :math:`\sum_i -\log p_i` over all
relevant documents that has no bias. Without k, clicks of impressions with few of them would count
for more. (Objectives that add up pairs without dividing, such as RankNet, then count a click k
times, which is nearly the same for all documents of a query.) For lists by query, u is the sum over
the impressions of the document, and each query counts by its mean.

A click at position 20 that counts 20 times makes a model of noise: impressions are many and their
clicks few, so propensities below :data:`CLIP` count as it there, unless another limit is given. By
query clicks add up before anything is learnt from them, and nothing is clipped.

Documents of a click log found in a data set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import Ids, Rows, list_of_document
from plackett.data.canonical import take_rows
from plackett.data.clicks.log import ClickLog, at_row, codes_of
from plackett.data.clicks.propensities import Propensities
from plackett.data.dataset import Dataset, Table


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


CLIP = 0.2
"""Propensities of lists by impression count as at least this; see ``docs/guide/clicks``."""


def lists_from_clicks(
    clicks: Any,
    documents: Dataset,
    *,
    by: Literal["impression", "query"] = "impression",
    propensities: Propensities | Mapping[int, float] | ArrayLike | None = None,
    clip: float | None = None,
) -> Dataset:
    """Make a data set of clicks; the arguments are those of :meth:`plackett.Dataset.from_clicks`.

    Lists by impression are grouped by query: random divisions do not part them. Lists without a
    click, or in which everything was clicked, teach no order and are left out.
    """
    log = clicks if isinstance(clicks, ClickLog) else ClickLog.from_table(clicks)
    if by not in ("impression", "query"):
        raise UsageError(f'by must be "impression" or "query", got {by!r}.')
    if clip is not None and propensities is None:
        raise UsageError("clip limits propensities, and none were given.")
    if clip is None and by == "impression":
        clip = CLIP
    worth = _worth(log, propensities, clip)
    rows = match_documents(log, documents)
    if by == "impression":
        return _by_impression(log, documents, rows, worth, weighted=propensities is not None)
    return _by_query(documents, rows, worth)


def _worth(log: ClickLog, propensities: Any, clip: float | None) -> NDArray[np.float64]:
    """What each click counts; 0 where there was none."""
    worth = log.clicks.astype(np.float64)
    if propensities is None:
        return worth
    given = Propensities.of(propensities)
    found = given.at(log.positions, clip=clip)
    bad = log.clicks & ~(found > 0)
    if bad.any():
        row = int(np.argmax(bad))
        known = "not known" if np.isnan(found[row]) else "0"
        message = (
            f"a click at position {log.positions[row]}, whose propensity is {known}; give one "
            "above 0, set clip= where it is 0, or leave the row out."
        )
        raise at_row(log.source, row, message)
    worth[log.clicks] /= found[log.clicks]
    return worth


def _by_impression(
    log: ClickLog, documents: Dataset, rows: Rows, worth: NDArray[np.float64], *, weighted: bool
) -> Dataset:
    lists = codes_of(log.impressions)
    keep = _teaching(lists, log.clicks)[lists]
    lists, rows = np.unique(lists[keep], return_inverse=True)[1], rows[keep]
    worth, names = worth[keep], log.impressions[keep]
    queries = _owners(documents, rows)
    if not weighted:
        return _as_dataset(documents, rows, log.clicks[keep], names, groups=queries)
    each, mean = _shared_out(lists, worth)
    per_list = mean * np.bincount(lists, log.clicks[keep])
    return _as_dataset(
        documents, rows, log.clicks[keep], names, each, per_list[lists], groups=queries
    )


def _by_query(documents: Dataset, rows: Rows, worth: NDArray[np.float64]) -> Dataset:
    found, cell = np.unique(rows, return_inverse=True)
    total = np.bincount(cell, worth).astype(np.float64)
    owner = _owners(documents, found)
    keep = _teaching(owner, total > 0, total)[owner]
    found, total, owner = found[keep], total[keep], owner[keep]
    lists = np.unique(owner, return_inverse=True)[1]
    each, per_list = _shared_out(lists, total)
    names = documents.query_ids[owner]
    return _as_dataset(documents, found, total > 0, names, each, per_list[lists])


def _owners(documents: Dataset, rows: Rows) -> Rows:
    """The list of the data set that each of its documents is in."""
    return np.searchsorted(documents.offsets, rows, side="right") - 1


def _teaching(
    lists: Rows, clicked: NDArray[np.bool_], worth: NDArray[np.float64] | None = None
) -> NDArray[np.bool_]:
    """For each list, whether it puts documents in order: by clicks, or by what they count."""
    clicks, sizes = np.bincount(lists, clicked), np.bincount(lists)
    teaches = (clicks > 0) & (clicks < sizes)
    if worth is not None:
        low, high = np.full(len(sizes), np.inf), np.zeros(len(sizes))
        np.minimum.at(low, lists, worth)
        np.maximum.at(high, lists, worth)
        teaches |= high > low
    if not teaches.any():
        raise DataError(
            f"none of the {len(sizes)} lists of the click log has both a click and a document "
            "without one: there is nothing to learn."
        )
    return teaches


def _shared_out(
    lists: Rows, worth: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What clicks count, as weights of documents (1 on average over a list) and of lists."""
    clicked = worth > 0
    mean = np.bincount(lists, worth) / np.bincount(lists, clicked)
    return np.where(clicked, worth / mean[lists], 1.0), mean


def _as_dataset(
    documents: Dataset,
    rows: Rows,
    clicked: NDArray[np.bool_],
    names: Ids,
    each: NDArray[np.float64] | None = None,
    weights: NDArray[np.float64] | None = None,
    groups: Rows | None = None,
) -> Dataset:
    features = documents.features
    ids = documents.document_ids
    order = np.argsort(codes_of(names), kind="stable")  # rows of a list side by side: no warning
    rows = rows[order]
    table = Table(
        features=take_rows(features, rows) if isinstance(features, np.ndarray) else features[rows],
        labels=clicked[order].astype(np.float32),
        query_ids=names[order],
        document_ids=None if ids is None else ids[rows],
        weights=None if weights is None else weights[order],
        document_weights=None if each is None else each[order],
        groups=None if groups is None else groups[order],
        feature_names=documents.feature_names,
        source="the click log",
    )
    return Dataset.from_table(table)
