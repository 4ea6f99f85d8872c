"""A comparison as one HTML file that can be mailed, printed and read anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path

from plackett.base.files import atomic_file
from plackett.data.describing import Description
from plackett.experiments.leaderboard import Entry, Leaderboard
from plackett.experiments.report.charts import bars, curves, intervals

_ALPHA = 0.05


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
    notes: Sequence[str] = ()
    """How the numbers were made, a sentence each."""


def write_report(report: Report, path: Path) -> None:
    """Write the report as a self-contained HTML file."""
    with atomic_file(path) as temporary:
        temporary.write_text(render(report), encoding="utf-8")


def render(report: Report) -> str:
    """The HTML of a report."""
    css = files("plackett.experiments.report").joinpath("report.css").read_text(encoding="utf-8")
    sections = [
        f"<h1>{escape(report.title)}</h1><p class='lead'>{escape(report.lead)}</p>",
        _board(report.board),
        _differences(report.board),
    ]
    if report.curves:
        title = f"{report.curve_metric} on the validation lists"
        chart = curves(report.curves, title=title, x_label="trees")
        sections.append(f"<h2>Learning curves: {escape(title)}</h2>{chart}")
    sections.append(_data(report.description))
    notes = "".join(f"<li>{escape(note)}</li>" for note in report.notes)
    sections.append(f"<footer class='small'><ul>{notes}</ul></footer>")
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(report.title)}</title><style>{css}</style></head>"
        f"<body>{''.join(sections)}</body></html>\n"
    )


def _board(board: Leaderboard) -> str:
    best = {m: max(entry.means[m] for entry in board.entries) for m in board.metrics}
    head = "".join(f"<th>{escape(m)}</th>" for m in board.metrics)
    rows = "".join(_row(entry, board, best) for entry in board.entries)
    return (
        "<h2>Leaderboard</h2><div class='scroll'><table><thead><tr><th>system</th>"
        f"{head}<th>seconds</th></tr></thead><tbody>{rows}</tbody></table></div>"
        f"<p class='small'>Means over the {board.n_counted:,} of {board.n_lists:,} test lists that "
        f"count for {escape(board.primary)}. ▲ better, ▼ worse than the "
        f"baseline {escape(board.baseline)} at level {_ALPHA:g}: two-sided randomisation test on "
        "paired lists, corrected for the number of systems by Holm's method.</p>"
    )


def _row(entry: Entry, board: Leaderboard, best: Mapping[str, float]) -> str:
    cells = []
    for m in board.metrics:
        kind = " class='best'" if entry.means[m] == best[m] else ""
        cells.append(f"<td{kind}>{entry.means[m]:.4f}{_mark(entry, m)}</td>")
    kind = " class='baseline'" if entry.name == board.baseline else ""
    name = escape(entry.name) + (" (baseline)" if kind else "")
    return f"<tr{kind}><td>{name}</td>{''.join(cells)}<td>{entry.seconds:.1f}</td></tr>"


def _mark(entry: Entry, metric: str) -> str:
    if entry.adjusted.get(metric, 1.0) >= _ALPHA:
        return " <span style='visibility:hidden'>▲</span>"
    if entry.comparisons[metric].difference > 0:
        return " <span class='better'>▲</span>"
    return " <span class='worse'>▼</span>"


def _differences(board: Leaderboard) -> str:
    metric = board.primary
    rows = []
    for entry in board.entries:
        if entry.name != board.baseline:
            c = entry.comparisons[metric]
            sure = entry.adjusted[metric] < _ALPHA
            rows.append((entry.name, c.difference, c.low, c.high, sure))
    title = f"Difference in {metric} from {board.baseline}"
    chart = intervals(rows, title=title, unit=f"difference in {metric}, with 95 % interval")
    return f"<h2>{escape(title)}</h2>{chart}{_p_values(board, metric)}"


def _p_values(board: Leaderboard, metric: str) -> str:
    rows = "".join(
        f"<tr><td>{escape(entry.name)}</td>"
        f"<td>{entry.comparisons[metric].difference:+.4f}</td>"
        f"<td>{entry.comparisons[metric].low:+.4f} … {entry.comparisons[metric].high:+.4f}</td>"
        f"<td>{entry.comparisons[metric].t_test:.2g}</td>"
        f"<td>{entry.comparisons[metric].randomisation:.2g}</td>"
        f"<td>{entry.adjusted[metric]:.2g}</td></tr>"
        for entry in board.entries
        if entry.name != board.baseline
    )
    return (
        "<div class='scroll'><table><thead><tr><th>system</th><th>difference</th><th>95 % interval"
        "</th><th>p (t-test)</th><th>p (randomisation)</th><th>p (Holm)</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


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
        f"<h2>The data</h2><dl>{cards}</dl><h2>Lists by number of documents</h2>{lengths}"
        f"<h2>Documents by label</h2>{labels}"
    )
