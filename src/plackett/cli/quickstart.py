"""``plackett quickstart``: the main job on the embedded data set."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from plackett.cli.console import OUT, print_json, step_progress
from plackett.cli.tables import board_table


def quickstart(
    out: Annotated[Path, typer.Option(help="Folder for the report and the results.")] = Path(
        "quickstart"
    ),
    lists: Annotated[int, typer.Option(min=50, help="Number of lists to make.")] = 1500,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data, split and models.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Make a data set, train models, compare them, and write a report."""
    from plackett.experiments.quickstart import quickstart as run

    start = time.perf_counter()
    with step_progress() as progress:
        found = run(out, n_lists=lists, seed=seed, progress=progress)
    seconds = time.perf_counter() - start
    if json:
        payload = found.board.to_dict() | {"report": str(found.report), "seconds": seconds}
        print_json(payload)
        return
    d = found.description
    OUT.print(
        f"{d.n_lists:,} lists, {d.n_docs:,} documents, {d.n_features} features, {d.n_levels} label "
        f"levels; {found.board.n_lists:,} test lists",
        highlight=False,
    )
    OUT.print(board_table(found.board))
    OUT.print(
        f"▲ better, ▼ worse than {found.board.baseline} (base) at level 0.05; p of "
        f"{found.board.primary}:\nrandomisation test over paired lists, Holm's correction; "
        "s: seconds of training",
        highlight=False,
    )
    OUT.print(f"report: {found.report}   ({seconds:.0f} s)", highlight=False, soft_wrap=True)
