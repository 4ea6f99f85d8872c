"""Results of a comparison: outcomes of trials as values per list, and a leaderboard with tests."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from html import escape
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError, warn_renamed
from plackett.base.ragged import Scores, Values
from plackett.data import Dataset
from plackett.experiments import significance
from plackett.experiments.plan import Plan, Trial
from plackett.experiments.protocols import DataSource, Folds, Holdout, Protocol, Seeds, Split, SplitData, Splits, Unit
from plackett.experiments.store import Outcome, RunStore
from plackett.metrics import FunctionMetric, metric as as_metric, per_list

Test = Literal["randomization", "t_test", "wilcoxon", "randomisation"]
Correction = Literal["holm", "benjamini-hochberg"]
Interval = tuple[float, float]

TESTS: dict[str, str] = {
    "randomization": "randomization test",
    "t_test": "t-test",
    "wilcoxon": "Wilcoxon's signed-rank test",
}
CORRECTIONS: dict[str, str] = {"holm": "Holm", "benjamini-hochberg": "Benjamini & Hochberg"}
_CORRECT = {"holm": significance.holm, "benjamini-hochberg": significance.benjamini_hochberg}


@dataclass(frozen=True)
class Entry:
    """One system of a leaderboard."""

    name: str
    means: dict[str, float]
    """Mean over lists by metric."""
    comparisons: dict[str, significance.Comparison]
    """Comparison with the baseline by metric; empty for the baseline."""
    adjusted: dict[str, float]
    """p-value by metric, corrected for the number of systems."""
    seconds: float
    intervals: dict[str, Interval] = field(default_factory=dict)
    """95 % interval of the mean by metric."""


@dataclass(frozen=True, repr=False)
class Leaderboard:
    """Systems ordered by the primary metric, the best first; it prints as a table."""

    entries: tuple[Entry, ...]
    metrics: tuple[str, ...]
    primary: str
    baseline: str
    n_lists: int
    n_counted: int
    """Lists (or trials) that count for the primary metric."""
    unit: Unit = "lists"
    """Whether the values are of lists or of trials."""
    alpha: float = 0.05
    test: Test = "randomization"
    """The test whose p-values are corrected."""
    correction: Correction = "holm"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        entries = [
            asdict(entry) | {"comparisons": {metric: c.to_dict() for metric, c in entry.comparisons.items()}}
            for entry in self.entries
        ]
        return asdict(self) | {"entries": entries}

    def rows(self) -> list[dict[str, Any]]:
        """A dictionary per system, for a data frame: means, and the comparison by the primary metric."""
        result = []
        for entry in self.entries:
            comparison = entry.comparisons.get(self.primary)
            against = {
                "difference": None if comparison is None else comparison.difference,
                "p": entry.adjusted.get(self.primary),
                "verdict": self.verdict(entry, self.primary),
            }
            result.append({"system": entry.name, **entry.means, **against, "seconds": entry.seconds})
        return result

    def _cells(self) -> list[list[str]]:
        """The header and a row per system, as texts."""
        marks = {"better": "▲", "worse": "▼", "": " "}
        lines = [["system", *self.metrics, "p"]]
        for entry in self.entries:
            means = [f"{entry.means[m]:.4f}{marks[self.verdict(entry, m)]}" for m in self.metrics]
            p = "(base)" if entry.name == self.baseline else f"{entry.adjusted[self.primary]:.4f}"
            lines.append([entry.name, *means, p])
        return lines

    def __repr__(self) -> str:
        lines = self._cells()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = [
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines
        ]
        note = f"▲ better, ▼ worse than {self.baseline} (base); p of {self.primary}, {self.n_counted:,} {self.unit}"
        return "\n".join([*texts, note])

    def _repr_html_(self) -> str:
        head, *body = [[escape(cell) for cell in line] for line in self._cells()]
        rows = ["".join(f"<td>{cell}</td>" for cell in line) for line in body]
        note = escape(repr(self).splitlines()[-1])
        table = "".join(f"<tr>{row}</tr>" for row in ["".join(f"<th>{cell}</th>" for cell in head), *rows])
        return f"<table>{table}</table><small>{note}</small>"

    def verdict(self, entry: Entry, metric: str) -> Literal["better", "worse", ""]:
        """Whether a system is significantly better or worse than the baseline."""
        if entry.adjusted.get(metric, 1.0) >= self.alpha:
            return ""
        return "better" if entry.comparisons[metric].difference > 0 else "worse"


def leaderboard(
    values: Mapping[str, Mapping[str, Values]],
    *,
    baseline: str,
    primary: str | None = None,
    seconds: Mapping[str, float] | None = None,
    seed: int = 0,
    unit: Unit = "lists",
    alpha: float = 0.05,
    test: Test = "randomization",
    correction: Correction = "holm",
    intervals: Mapping[str, Mapping[str, Interval]] | None = None,
) -> Leaderboard:
    """Compare systems by their values on the same lists, or by their means in the same trials.

    Parameters
    ----------
    values
        For each system and metric, one value per list (NaN where the metric drops the list) or per
        trial.
    baseline
        The system that the others are compared with.
    primary
        The metric that orders the systems; by default the first.
    seconds
        Time of training by system.
    seed
        Random seed of the randomization test and the bootstrap.
    unit
        Whether the values are of lists or of trials.
    alpha
        Level of significance.
    test, correction
        Which p-values are corrected, and how.
    intervals
        Intervals of the means by system and metric; by default from the bootstrap over lists, or
        Student's over trials.
    """
    if baseline not in values:
        raise UsageError(f"the baseline {baseline!r} is not among {', '.join(values)}.")
    if test == "randomisation":  # its old spelling
        warn_renamed("randomisation", "randomization")
        test = "randomization"
    metrics = tuple(values[baseline])
    main = metrics[0] if primary is None else primary
    if main not in metrics:
        raise UsageError(f"the primary metric {main!r} is not among {', '.join(metrics)}.")
    spread = intervals or _mean_intervals(values, metrics, unit, seed=seed)
    comparisons = {
        name: {m: significance.compare_paired(v, values[baseline][m], seed=seed) for m, v in by_metric.items()}
        for name, by_metric in values.items()
        if name != baseline
    }
    adjusted: dict[str, dict[str, float]] = {name: {} for name in values}
    for m in metrics:
        p_values = _CORRECT[correction]([getattr(by_metric[m], test) for by_metric in comparisons.values()])
        for name, p in zip(comparisons, p_values.tolist(), strict=True):
            adjusted[name][m] = p
    entries = []
    for name, by_metric in values.items():
        means = {m: float(np.nanmean(v)) for m, v in by_metric.items()}
        time = (seconds or {}).get(name, 0.0)
        entries.append(Entry(name, means, comparisons.get(name, {}), adjusted[name], time, dict(spread[name])))
    # If means are equal, the baseline comes first.
    entries.sort(key=lambda entry: (-entry.means[main], entry.name != baseline))
    reference = values[baseline][main]
    return Leaderboard(
        entries=tuple(entries),
        metrics=metrics,
        primary=main,
        baseline=baseline,
        n_lists=len(reference),
        n_counted=int(np.isfinite(reference).sum()),
        unit=unit,
        alpha=alpha,
        test=test,
        correction=correction,
    )


def _mean_intervals(
    values: Mapping[str, Mapping[str, Values]], metrics: tuple[str, ...], unit: Unit, *, seed: int
) -> dict[str, dict[str, Interval]]:
    intervals: dict[str, dict[str, Interval]] = {name: {} for name in values}
    for metric in metrics:
        columns = np.column_stack([by_metric[metric] for by_metric in values.values()])
        ends = (
            [significance.mean_interval(column) for column in columns.T]
            if unit == "trials"
            else significance.bootstrap_intervals(columns, seed=seed)
        )
        for name, (low, high) in zip(values, ends, strict=True):
            intervals[name][metric] = (float(low), float(high))
    return intervals


ByMetric = Mapping[str, Values]


@dataclass(frozen=True, eq=False)
class TrialDetails:
    """One split in detail: its lists, and the scores and values of every system."""

    split: Split
    data: SplitData
    scores: Mapping[str, Scores]
    values: Mapping[str, ByMetric]


@dataclass(frozen=True, eq=False)
class ComparisonResults:
    """The outcomes of all trials of a comparison, by system and metric."""

    values: Mapping[str, ByMetric]  # one value per list or per trial; the tests are made on them
    trial_means: Mapping[str, Mapping[str, Values]]  # mean over the test lists of each trial
    intervals: Mapping[str, Mapping[str, Interval]] | None
    """Intervals of the means, if they are not over the unit of the tests."""
    seconds: Mapping[str, float]
    curves: Mapping[str, Mapping[str, Sequence[float]]]
    """Validation metric by step, by system and trial, for models that have steps."""
    importances: Mapping[str, NDArray[np.float64]]
    """Share of each feature, a row per trial, for the systems that have it."""
    details: tuple[TrialDetails, ...]  # all folds, or the first of repeated trials


def read_results(plan: Plan, store: RunStore) -> ComparisonResults:
    """Read the outcomes of all trials; metrics that are not stored yet are computed."""
    protocol, metrics = plan.protocol, plan.metrics
    light = drop_features(plan.source, protocol)
    systems = [system.name for system in plan.systems]
    by_split: dict[int, list[Trial]] = {}
    for trial in plan.trials:
        by_split.setdefault(trial.split.index, []).append(trial)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in systems}
    values: dict[str, list[ByMetric]] = {name: [] for name in systems}
    details: list[TrialDetails] = []
    for index, same_split in by_split.items():
        split = same_split[0].split
        load = cache(partial(protocol.load, light, split))
        # All folds are shown in detail; of repeated trials, only the first.
        is_shown = index == 0 or not isinstance(protocol, (Splits, Seeds))
        for trial in same_split:
            outcome = read_outcome(trial, store)
            outcomes[trial.system.name].append(outcome if is_shown else replace(outcome, scores=np.empty(0)))
            values[trial.system.name].append(metric_values(trial, outcome, store=store, metrics=metrics, load=load))
        if is_shown:
            scores = {name: outcomes[name][-1].scores for name in systems}
            last = {name: values[name][-1] for name in systems}
            details.append(TrialDetails(split, load(), scores, last))
    names = [same_split[0].split.name for same_split in by_split.values()]
    means = {name: {m: np.array([_mean(v[m], m) for v in values[name]]) for m in metrics} for name in systems}
    curves: dict[str, dict[str, Sequence[float]]] = {}
    for name in systems:
        for trial_name, outcome in zip(names, outcomes[name], strict=True):
            curve = outcome.curves.get("validation", {}).get(plan.selection_metric)
            if curve:
                curves.setdefault(name, {})[trial_name] = curve
    importances = {name: [o.importance for o in outcomes[name]] for name in systems}
    return ComparisonResults(
        values=_pool(values, means, protocol, metrics),
        trial_means=means,
        intervals=_mean_intervals(means, metrics, "trials", seed=0) if isinstance(protocol, Seeds) else None,
        seconds={name: float(np.mean([o.seconds for o in outcomes[name]])) for name in systems},
        curves=curves,
        importances={
            name: np.array(shares) for name, shares in importances.items() if all(share is not None for share in shares)
        },
        details=tuple(details),
    )


def read_outcome(trial: Trial, store: RunStore) -> Outcome:
    """The outcome of a finished trial."""
    outcome = store.get(trial.identity)
    if outcome is None:
        raise DataError(f"the store {store.location} has lost the trial {trial.title}; run again.")
    return outcome


def metric_values(
    trial: Trial, outcome: Outcome, *, store: RunStore, metrics: Sequence[str], load: Callable[[], SplitData]
) -> ByMetric:
    """Values of metrics on the test lists; those that are not stored yet are computed and stored.

    ``load`` returns the data of the split; it is called if a metric is missing.
    """
    # The code of a Python function may have changed since its values were stored.
    functions = [m for m in metrics if isinstance(as_metric(m), FunctionMetric)]
    missing = [name for name in metrics if name not in outcome.values and name not in functions]
    added: dict[str, Values] = {}
    if missing:
        added = per_list(outcome.scores, load().test, missing)
        store.add_values(trial.identity, added)
    if functions:
        added |= per_list(outcome.scores, load().test, functions)
    values = {**outcome.values, **added}
    return {name: values[name] for name in metrics}


def _mean(values: Values, metric: str) -> float:
    counted = values[~np.isnan(values)]
    if len(counted) == 0:
        raise DataError(f"no test list of a trial counts for {metric}: none has a relevant document.")
    return float(counted.mean())


def _pool(
    values: Mapping[str, Sequence[ByMetric]],
    means: Mapping[str, Mapping[str, Values]],
    protocol: Protocol,
    metrics: Sequence[str],
) -> Mapping[str, ByMetric]:
    """The values that tests are made on: means of trials, means over seeds, or all lists."""
    if protocol.unit == "trials":
        return means
    combine: Callable[[list[Values]], Values] = (
        (lambda trials: np.mean(trials, axis=0)) if isinstance(protocol, Seeds) else np.concatenate
    )
    return {
        name: {m: combine([by_metric[m] for by_metric in trials]) for m in metrics} for name, trials in values.items()
    }


def drop_features(source: DataSource, protocol: Protocol) -> DataSource:
    """The same lists in the same order, without features, which take most of the memory.

    The source is returned as it is if the protocol needs features to divide the data: other
    protocols may change lists, and lists of pooled folds are ordered by their contents.
    """
    pools = isinstance(protocol, Splits) or (isinstance(protocol, Folds) and protocol.count)
    if not isinstance(protocol, (Folds, Splits, Seeds, Holdout)) or (source.folds and pools):
        return source
    return source.map(Dataset.without_features)
