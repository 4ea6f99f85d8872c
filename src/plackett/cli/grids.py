"""Tables of experiments for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.table import Table

from plackett.cli.console import OUT

if TYPE_CHECKING:
    from plackett.experiments.papers import Claim
    from plackett.experiments.tables import Grid


_COLOURS = {"yes": "green", "no": "red", "not judged": "dim"}


def print_grids(grids: Sequence[Grid]) -> None:
    """Each with its caption; a note that several have in common comes once, after the last."""
    for i, grid in enumerate(grids):
        OUT.print(grid.caption, highlight=False, markup=False, style="bold")
        OUT.print(grid_table(grid))
        if grid.note and (i + 1 == len(grids) or grids[i + 1].note != grid.note):
            OUT.print(grid.note, highlight=False, markup=False, style="dim")


def grid_table(grid: Grid) -> Table:
    """A grid; the paper's rows are dimmed."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for i, name in enumerate(grid.columns):
        table.add_column(escape(name), justify="right" if i else "left", no_wrap=i == 0)
    for row in grid.rows:
        first = "  paper" if row.kind == "paper" else row.cells[0]
        cells = (escape(cell) for cell in (first, *row.cells[1:]))
        table.add_row(*cells, style="dim" if row.kind == "paper" else None)
    return table


def claims_table(claims: Sequence[Claim]) -> Table:
    """What a paper says, and whether our numbers agree."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in ("the paper says", "here", "holds"):
        table.add_column(name)
    for each in claims:
        verdict = f"[{_COLOURS[each.verdict]}]{each.verdict}[/]"
        table.add_row(escape(each.text), escape(each.here), verdict)
    return table
