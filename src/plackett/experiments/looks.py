"""Which queries a report shows, and what of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from plackett.base.ragged import Scores, Values
from plackett.data.dataset import Dataset
from plackett.experiments.gathering import Shown
from plackett.experiments.report.looking import (
    DEPTH,
    MOST_LOOKS,
    MOST_QUERIES,
    Documents,
    Look,
    Query,
)


def look_at(
    shown: Sequence[Shown],
    *,
    metric: str,
    baseline: str,
    note: str,
    systems: Sequence[str] = (),
) -> Look | None:
    """The queries that count, those with the largest differences with their documents.

    Parameters
    ----------
    shown
        Trials to look into.
    metric
        Whose values to show.
    baseline
        The system that differences are from.
    note
        Which queries these are, for the reader.
    systems
        In the order in which to offer them; the first is shown first. By default that of the
        trials.
    """
    systems = systems or (list(shown[0].scores) if shown else [])
    if not systems:
        return None
    values = np.vstack([_columns(each, metric, systems) for each in shown])
    places = [(t, q) for t, each in enumerate(shown) for q in range(each.trial.test.n_lists)]
    counted = np.flatnonzero(~np.isnan(values).any(axis=1))
    swing = np.abs(values - values[:, [systems.index(baseline)]]).max(axis=1)
    by_swing = counted[np.argsort(-swing[counted], kind="stable")]
    queries = []
    for rank, i in enumerate(by_swing[:MOST_QUERIES]):
        trial, q = places[i]
        queries.append(_query(shown[trial], q, values[i], systems, deep=rank < MOST_LOOKS))
    left_out = max(len(counted) - MOST_QUERIES, 0)
    return Look(metric, systems, baseline, queries, left_out, note)


def _columns(shown: Shown, metric: str, systems: Sequence[str]) -> NDArray[np.float64]:
    return np.column_stack([shown.values[name][metric] for name in systems])


def _query(shown: Shown, q: int, values: Values, systems: Sequence[str], *, deep: bool) -> Query:
    test = shown.trial.test
    documents = None
    if deep:
        documents = _documents(test, q, [shown.scores[name] for name in systems])
    length = int(test.offsets[q + 1] - test.offsets[q])
    return Query(str(test.query_ids[q]), shown.part.name, length, values.tolist(), documents)


def _documents(test: Dataset, q: int, scores: Sequence[Scores]) -> Documents:
    """The top documents of each system; names are ids, or places among the rows."""
    low, high = int(test.offsets[q]), int(test.offsets[q + 1])
    # Stable, as the metrics break ties: equal scores stay in the data set's own order.
    orders = [np.argsort(-each[low:high], kind="stable")[:DEPTH] for each in scores]
    kept = sorted({int(place) for order in orders for place in order})
    where = {place: i for i, place in enumerate(kept)}
    ids = test.document_ids
    return Documents(
        names=[f"row {test.rows[low + p] + 1}" if ids is None else str(ids[low + p]) for p in kept],
        labels=[float(test.labels[low + p]) for p in kept],
        orders=[[where[int(place)] for place in order] for order in orders],
        total=high - low,
    )
