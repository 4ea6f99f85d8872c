"""Single queries of a comparison: values of all systems, and documents in the order of each.

The template ``query_browser.html`` embeds these as JSON; its script sorts, searches and opens them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.ragged import Values
from plackett.data.dataset import Dataset
from plackett.experiments.protocols import DataSource
from plackett.experiments.results import TrialDetails

MAX_QUERIES = 20_000  # queries in one report; beyond that, those with the smallest differences are left out
MAX_OPEN = 300  # queries whose documents are in the report: those with the largest differences
DEPTH = 20  # documents of each system's ranking
MAX_FEATURES = 10  # features of a document: those with the largest importance
MAX_CELLS = 60_000  # feature values in one report, about 350 kB


@dataclass(frozen=True)
class QueryBrowser:
    """Queries that a report shows one by one."""

    metric: str
    systems: Sequence[str]
    baseline: str
    rows: Sequence[tuple[str, str, int, list[float]]]
    """For each query its name, its trial, its number of documents, and a value per system."""
    documents: Mapping[str, Mapping[str, Any]]
    """The top documents of a query, by its position among the rows."""
    left_out: int = 0
    note: str = ""  # says which trial the queries are from
    features: Sequence[str] = ()  # names of the features that documents show

    @property
    def first(self) -> str:
        """The system that is compared with the baseline when the page opens."""
        return next((name for name in self.systems if name != self.baseline), self.baseline)

    def payload(self) -> dict[str, Any]:
        """What the script of the page reads."""
        return {
            "systems": list(self.systems),
            "metric": self.metric,
            "several": len({trial for _, trial, _, _ in self.rows}) > 1,
            "features": list(self.features),
            "rows": self.rows,
            "documents": self.documents,
        }


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Where the features of shown documents come from."""

    source: DataSource
    importance: Values | None = None  # share of each feature; without it the first features are shown

    def columns(self) -> list[int]:
        """The features to show."""
        count = self.dataset.n_features
        order = range(count) if self.importance is None else np.argsort(-self.importance)
        return [int(j) for j in list(order)[:MAX_FEATURES]]

    def names(self) -> list[str]:
        """Names of the features to show; those without names have their numbers."""
        names = self.dataset.feature_names
        return [names[j] if names else f"feature {j + 1}" for j in self.columns()]

    @property
    def dataset(self) -> Dataset:
        """A data set that has the features."""
        return self.source.whole if self.source.whole is not None else self.source.folds[0].test

    def rows(self, details: TrialDetails, documents: NDArray[np.int64]) -> list[list[float]]:
        """Features of documents of a test set, given by their positions in it."""
        test = details.data.test
        if test.n_features:
            features, places = test.features, documents
        elif self.source.whole is not None:  # the trial has the lists without features
            whole = self.source.whole
            features = whole.features
            places = np.searchsorted(whole.rows, test.rows[documents])
        else:
            features, places = self.source.folds[details.split.index].test.features, documents
        chosen = features[places][:, self.columns()]
        dense = chosen.toarray() if isinstance(chosen, csr_array) else chosen
        return [[float(f"{value:.4g}") for value in row] for row in np.nan_to_num(dense).tolist()]


def browse_queries(
    trials: Sequence[TrialDetails],
    *,
    metric: str,
    baseline: str,
    note: str,
    systems: Sequence[str] = (),
    features: FeatureTable | None = None,
) -> QueryBrowser | None:
    """Select the queries to show; those with the largest differences come with their documents.

    ``note`` says which queries these are. Systems are offered in the given order, by default that of the trials.
    Without ``features`` no features of documents are shown.
    """
    systems = systems or (list(trials[0].scores) if trials else [])
    if not systems:
        return None
    values = np.vstack([np.column_stack([t.values[name][metric] for name in systems]) for t in trials])
    places = [(details, q) for details in trials for q in range(details.data.test.n_lists)]
    counted = np.flatnonzero(~np.isnan(values).any(axis=1))
    swing = np.abs(values - values[:, [systems.index(baseline)]]).max(axis=1)
    by_swing = counted[np.argsort(-swing[counted], kind="stable")]
    rows, documents, cells = [], {}, MAX_CELLS
    for rank, i in enumerate(by_swing[:MAX_QUERIES]):
        details, q = places[i]
        test = details.data.test
        rounded = [round(value, 5) for value in values[i].tolist()]
        rows.append((str(test.list_ids[q]), details.split.name, int(test.list_sizes[q]), rounded))
        if rank < MAX_OPEN:
            shown = _documents(details, q, systems, features if cells > 0 else None)
            cells -= sum(len(row) for row in shown.get("features", ()))
            documents[str(rank)] = shown
    left_out = max(len(counted) - MAX_QUERIES, 0)
    names = [] if features is None else features.names()
    return QueryBrowser(metric, systems, baseline, rows, documents, left_out, note, names)


def _documents(details: TrialDetails, q: int, systems: Sequence[str], features: FeatureTable | None) -> dict[str, Any]:
    """The top documents: names (ids, or numbers of rows), labels, and positions in them in the order of each system."""
    test = details.data.test
    rows = np.flatnonzero(test.list_of_row == q)
    ties = test.order.places[rows]  # broken as in the metrics
    orders = [np.lexsort((ties, -details.scores[name][rows]))[:DEPTH] for name in systems]
    kept = np.unique(np.concatenate(orders))
    ids, shown = test.document_ids, rows[kept]
    return {
        "names": [f"row {test.rows[row] + 1}" if ids is None else str(ids[row]) for row in shown],
        "labels": test.labels[shown].tolist(),
        "orders": [np.searchsorted(kept, order).tolist() for order in orders],
        "total": len(rows),
    } | ({} if features is None else {"features": features.rows(details, shown)})
