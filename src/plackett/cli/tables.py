"""Tables of results for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.table import Table

from plackett.cli.console import OUT
from plackett.experiments.results import Entry, Leaderboard

if TYPE_CHECKING:
    from plackett.experiments.papers import Claim
    from plackett.experiments.tables import TextTable


_MARKS = {"better": "[green]▲[/]", "worse": "[red]▼[/]", "": " "}


def board_table(board: Leaderboard) -> Table:
    """Show means, marks of significance, the p-value of the primary metric and training time."""
    # Five metrics fit in a terminal of 80 columns.
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
    """Show counts with bars."""
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


_VERDICT_COLORS = {"yes": "green", "no": "red", "not judged": "dim"}


def print_tables(tables: Sequence[TextTable]) -> None:
    """Print tables with their captions; a note that several tables share is printed once."""
    for i, table in enumerate(tables):
        OUT.print(table.caption, highlight=False, markup=False, style="bold")
        OUT.print(text_table(table))
        if table.note and (i + 1 == len(tables) or tables[i + 1].note != table.note):
            OUT.print(table.note, highlight=False, markup=False, style="dim")


def text_table(text: TextTable) -> Table:
    """Convert a table of an experiment; rows with a paper's numbers are dimmed."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for i, name in enumerate(text.columns):
        table.add_column(escape(name), justify="right" if i else "left", no_wrap=i == 0)
    for row in text.rows:
        first = "  paper" if row.kind == "paper" else row.cells[0]
        cells = (escape(cell) for cell in (first, *row.cells[1:]))
        table.add_row(*cells, style="dim" if row.kind == "paper" else None)
    return table


def claims_table(claims: Sequence[Claim]) -> Table:
    """Show what a paper claims and whether our numbers agree."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in ("the paper says", "here", "holds"):
        table.add_column(name)
    for claim in claims:
        verdict = f"[{_VERDICT_COLORS[claim.verdict]}]{claim.verdict}[/]"
        table.add_row(escape(claim.text), escape(claim.here), verdict)
    return table
