"""A comparison as one HTML file that can be mailed, printed and read anywhere.

What a report shows, as data.

The sections of a report that say who is better, and how sure that is.

The section of a report that says how to repeat it.

The end of a page: what it takes to repeat it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from plackett.base.files import atomic_file
from plackett.data.description import Description
from plackett.experiments.figures import Row, bars, curves, intervals, shares, strips
from plackett.experiments.report.query_browser import Look, look_section
from plackett.experiments.results import Entry, Leaderboard
from plackett.experiments.tables import best_means, describe_test


@dataclass(frozen=True)
class Report:
    """What a report shows."""

    title: str
    lead: str
    board: Leaderboard
    description: Description
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Validation metric by iteration, for the models that have it."""
    curve_metric: str = "ndcg@5"
    curve_label: str = "trees"
    """What an iteration is."""
    notes: Sequence[str] = ()
    """How the numbers were made, a sentence each."""
    trials: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Mean of the primary metric in each trial, by system."""
    resampled: Mapping[str, float] = field(default_factory=dict)
    """p-values of the primary metric, corrected for overlapping splits, by system."""
    look: Look | None = None
    """Single queries."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Of each system."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Versions and machine."""
    command: str | None = None
    """What repeats it."""


_MARKS = {
    "better": " <span class='better' title='significantly better'>▲</span>",
    "worse": " <span class='worse' title='significantly worse'>▼</span>",
    "": " <span class='no mark'>▲</span>",
}


def board_section(board: Leaderboard) -> str:
    """Means, intervals and marks."""
    best = best_means(board)
    head = "".join(f"<th>{escape(m)}</th>" for m in board.metrics)
    rows = "".join(_row(entry, board, best) for entry in board.entries)
    return (
        "<h2>Leaderboard</h2><div class='scroll'><table class='board'><thead><tr><th>system</th>"
        f"{head}<th>seconds</th></tr></thead><tbody>{rows}</tbody></table></div>"
        f"<p class='small'>Means over the {board.n_counted:,} of {board.n_lists:,} "
        f"{'test lists' if board.unit == 'lists' else 'trials'} that count for "
        f"{escape(board.primary)}, with 95 % intervals. ▲ better, ▼ worse than the baseline "
        f"{escape(board.baseline)}: {escape(describe_test(board))}. Seconds: training, one trial."
        "</p>"
    )


def _row(entry: Entry, board: Leaderboard, best: Mapping[str, float]) -> str:
    cells = []
    for m in board.metrics:
        kind = " class='best'" if entry.means[m] == best[m] else ""
        low, high = entry.intervals[m]
        mean, mark = entry.means[m], _MARKS[board.verdict(entry, m)]
        cells.append(
            f"<td{kind} data-value='{mean:.8g}'>{mean:.4f}{mark}"
            f"<span class='interval'>{low:.4f} … {high:.4f}</span></td>"
        )
    kind = " class='baseline'" if entry.name == board.baseline else ""
    name = escape(entry.name) + (" <span class='tag'>baseline</span>" if kind else "")
    return f"<tr{kind}><td>{name}</td>{''.join(cells)}{_seconds(entry)}</tr>"


def _seconds(entry: Entry) -> str:
    if not entry.seconds:  # a system without training
        return "<td data-value='0'>–</td>"
    return f"<td data-value='{entry.seconds:.4g}'>{entry.seconds:.1f}</td>"


def differences_section(report: Report) -> str:
    """Differences from the baseline with intervals, effects and all p-values."""
    board, metric = report.board, report.board.primary
    others = [entry for entry in board.entries if entry.name != board.baseline]
    if not others:
        return ""
    title = f"Difference in {metric} from {board.baseline}"
    rows = difference_rows(board)
    chart = intervals(rows, title=title, unit=f"difference in {metric}, with 95 % interval")
    counts = {entry.name: _counts(entry, metric) for entry in others}
    won = shares(counts, title=f"{board.unit} won, tied and lost against {board.baseline}")
    return f"<h2>{escape(title)}</h2>{chart}<h3>{board.unit.title()} won and lost</h3>{won}" + (
        _p_values(report, others)
    )


def difference_rows(board: Leaderboard) -> list[Row]:
    """What a chart of differences shows of each system but the baseline."""
    metric = board.primary
    return [
        (
            entry.name,
            entry.comparisons[metric].difference,
            entry.comparisons[metric].low,
            entry.comparisons[metric].high,
            bool(board.verdict(entry, metric)),
        )
        for entry in board.entries
        if entry.name != board.baseline
    ]


def _counts(entry: Entry, metric: str) -> tuple[int, int, int]:
    c = entry.comparisons[metric]
    return c.wins, c.n_lists - c.wins - c.losses, c.losses


def _p_values(report: Report, others: list[Entry]) -> str:
    metric = report.board.primary
    columns = ["difference", "95 % interval", "Cohen's d", "p t-test", "p Wilcoxon", "p rand."]
    columns += ["p adjusted"] + (["p resampled"] if report.resampled else [])
    head = "".join(f"<th>{name}</th>" for name in columns)
    body = []
    for entry in others:
        c = entry.comparisons[metric]
        cells = [
            f"{c.difference:+.4f}",
            f"{c.low:+.4f} … {c.high:+.4f}",
            f"{c.effect:+.2f}",
            *(_p(value) for value in (c.t_test, c.wilcoxon, c.randomisation)),
            _p(entry.adjusted[metric]),
        ]
        if report.resampled:
            cells.append(_p(report.resampled[entry.name]))
        row = "".join(f"<td>{cell}</td>" for cell in cells)
        body.append(f"<tr><td>{escape(entry.name)}</td>{row}</tr>")
    return (
        f"<div class='scroll'><table><thead><tr><th>system</th>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _p(value: float) -> str:
    return "&lt;0.0001" if value < 1e-4 else f"{value:.2g}"


def trials_section(report: Report) -> str:
    """The mean of each trial as a dot."""
    if not report.trials or max(len(dots) for dots in report.trials.values()) < 2:
        return ""
    metric = report.board.primary
    series = {
        entry.name: (report.trials[entry.name], entry.intervals[metric])
        for entry in report.board.entries
    }
    title = f"{metric} in each trial"
    unit = "a dot per trial; the band is the 95 % interval of the mean"
    return f"<h2>{escape(title)}</h2>{strips(series, title=title, unit=unit)}"


def repeating_section(report: Report) -> str:
    """Command, notes, settings and environment."""
    parts = []
    if report.command:
        parts.append(f"<pre><code>{escape(report.command)}</code></pre>")
    notes = "".join(f"<li>{escape(note)}</li>" for note in report.notes)
    parts.append(f"<ul>{notes}</ul>" if notes else "")
    for name, settings in report.settings.items():
        parts.append(_settings(name, settings))
    if report.environment:
        parts.append(_settings("environment", report.environment))
    return f"<footer><h2>How to repeat it</h2><div class='small'>{''.join(parts)}</div></footer>"


def _settings(name: str, settings: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(str(key))}</td><td>{escape(_spelt(value))}</td></tr>"
        for key, value in settings.items()
    )
    return (
        f"<details><summary>{escape(name)}</summary><div class='scroll'><table class='settings'>"
        f"<tbody>{rows}</tbody></table></div></details>"
    )


def write_report(report: Report, path: Path) -> None:
    """Write the report as a self-contained HTML file."""
    with atomic_file(path) as temporary:
        temporary.write_text(render(report), encoding="utf-8")


def render(report: Report) -> str:
    """The HTML of a report."""
    sections = [
        f"<h1>{escape(report.title)}</h1><p class='lead'>{escape(report.lead)}</p>",
        board_section(report.board),
        differences_section(report),
        trials_section(report),
        _curves(report),
        look_section(report.look) if report.look else "",
        _data(report.description),
        repeating_section(report),
    ]
    return page(report.title, "".join(sections))


def page(title: str, body: str) -> str:
    """A whole HTML document in the style of all reports, which needs nothing from elsewhere.

    Scripts come with what they bring to life: leaderboards, and the look into queries.
    """
    scripts = {"board.js": "class='board'", "report.js": "id='look'"}
    end = "".join(
        f"<script>{_resource(name)}</script>" for name, mark in scripts.items() if mark in body
    )
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<meta name='color-scheme' content='light dark'>"
        f"<title>{escape(title)}</title><style>{_resource('report.css')}</style></head>"
        f"<body>{body}{end}</body></html>\n"
    )


def _resource(name: str) -> str:
    return files("plackett.experiments.report").joinpath(name).read_text(encoding="utf-8")


def _curves(report: Report) -> str:
    if not report.curves:
        return ""
    title = f"{report.curve_metric} on the validation lists"
    chart = curves(report.curves, title=title, x_label=report.curve_label)
    return f"<h2>Learning curves: {escape(title)}</h2>{chart}"


def _data(d: Description) -> str:
    facts = {
        "lists": f"{d.n_lists:,}",
        "documents": f"{d.n_docs:,}",
        "features": f"{d.n_features:,}",
        "label levels": f"{d.n_levels}",
        "longest list": f"{d.longest:,}",
        "mean length": f"{d.mean_length:.1f}",
        "lowest label": f"{d.lowest_share:.1%}",
        "lists without relevant": f"{d.blank_lists:,}",
    }
    cards = "".join(f"<div><dt>{k}</dt><dd>{v}</dd></div>" for k, v in facts.items())
    lengths = bars(d.lengths, title="Lists by number of documents")
    labels = bars(d.labels, title="Documents by label")
    return (
        f"<h2>The data</h2><dl>{cards}</dl><h3>Lists by number of documents</h3>{lengths}"
        f"<h3>Documents by label</h3>{labels}"
    )


def closing(
    *,
    command: str | None,
    notes: Sequence[str],
    settings: Mapping[str, Mapping[str, Any]],
    environment: Mapping[str, str],
) -> str:
    """Command, notes, settings of systems and versions, folded up."""
    parts = [f"<pre><code>{escape(command)}</code></pre>"] if command else []
    parts.append("<ul>" + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul>")
    for name, own in {**settings, "environment": environment}.items():
        rows = "".join(
            f"<tr><td>{escape(str(key))}</td><td>{escape(_spelt(value))}</td></tr>"
            for key, value in own.items()
        )
        parts.append(
            f"<details><summary>{escape(name)}</summary><div class='scroll'>"
            f"<table class='settings'><tbody>{rows}</tbody></table></div></details>"
        )
    return f"<footer><h2>How to repeat it</h2><div class='small'>{''.join(parts)}</div></footer>"


def _spelt(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
