"""The report of a comparison: one HTML file that can be mailed, printed and read anywhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.data import Description
from plackett.experiments.figures import Bar, BarChart, DotChart, Dots, Line, LineChart
from plackett.experiments.report.page import format_p_value, render_page, write_page
from plackett.experiments.report.queries import QueryBrowser, Segmentation
from plackett.experiments.results import Leaderboard
from plackett.experiments.tables import best_means, describe_test

TOP_FEATURES = 15  # features in the chart of a system's importances

CurvesByTrial = Mapping[str, Mapping[str, Sequence[float]]]  # a metric by step of training, by system and trial


@dataclass(frozen=True)
class Report:
    """What a report shows."""

    title: str
    lead: str
    board: Leaderboard
    description: Description
    curves: CurvesByTrial = field(default_factory=dict)  # validation metric by step, for the models that have it
    curve_metric: str = "ndcg@5"
    notes: Sequence[str] = ()  # how the numbers were made, a sentence each
    trials: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Mean of the primary metric in each trial, by system."""
    resampled: Mapping[str, float] = field(default_factory=dict)
    """p-values of the primary metric, corrected for overlapping splits, by system."""
    browser: QueryBrowser | None = None
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    command: str | None = None  # the command that repeats it
    segments: Sequence[Segmentation] = ()
    importances: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """Share of each feature, a row per trial, by system."""
    feature_names: Sequence[str] = ()


def write_report(report: Report, path: Path) -> None:
    """Write the report as a self-contained HTML file."""
    write_page(path, "comparison.html", **_values(report))


def render(report: Report) -> str:
    """The HTML of a report."""
    return render_page("comparison.html", **_values(report))


def _values(report: Report) -> dict[str, Any]:
    board = report.board
    others = [entry for entry in board.entries if entry.name != board.baseline]
    return {
        "report": report,
        "title": report.title,
        "lead": report.lead,
        "board": board,
        "others": others,
        "best": best_means(board),
        "tested": describe_test(board),
        "verdict": summarize(board),
        "differences": {m: difference_chart(board, m) for m in board.metrics} if others else {},
        "wins": {m: win_chart(board, m) for m in board.metrics},
        "trial_chart": trial_chart(report),
        "several_trials": max((len(values) for values in report.trials.values()), default=1) > 1,
        "curve_chart": curve_chart(report.curves, report.curve_metric) if report.curves else None,
        "importance_charts": importance_charts(report.importances, report.feature_names),
        "facts": describe_data(report.description),
        "length_chart": count_chart("Lists by number of documents", report.description.lengths),
        "label_chart": count_chart("Documents by label", report.description.labels),
    }


def summarize(board: Leaderboard) -> str:
    """The main result in a sentence."""
    best, metric = board.entries[0], board.primary
    text = f"{best.name} is best by {metric} ({best.means[metric]:.4f})"
    if len(board.entries) == 1:
        return f"{best.name} reaches {best.means[metric]:.4f} in {metric}."
    if best.name == board.baseline:
        return f"{text}; it is the baseline."
    c = best.comparisons[metric]
    p = format_p_value(best.adjusted[metric])
    sure = "significantly" if board.verdict(best, metric) else "not significantly"
    return (
        f"{text}, {c.difference:+.4f} from the baseline {board.baseline} (95 % interval {c.low:+.4f} to "
        f"{c.high:+.4f}), {sure} different (p {'' if p.startswith('<') else '= '}{p})."
    )


def difference_chart(board: Leaderboard, metric: str) -> DotChart:
    """Differences of all systems from the baseline, with their intervals."""
    rows = []
    for entry in board.entries:
        if entry.name != board.baseline:
            c = entry.comparisons[metric]
            note = f"p adjusted {format_p_value(entry.adjusted[metric])}"
            sure = bool(board.verdict(entry, metric))
            rows.append(Dots(entry.name, [c.difference], (c.low, c.high), sure, note))
    title = f"Difference in {metric} from {board.baseline}"
    return DotChart(title, f"difference in {metric}, with 95 % interval", rows, zero=True)


def win_chart(board: Leaderboard, metric: str) -> BarChart:
    """Lists (or trials) that each system wins, ties and loses against the baseline."""
    bars = []
    for entry in board.entries:
        if entry.name != board.baseline:
            c = entry.comparisons[metric]
            ties = c.n_lists - c.wins - c.losses
            text = f"{c.wins:,} won · {ties:,} tied · {c.losses:,} lost"
            bars.append(Bar(entry.name, (c.wins, ties, c.losses), text))
    title = f"{board.unit.capitalize()} won, tied and lost against {board.baseline}, {metric}"
    return BarChart(title, bars, ("won", "tied", "lost"))


def trial_chart(report: Report) -> DotChart | None:
    """A dot for each trial over the interval of the mean; None for a single trial."""
    if not report.trials or max(len(means) for means in report.trials.values()) < 2:
        return None
    metric = report.board.primary
    rows = [Dots(entry.name, report.trials[entry.name], entry.intervals[metric]) for entry in report.board.entries]
    label = f"{metric}: a dot per trial; the band is the 95 % interval of the mean"
    return DotChart(f"{metric} in each trial", label, rows)


def curve_chart(curves: CurvesByTrial, metric: str) -> LineChart:
    """Learning curves of every trial from the first step on, and their mean.

    The mean ends with the shortest trial; a trial ends where training stopped early.
    """
    lines, notes = [], {}
    for name, by_trial in curves.items():
        several = len(by_trial) > 1
        for trial, ys in by_trial.items():
            lines.append(Line(name, range(1, len(ys) + 1), ys, label=trial, thin=several))
        columns = list(by_trial.values())
        if several:
            shortest = min(map(len, columns))
            mean = np.mean([ys[:shortest] for ys in columns], axis=0).tolist()
            lines.append(Line(name, range(1, shortest + 1), mean, label="mean of trials"))
        best = [int(np.argmax(ys)) for ys in columns]
        reached = float(np.mean([ys[i] for ys, i in zip(columns, best, strict=True)]))
        steps = f"{min(best) + 1}" + (f" to {max(best) + 1}" if max(best) > min(best) else "")
        notes[name] = f": best {reached:.4f} at {steps}"
    return LineChart(f"{metric} on the validation lists", "step of training", lines, notes=notes)


def importance_charts(importances: Mapping[str, NDArray[np.float64]], names: Sequence[str]) -> dict[str, BarChart]:
    """The most important features of each system."""
    charts = {}
    for system, shares in importances.items():
        mean = shares.mean(axis=0)
        bars = []
        for j in np.argsort(-mean, kind="stable")[:TOP_FEATURES]:
            if mean[j] > 0:
                text = f"{mean[j]:.1%}"
                if len(shares) > 1:
                    text += f" ({shares[:, j].min():.1%} to {shares[:, j].max():.1%})"
                bars.append(Bar(names[j] if len(names) else f"feature {j + 1}", [mean[j]], text))
        if bars:
            charts[system] = BarChart(f"Feature importances of {system}", bars)
    return charts


def count_chart(title: str, counts: Mapping[str, int]) -> BarChart:
    """Counts and their shares."""
    total = sum(counts.values()) or 1
    bars = [Bar(name, [n], f"{n:,} ({n / total:.1%})") for name, n in counts.items()]
    return BarChart(title, bars)


def describe_data(d: Description) -> dict[str, str]:
    """Statistics of a data set by name."""
    return {
        "lists": f"{d.n_lists:,}",
        "documents": f"{d.n_docs:,}",
        "features": f"{d.n_features:,}",
        "label levels": f"{d.n_levels}",
        "longest list": f"{d.longest:,}",
        "mean length": f"{d.mean_length:.1f}",
        "lowest label": f"{d.lowest_share:.1%}",
        "lists without relevant": f"{d.blank_lists:,}",
    }
