"""``plackett reproduce``: a paper's tables and figures, beside the numbers that it published."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from plackett.base.errors import UsageError
from plackett.cli.console import (
    ERR,
    OUT,
    byte_progress,
    describe_forecast,
    describe_kept,
    duration,
    explain_interrupt,
    print_json,
    step_progress,
    with_time_left,
)
from plackett.cli.options import Json, Settings, Store, TrialOptions, parse_settings
from plackett.cli.tables import claims_table, print_tables

if TYPE_CHECKING:
    from plackett.distributed import Cluster
    from plackett.experiments.forecast import Forecast
    from plackett.experiments.papers import (
        Paper,
        PaperDatasets,
        PaperItem,
        Reproduction,
        ReproductionPlan,
    )


def reproduce(
    paper: Annotated[
        str,
        typer.Argument(
            help="A (stochastic scores), B (LogRank), C (XE-NDCG) or D (unique ratings); --list "
            "shows its tables and figures."
        ),
    ],
    running: TrialOptions,
    table: Annotated[
        list[int] | None, typer.Option(help="Only this table. May be repeated.")
    ] = None,
    figure: Annotated[
        list[int] | None, typer.Option(help="Only this figure. May be repeated.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with MSLR-WEB30K, Yahoo, LETOR ... as they are distributed."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Few trials, small models and few lists, with synthetic data in place of missing "
            "data sets.",
        ),
    ] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="List tables and figures, their data and expected time.")
    ] = False,
    trials: Annotated[
        int | None,
        typer.Option(min=2, help="Number of repetitions.  \\[default: that of the paper]"),
    ] = None,
    settings: Settings = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the report, tables, figures and finished trials.  \\[default: "
            "reproduce-PAPER]"
        ),
    ] = None,
    store: Store = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed for the splits and the models.")
    ] = 0,
    json: Json = False,
) -> None:
    """Reproduce the tables and figures of a paper, beside the numbers that it published.

    Finished trials are kept: the same command resumes an interrupted reproduction.
    """
    from plackett.experiments.papers import Budget, PaperDatasets
    from plackett.experiments.papers import paper as find_paper

    chosen = find_paper(paper)
    items = _select_items(chosen, table or [], figure or [])
    budget = Budget(quick, trials, parse_settings(settings), seed)
    datasets = PaperDatasets(chosen, budget, data, byte_progress)
    cluster = running.find_cluster()
    cores = running.cores(cluster)
    if listed:
        _print_items(datasets, items, cores, json)
        return
    folder = out or Path(f"reproduce-{chosen.letter}")
    result = _run(datasets, items, store or str(folder / "runs.db"), folder, cores, cluster)
    _print_result(result, folder, json)


def _select_items(
    paper: Paper, tables: Sequence[int], figures: Sequence[int]
) -> Sequence[PaperItem]:
    if not tables and not figures:
        return paper.items
    chosen = [paper.item("table", number) for number in tables]
    return [*chosen, *(paper.item("figure", number) for number in figures)]


def _print_items(
    datasets: PaperDatasets, items: Sequence[PaperItem], cores: dict[str, Any], json: bool
) -> None:
    from plackett.experiments.papers import list_items

    with step_progress() as progress:
        listed = list_items(datasets, items, progress=progress, **cores)
    if json:
        print_json(
            [
                {
                    "name": each.item.name,
                    "title": each.item.title,
                    "data": each.datasets,
                    "trials": each.trials,
                    "seconds": each.seconds,
                }
                for each in listed
            ]
        )
        return
    paper = datasets.paper
    OUT.print(f"{paper.authors}: {paper.title}", highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("item", no_wrap=True)
    table.add_column("shows")
    table.add_column("data")
    table.add_column("trials", justify="right")
    table.add_column("time", justify="right", no_wrap=True)
    for each in listed:
        states = "\n".join(f"{name}: {state}" for name, state in each.datasets.items())
        time = duration(each.seconds) if each.trials else "at once"
        table.add_row(each.item.name, each.item.title, states or "none", str(each.trials), time)
    OUT.print(table)
    OUT.print(
        "time: a rough estimate for this machine if all data sets are there and no model stops "
        "early; trials that items share run once",
        highlight=False,
    )
    if paper.left_out:
        OUT.print(paper.left_out, highlight=False)


def _run(
    datasets: PaperDatasets,
    items: Sequence[PaperItem],
    store: str,
    folder: Path,
    cores: dict[str, Any],
    cluster: Cluster | None,
) -> Reproduction:
    from plackett.experiments.papers import (
        forecast_reproduction,
        plan_reproduction,
        run_reproduction,
    )
    from plackett.experiments.store import RunStore

    plan = plan_reproduction(datasets, items)
    _check_settings(plan)
    with RunStore(store) as runs:
        _announce(plan, forecast_reproduction(plan, store=runs, **cores))
        kept = explain_interrupt(lambda: describe_kept(runs, store, list(plan.plans())))
        with kept, step_progress() as progress:
            return run_reproduction(
                plan,
                store=runs,
                scratch=folder,
                progress=with_time_left(progress),
                cluster=cluster,
                **cores,
            )


def _check_settings(plan: ReproductionPlan) -> None:
    """Refuse a setting that would change nothing."""
    rankers = [system.ranker for comparison in plan.plans() for system in comparison.systems]
    for name in plan.datasets.budget.settings:
        if not any(name.partition("__")[0] in ranker.get_params() for ranker in rankers):
            raise UsageError(f"no system has a parameter {name!r} (--set).")


def _announce(plan: ReproductionPlan, ahead: Forecast) -> None:
    """Say what will be done, on which data, and how long it will take."""
    names = ", ".join(planned.item.name for planned in plan.items)
    ERR.print(f"paper {plan.paper.letter}: {names}", highlight=False, soft_wrap=True)
    for note in plan.caveats():
        ERR.print(f"- {note}", highlight=False, soft_wrap=True)
    ERR.print(f"{ahead.trials} trials{describe_forecast(ahead)}", highlight=False, soft_wrap=True)


def _print_result(result: Reproduction, folder: Path, json: bool) -> None:
    from plackett.experiments.papers import reproduction_payload, write_reproduction

    command = shlex.join(["plackett", *sys.argv[1:]])
    files = write_reproduction(result, folder, command=command)
    if json:
        print_json(reproduction_payload(result) | {"report": str(files.report)})
        return
    for item, content in result.contents:
        OUT.rule(f"{item.name}: {item.title}", align="left")
        print_tables(content.tables)
        if content.claims:
            OUT.print(claims_table(content.claims))
    budget = result.plan.datasets.budget
    for note in (f"Metrics: {result.plan.paper.convention}", *budget.describe()):
        OUT.print(note, highlight=False, markup=False)
    OUT.print(f"report: {files.report}", highlight=False, soft_wrap=True)
