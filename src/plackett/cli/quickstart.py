"""``plackett quickstart``: compare models on generated data and write a report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from plackett.cli.console import OUT, print_json, step_progress
from plackett.cli.options import Json
from plackett.cli.tables import board_table


def quickstart(
    out: Annotated[Path, typer.Option(help="Folder for the report and the results.")] = Path(
        "quickstart"
    ),
    lists: Annotated[int, typer.Option(min=50, help="Number of lists to generate.")] = 1200,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed for the data, the split and the models.")
    ] = 0,
    json: Json = False,
) -> None:
    """Generate a data set, train models, compare them, and write a report."""
    from plackett.experiments.quickstart import quickstart as run

    start = time.perf_counter()
    with step_progress() as progress:
        result = run(out, n_lists=lists, seed=seed, progress=progress)
    seconds = time.perf_counter() - start
    if json:
        payload = result.board.to_dict() | {
            "gains": result.gains,
            "report": str(result.report),
            "seconds": seconds,
        }
        print_json(payload)
        return
    data = result.description
    OUT.print(
        f"{data.n_lists:,} lists, {data.n_docs:,} documents, {data.n_features} features, "
        f"{data.n_levels} label levels; {result.board.n_lists:,} test lists",
        highlight=False,
    )
    OUT.print(board_table(result.board))
    OUT.print(
        f"▲ better, ▼ worse than {result.board.baseline} (base) at level 0.05; p of "
        f"{result.board.primary}:\nrandomisation test over paired lists, Holm's correction; "
        "s: seconds of training",
        highlight=False,
    )
    ahead = sum(gain > 0 for gain in result.gains)
    OUT.print(
        "cross-fitted: five of e-lambdaloss-mart on rotating parts, averaged; it is ahead of the "
        f"base\non {ahead} of {len(result.gains)} data sets of as many seeds ("
        + ", ".join(f"{gain:+.4f}" for gain in result.gains)
        + ")",
        highlight=False,
        soft_wrap=True,
    )
    OUT.print(f"report: {result.report}   ({seconds:.0f} s)", highlight=False, soft_wrap=True)
