"""Single queries: values of all systems, and the documents in the order of each.

Which queries a report shows, and what of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.ragged import Scores, Values
from plackett.data.dataset import Dataset
from plackett.experiments.results import TrialDetails

MOST_QUERIES = 20_000
"""In one report; beyond, those with the smallest differences are left out."""
MOST_LOOKS = 300
"""Queries whose documents are in the report: those with the largest differences."""
DEPTH = 20
"""Documents of each system's ranking."""


@dataclass(frozen=True)
class Documents:
    """The top documents of a query in the order of each system."""

    names: Sequence[str]
    labels: Sequence[float]
    orders: Sequence[Sequence[int]]
    """For each system, positions in ``names``, the best first."""
    total: int
    """Documents in the list, of which the top ones are here."""


@dataclass(frozen=True)
class Query:
    """One test list."""

    name: str
    trial: str
    length: int
    values: Sequence[float]
    """One per system."""
    documents: Documents | None = None


@dataclass(frozen=True)
class Look:
    """Queries to look into."""

    metric: str
    systems: Sequence[str]
    baseline: str
    queries: Sequence[Query]
    left_out: int = 0
    """Queries that are not shown."""
    note: str = ""
    """Of which trial the queries are."""


def look_section(look: Look) -> str:
    """The section of the page, with its data; the page's script brings it to life."""
    left_out = (
        f" {look.left_out:,} queries with smaller differences are left out."
        if look.left_out
        else ""
    )
    systems = [name for name in look.systems if name != look.baseline]
    first = systems[0] if systems else look.baseline
    return (
        f"<section id='look'><h2>Query by query: {escape(look.metric)}</h2>"
        f"<p class='small'>{escape(look.note)} Choose two systems; select a query to see its "
        f"documents in both orders.{left_out}</p>"
        "<noscript><p>This part of the report needs JavaScript.</p></noscript>"
        "<div class='controls'>"
        f"<label>system {_select('system', look.systems, first)}</label>"
        f"<label>against {_select('against', look.systems, look.baseline)}</label>"
        "<label>show <select id='kind'><option value='all'>all</option><option value='won'>won"
        "</option><option value='lost'>lost</option><option value='tied'>tied</option></select>"
        "</label><label>search <input id='search' type='search' placeholder='query'></label></div>"
        "<p id='count' class='small' aria-live='polite'></p>"
        "<div class='scroll'><table id='queries'><thead></thead><tbody></tbody></table></div>"
        "<button id='more' type='button'>show more</button>"
        f"<script type='application/json' id='data'>{_json(_payload(look))}</script></section>"
    )


def _select(name: str, systems: Sequence[str], chosen: str) -> str:
    options = "".join(
        f"<option value='{i}'{' selected' if system == chosen else ''}>{escape(system)}</option>"
        for i, system in enumerate(systems)
    )
    return f"<select id='{name}'>{options}</select>"


def _payload(look: Look) -> dict[str, Any]:
    several = len({query.trial for query in look.queries}) > 1
    return {
        "systems": list(look.systems),
        "metric": look.metric,
        "several": several,
        "rows": [
            [q.name, q.trial, q.length, [round(v, 5) for v in q.values]] for q in look.queries
        ],
        "documents": {
            str(i): _documents(q.documents)
            for i, q in enumerate(look.queries)
            if q.documents is not None
        },
    }


def _documents(given: Documents) -> Mapping[str, Any]:
    return {
        "names": list(given.names),
        "labels": list(given.labels),
        "orders": [list(order) for order in given.orders],
        "total": given.total,
    }


def _json(payload: Any) -> str:
    # Inside a script element only "<" could end it or begin a comment.
    text = json.dumps(payload, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def look_at(
    shown: Sequence[TrialDetails],
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


def _columns(shown: TrialDetails, metric: str, systems: Sequence[str]) -> NDArray[np.float64]:
    return np.column_stack([shown.values[name][metric] for name in systems])


def _query(
    shown: TrialDetails, q: int, values: Values, systems: Sequence[str], *, deep: bool
) -> Query:
    test = shown.trial.test
    documents = None
    if deep:
        documents = _shown_documents(test, q, [shown.scores[name] for name in systems])
    length = int(test.offsets[q + 1] - test.offsets[q])
    return Query(str(test.query_ids[q]), shown.part.name, length, values.tolist(), documents)


def _shown_documents(test: Dataset, q: int, scores: Sequence[Scores]) -> Documents:
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
