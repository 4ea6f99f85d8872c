"""The sections of a report that say who is better, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from plackett.experiments.leaderboard import Entry, Leaderboard
from plackett.experiments.report.charts import Row, intervals, shares, strips
from plackett.experiments.report.contents import Report
from plackett.experiments.tables.words import best_means, tested_in_words

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
        f"{escape(board.baseline)}: {escape(tested_in_words(board))}. Seconds: training, one trial."
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
