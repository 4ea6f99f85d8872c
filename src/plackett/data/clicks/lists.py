r"""Training lists from a click log and the features of its documents.

A click at position k counts :math:`u = 1/p_k`, the inverse of its propensity, because documents at low positions are
clicked less often by that factor (inverse propensity scoring; Joachims, Swaminathan & Schnabel 2017). Objectives that
divide by the gains of a list, as all of NDCG do, cancel a factor that the whole list shares. So u is divided between
list and document. With U the mean of u over the clicked documents of a list,

- the weight of a clicked document is u/U, that of any other 1,
- the weight of a list is kU for an impression with k clicks, and U for a query.

Because document weights have mean 1, the gains of a list add up to those of k documents. An objective that divides by
them therefore gives a click the weight kU (u/U) / k = u: the unbiased estimate of :math:`\sum_i -\log p_i` over all
relevant documents. Without k, clicks of impressions with few clicks would count more. (Objectives that add up pairs
without dividing, such as RankNet, count a click k times, which is nearly the same for all documents of a query.) For
lists by query, u is the sum over the impressions of the document, and each query counts by its mean.

In lists by impression, a single click at position 20 would count 20 times and the model would fit
noise, so propensities are clipped at :data:`CLIP` unless another limit is given. In lists by query
clicks are added up first, and nothing is clipped.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, Message, Parameter, UsageError
from plackett.base.ragged import Ids, Rows
from plackett.data.canonical import take, take_rows
from plackett.data.clicks.log import ClickLog, encode_ids, row_error
from plackett.data.clicks.propensities import Propensities
from plackett.data.dataset import Dataset
from plackett.data.inputs import Table

CLIP = 0.2
"""Lower bound of propensities in lists by impression; see ``docs/guide/clicks``."""


def lists_from_clicks(clicks: Any, documents: Dataset, by: str, propensities: Any, clip: float | None) -> Dataset:
    """Make training lists; the arguments are those of :meth:`plackett.Dataset.from_clicks`.

    Lists by impression are grouped by query, so that random splits keep them together. Lists
    without a click, or in which every document was clicked, hold no preference and are left out.
    """
    log = clicks if isinstance(clicks, ClickLog) else ClickLog.from_table(clicks)
    if by not in ("impression", "query"):
        raise UsageError(f'by must be "impression" or "query", got {by!r}.')
    if clip is not None and propensities is None:
        raise UsageError("clip limits propensities, and none were given.")
    if clip is None and by == "impression":
        clip = CLIP
    click_weights = _weigh_clicks(log, propensities, clip)
    rows = match_documents(log, documents)
    if by == "impression":
        weighted = propensities is not None
        return _lists_by_impression(log, documents, rows, click_weights, weighted=weighted)
    return _lists_by_query(documents, rows, click_weights)


def match_documents(log: ClickLog, documents: Dataset) -> Rows:
    """For each row of the log, the position of its document in the data set.

    Documents are matched by query and document id. If the log has no queries, they are matched by
    document id alone, which must then be unique.
    """
    if log.by_rows:
        order = np.argsort(documents.rows, kind="stable")
        places = np.minimum(np.searchsorted(documents.rows[order], log.documents), len(order) - 1)
        _refuse_absent(documents.rows[order][places] != log.documents, log)
        return order[places]
    if documents.document_ids is None:
        raise DataError(
            "the features have no document ids, which match them with the log; name their column "
            "with document=, or give document_ids."
        )
    columns = [(log.documents, documents.document_ids)]
    if log.queries is not None:
        columns.append((log.queries, documents.query_ids))
    wanted, known = _common_codes(columns, len(log))
    order = np.argsort(known, kind="stable")
    first = np.searchsorted(known[order], wanted)
    _refuse_absent(known[order][np.minimum(first, len(order) - 1)] != wanted, log)
    times = np.searchsorted(known[order], wanted, side="right") - first
    if (times > 1).any():
        row = int(np.argmax(times > 1))
        remedy = "the log needs a column of queries" if log.queries is None else "keep one of them"
        message = f"{_name_document(log, row)} is {times[row]} times in the features; {remedy}."
        raise row_error(log.source, row, message)
    return order[first]


def _common_codes(columns: list[tuple[Ids, Ids]], n_log: int) -> tuple[Rows, Rows]:
    """Codes of the rows of log and data; two rows have equal codes if all their columns are equal."""
    codes: Rows | None = None
    for log_ids, data_ids in columns:
        if log_ids.dtype.kind != data_ids.dtype.kind:  # 7 and "7" are the same id in files
            log_ids, data_ids = log_ids.astype(np.str_), data_ids.astype(np.str_)
        column = encode_ids(np.concatenate([log_ids, data_ids]))
        codes = column if codes is None else encode_ids(codes * (column.max() + 1) + column)
    assert codes is not None
    return codes[:n_log], codes[n_log:]


def _name_document(log: ClickLog, row: int) -> str:
    query = "" if log.queries is None else f" of query {log.queries[row].item()!r}"
    return f"document {log.documents[row].item()!r}{query}"


def _refuse_absent(absent: NDArray[np.bool_], log: ClickLog) -> None:
    if absent.any():
        more = int(absent.sum()) - 1
        also = f" (and {more:,} more rows)" if more else ""
        row = int(np.argmax(absent))
        message = (
            f"{_name_document(log, row)} has no features{also}; add them, or leave these rows out, "
            "for example with ClickLog.of_queries."
        )
        raise row_error(log.source, row, message)


def _weigh_clicks(log: ClickLog, propensities: Any, clip: float | None) -> NDArray[np.float64]:
    """The weight of each click: the inverse of its propensity; 0 for rows without a click."""
    weights = log.clicks.astype(np.float64)
    if propensities is None:
        return weights
    chances = Propensities.of(propensities).at(log.positions, clip=clip)
    bad = log.clicks & ~(chances > 0)
    if bad.any():
        row = int(np.argmax(bad))
        problem = "not known" if np.isnan(chances[row]) else "0"
        message = Message(
            f"a click at position {log.positions[row]}, whose propensity is {problem}; give one above 0, set ",
            Parameter("clip"),
            " where it is 0, or leave the row out.",
        )
        raise row_error(log.source, row, message)
    weights[log.clicks] /= chances[log.clicks]
    return weights


def _lists_by_impression(
    log: ClickLog, documents: Dataset, rows: Rows, click_weights: NDArray[np.float64], *, weighted: bool
) -> Dataset:
    lists = encode_ids(log.impressions)
    keep = _hold_preferences(lists, log.clicks)[lists]
    lists, rows, clicked = encode_ids(lists[keep]), rows[keep], log.clicks[keep]
    columns: dict[str, Any] = {"groups": documents.list_of_row[rows], "positions": log.positions[keep]}
    if weighted:
        columns["document_weights"], mean = _divide_weights(lists, click_weights[keep])
        columns["weights"] = (mean * np.bincount(lists, clicked))[lists]
    return _make_dataset(documents, rows, clicked, log.impressions[keep], **columns)


def _lists_by_query(documents: Dataset, rows: Rows, click_weights: NDArray[np.float64]) -> Dataset:
    shown, document = np.unique(rows, return_inverse=True)
    total = np.bincount(document, click_weights).astype(np.float64)
    queries = documents.list_of_row[shown]
    keep = _hold_preferences(queries, total)[queries]
    shown, total, queries = shown[keep], total[keep], queries[keep]
    lists = encode_ids(queries)
    document_weights, list_weights = _divide_weights(lists, total)
    weights = {"document_weights": document_weights, "weights": list_weights[lists]}
    return _make_dataset(documents, shown, total > 0, documents.list_ids[queries], **weights)


def _hold_preferences(lists: Rows, clicks: NDArray[Any]) -> NDArray[np.bool_]:
    """For each list, whether the clicks of its documents, or the weights of the clicks, differ."""
    low, high = np.full(lists.max() + 1, np.inf), np.zeros(lists.max() + 1)
    np.minimum.at(low, lists, clicks)
    np.maximum.at(high, lists, clicks)
    if not (high > low).any():
        raise DataError(
            f"none of the {len(high)} lists of the click log has both a click and a document "
            "without one: there is nothing to learn."
        )
    return high > low


def _divide_weights(lists: Rows, click_weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Divide the weights of clicks into those of documents, of mean 1 in a list, and of lists."""
    clicked = click_weights > 0
    mean = np.bincount(lists, click_weights) / np.bincount(lists, clicked)
    return np.where(clicked, click_weights / mean[lists], 1.0), mean


def _make_dataset(documents: Dataset, rows: Rows, clicked: NDArray[np.bool_], names: Ids, **columns: Any) -> Dataset:
    order = np.argsort(encode_ids(names), kind="stable")  # groups the rows of a list, which avoids a warning
    rows = rows[order]
    table = Table(
        features=take_rows(documents.features, rows),
        labels=clicked[order].astype(np.float32),
        query_ids=names[order],
        document_ids=take(documents.document_ids, rows),
        feature_names=documents.feature_names,
        source="the click log",
        **{name: values[order] for name, values in columns.items()},
    )
    return Dataset.from_table(table)
