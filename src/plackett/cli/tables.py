"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich import box
from rich.table import Table

from plackett.experiments.results import Entry, Leaderboard

_MARKS = {"better": "[green]▲[/]", "worse": "[red]▼[/]", "": " "}


def board_table(board: Leaderboard) -> Table:
    """A leaderboard: means, marks of significance, p-value of the primary metric, training time."""
    # Narrow enough for a terminal of 80 columns with five metrics.
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("system", no_wrap=True)
    for metric in board.metrics:
        table.add_column(f"{metric} ", justify="right", no_wrap=True)
    table.add_column("p", justify="right", no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    best = {m: max(entry.means[m] for entry in board.entries) for m in board.metrics}
    for entry in board.entries:
        is_baseline = entry.name == board.baseline
        cells = [_cell(board, entry, m, best[m]) for m in board.metrics]
        p = "(base)" if is_baseline else _p_value(entry.adjusted[board.primary])
        seconds = f"{entry.seconds:.0f}" if entry.seconds else ""
        table.add_row(entry.name, *cells, p, seconds)
    return table


def _cell(board: Leaderboard, entry: Entry, metric: str, best: float) -> str:
    text = f"{entry.means[metric]:.4f}".lstrip("0")
    if entry.means[metric] == best:
        text = f"[bold]{text}[/]"
    return text + _MARKS[board.verdict(entry, metric)]


def _p_value(p: float) -> str:
    return "<0.0001" if p < 1e-4 else f"{p:.4f}"


def count_table(title: str, counts: Mapping[str, int], *, width: int = 40) -> Table:
    """Counts with bars."""
    table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    table.add_column(justify="right")
    table.add_column(justify="right")
    table.add_column()
    top = max(counts.values(), default=1) or 1
    total = sum(counts.values()) or 1
    for name, count in counts.items():
        length = max(round(width * count / top), 1 if count else 0)
        table.add_row(name, f"{count:,}", f"{'█' * length} {count / total:.1%}")
    return table
