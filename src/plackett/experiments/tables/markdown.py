"""A leaderboard in Markdown."""

from __future__ import annotations

from plackett.experiments.leaderboard import Entry, Leaderboard
from plackett.experiments.tables.words import best_means, tested_in_words

_MARKS = {"better": " ▲", "worse": " ▼", "": ""}


def markdown_table(board: Leaderboard) -> str:
    """Means with 95 % intervals; the best in bold, marks where the baseline is beaten or beats."""
    best = best_means(board)
    head = ["system", *board.metrics, "p", "seconds"]
    lines = [_line(head), _line(["---", *["---:"] * (len(head) - 1)])]
    for entry in board.entries:
        base = entry.name == board.baseline
        name = _escaped(entry.name) + (" (baseline)" if base else "")
        cells = [_cell(entry, m, board, best[m]) for m in board.metrics]
        p = "" if base else _p_value(entry.adjusted[board.primary])
        lines.append(_line([name, *cells, p, f"{entry.seconds:.1f}"]))
    note = (
        f"▲ better, ▼ worse than {_escaped(board.baseline)}: {tested_in_words(board)}; p is that "
        f"of {board.primary}. In brackets: 95 % intervals of the means. Seconds: training, one "
        "trial."
    )
    return "\n".join([*lines, "", note, ""])


def _cell(entry: Entry, metric: str, board: Leaderboard, best: float) -> str:
    mean = f"{entry.means[metric]:.4f}"
    text = f"**{mean}**" if entry.means[metric] == best else mean
    low, high = entry.intervals[metric]
    return f"{text}{_MARKS[board.verdict(entry, metric)]} [{low:.4f}, {high:.4f}]"


def _p_value(p: float) -> str:
    return "<0.0001" if p < 1e-4 else f"{p:.4f}"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>|#" else c for c in text)
