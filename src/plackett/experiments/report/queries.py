"""Results by segment: means of systems on groups of test lists.

Lists are grouped by their length, by their number of relevant documents, and by columns that the user gives. Numbers
with many different values are cut into ranges that hold about as many lists each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import Values
from plackett.data import Dataset
from plackett.experiments.figures import DotChart, Dots
from plackett.experiments.protocols import DataSource
from plackett.experiments.results import TrialDetails
from plackett.experiments.significance import mean_interval

MAX_GROUPS = 6  # groups of one column
OTHER = "other"  # rare values of a column together

Column = Mapping[Any, Any]


@dataclass(frozen=True)
class Group:
    """Test lists with something in common."""

    name: str
    n_lists: int
    means: Mapping[str, float]  # mean of the metric by system
    differences: Mapping[str, tuple[float, float, float]]
    """Mean difference from the baseline and its 95 % interval, by the other systems."""

    @property
    def best(self) -> float:
        """The highest mean."""
        return max(self.means.values())


@dataclass(frozen=True)
class Segmentation:
    """Groups by one column."""

    column: str
    metric: str
    baseline: str
    groups: tuple[Group, ...]

    def chart(self, system: str) -> DotChart:
        """Difference of a system from the baseline in each group."""
        rows = []
        for group in self.groups:
            mean, low, high = group.differences[system]
            if group.n_lists > 1:
                rows.append(Dots(f"{group.name} ({group.n_lists:,})", [mean], (low, high), low > 0 or high < 0))
        title = f"{system} − {self.baseline} by {self.column}"
        return DotChart(title, f"difference in {self.metric}, with 95 % interval", rows, zero=True)


def segment_results(
    trials: Sequence[TrialDetails],
    *,
    metric: str,
    baseline: str,
    systems: Sequence[str],
    columns: Mapping[str, Column] | None = None,
) -> tuple[Segmentation, ...]:
    """Results by length, number of relevant documents, and the user's columns: by name, values by query id."""
    tests = [details.data.test for details in trials]
    values = {name: np.concatenate([details.values[name][metric] for details in trials]) for name in systems}
    by_column: dict[str, NDArray[Any]] = {
        "number of documents": np.concatenate([test.list_sizes for test in tests]),
        "number of relevant documents": np.concatenate(
            [test.reduce_lists(np.add, (test.labels > 0).astype(np.int64)) for test in tests]
        ),
    }
    for name, column in (columns or {}).items():
        by_column[name] = np.concatenate([_look_up(test, name, column) for test in tests])
    counted = ~np.isnan(values[baseline])
    values = {name: column[counted] for name, column in values.items()}
    segmentations = []
    for name, cells in by_column.items():
        names, members = group_values(cells[counted])
        groups = tuple(_group(group, members == i, values, baseline) for i, group in enumerate(names))
        if len(groups) > 1:
            segmentations.append(Segmentation(name, metric, baseline, groups))
    return tuple(segmentations)


def _look_up(test: Dataset, name: str, column: Column) -> NDArray[Any]:
    ids = test.list_ids.tolist()
    unknown = next((i for i in ids if i not in column), None)
    if unknown is not None:
        raise DataError(f"the column {name!r} has no value for the query {unknown!r}.")
    return np.array([column[i] for i in ids])


def group_values(cells: NDArray[Any]) -> tuple[list[str], NDArray[np.int64]]:
    """Names of at most :data:`MAX_GROUPS` groups, and the group of each cell.

    >>> names, members = group_values(np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]))
    >>> names
    ['1–2', '3–4', '5–6', '7–8', '9–10', '11–12']
    """
    distinct, members, counts = np.unique(cells, return_inverse=True, return_counts=True)
    if len(distinct) <= MAX_GROUPS:
        return [_format(value) for value in distinct], members
    if not np.issubdtype(cells.dtype, np.number):
        common = np.sort(np.argsort(-counts, kind="stable")[: MAX_GROUPS - 1])
        places = np.full(len(distinct), len(common))
        places[common] = np.arange(len(common))
        return [*(str(value) for value in distinct[common]), OTHER], places[members]
    inner = np.linspace(0, 1, MAX_GROUPS + 1)[1:-1]
    edges = np.unique(np.quantile(cells, inner, method="lower"))
    _, members = np.unique(np.searchsorted(edges, cells, side="left"), return_inverse=True)
    ends = [(cells[members == i].min(), cells[members == i].max()) for i in range(members.max() + 1)]
    return [_format(a) if a == b else f"{_format(a)}–{_format(b)}" for a, b in ends], members


def _format(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, np.floating) else str(value)


def _group(name: str, inside: NDArray[np.bool_], values: Mapping[str, Values], baseline: str) -> Group:
    means = {system: float(of_system[inside].mean()) for system, of_system in values.items()}
    differences = {}
    for system, of_system in values.items():
        if system != baseline:
            d = of_system[inside] - values[baseline][inside]
            differences[system] = (float(d.mean()), *mean_interval(d))
    return Group(name, int(inside.sum()), means, differences)


def read_column(paths: Sequence[Path], name: str, *, query: str = "query_id") -> Column:
    """A column of Parquet or Arrow files by query id; the first row of a query counts."""
    from pyarrow import dataset

    inside = [file for path in paths if path.is_dir() for file in sorted(path.rglob("*"))]
    files = [file for file in (*paths, *inside) if file.suffix in _SUFFIXES]
    if not files:
        raise UsageError(
            f"the column {name!r} cannot be read: only Parquet and Arrow files have named columns besides features."
        )
    values: dict[Any, Any] = {}
    for file in files:
        table = dataset.dataset(file, format=_SUFFIXES[file.suffix])
        for wanted in (name, query):
            if wanted not in table.schema.names:
                there = ", ".join(table.schema.names[:20])
                raise UsageError(f"{file.name} has no column {wanted!r}. It has {there}.")
        columns = table.to_table(columns=[query, name]).to_pydict()
        for key, value in zip(columns[query], columns[name], strict=True):
            values.setdefault(key, OTHER if value is None else value)
    return values


_SUFFIXES = {".parquet": "parquet", ".arrow": "ipc", ".feather": "ipc"}


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
