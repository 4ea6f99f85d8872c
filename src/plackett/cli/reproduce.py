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
from plackett.cli import console
from plackett.cli.options import Json, Settings, Store, TrialOptions, check_report_folder, parse_settings

if TYPE_CHECKING:
    from plackett.distributed import Cluster
    from plackett.experiments.papers import Paper, PaperDatasets, PaperItem, Reproduction, ReproductionPlan
    from plackett.experiments.plan import Forecast


def reproduce(
    running: TrialOptions,
    paper: Annotated[
        str | None,
        typer.Argument(
            help="A (stochastic scores), B (LogRank), C (XE-NDCG) or D (unique ratings); --list "
            "shows its tables and figures, without a letter those of all papers.",
            show_default=False,
        ),
    ] = None,
    table: Annotated[list[int] | None, typer.Option(help="Only this table. May be repeated.")] = None,
    figure: Annotated[list[int] | None, typer.Option(help="Only this figure. May be repeated.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with MSLR-WEB30K, Yahoo, LETOR ... as they are distributed.")
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            help="Your data sets in the place of the paper's, separated by commas: names of files or folders in "
            "--data, or paths."
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Few trials, small models and few lists, with synthetic data in place of missing data sets."
        ),
    ] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="List tables and figures, their data and expected time.")
    ] = False,
    trials: Annotated[
        int | None, typer.Option(min=2, help="Number of repetitions.  \\[default: that of the paper]")
    ] = None,
    models: Annotated[
        str | None, typer.Option(help="Only these systems, by their names in the tables, separated by commas.")
    ] = None,
    settings: Settings = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the report, tables, figures and finished trials.  \\[default: reproduce-PAPER]"),
    ] = None,
    store: Store = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the splits and the models.")] = 0,
    json: Json = False,
) -> None:
    """Reproduce the tables and figures of a paper, beside the numbers that it published.

    Finished trials are kept: the same command resumes an interrupted reproduction.
    """
    from plackett.experiments.papers import PAPERS, Budget, PaperDatasets, paper as find_paper

    if paper is None and not listed:
        raise UsageError(f"give the letter of a paper ({', '.join(PAPERS)}), or --list to see what there is.")
    budget = Budget(quick, trials, parse_settings(settings), seed, _split(models))
    named = _split(on)
    cluster = running.find_cluster()
    cores = running.cores(cluster)
    if listed:
        chosen_papers = list(PAPERS.values()) if paper is None else [find_paper(paper)]
        payload = []
        for one in chosen_papers:
            datasets = PaperDatasets(one, budget, data, console.byte_progress, named)
            payload += _print_items(datasets, _select_items(one, table or [], figure or []), cores, json)
        if json:
            console.print_json(payload)
        return
    chosen = find_paper(paper or "")
    items = _select_items(chosen, table or [], figure or [])
    datasets = PaperDatasets(chosen, budget, data, console.byte_progress, named)
    folder = out or Path(f"reproduce-{chosen.letter}")
    check_report_folder(folder)
    result = _run(datasets, items, store or str(folder / "runs.db"), folder, cores, cluster)
    _print_result(result, folder, json)


def _split(names: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (names or "").split(",") if name.strip())


def _select_items(paper: Paper, tables: Sequence[int], figures: Sequence[int]) -> Sequence[PaperItem]:
    if not tables and not figures:
        return paper.items
    chosen = [paper.item("table", number) for number in tables]
    return [*chosen, *(paper.item("figure", number) for number in figures)]


def _print_items(
    datasets: PaperDatasets, items: Sequence[PaperItem], cores: dict[str, Any], json: bool
) -> list[dict[str, Any]]:
    """Print the items of a paper, or return them for JSON."""
    from plackett.experiments.papers import list_items

    with console.step_progress() as progress:
        listed = list_items(datasets, items, progress=progress, **cores)
    paper = datasets.paper
    if json:
        return [
            {
                "paper": paper.letter,
                "name": entry.item.name,
                "title": entry.item.title,
                "data": entry.datasets,
                "trials": entry.trials,
                "seconds": entry.seconds,
            }
            for entry in listed
        ]
    console.print_text(f"{paper.letter}: {paper.authors}: {paper.title}")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("item", no_wrap=True)
    table.add_column("shows")
    table.add_column("data")
    table.add_column("trials", justify="right")
    table.add_column("time", justify="right", no_wrap=True)
    for entry in listed:
        states = "\n".join(f"{name}: {state}" for name, state in entry.datasets.items())
        time = console.duration(entry.seconds) if entry.trials else "at once"
        table.add_row(entry.item.name, entry.item.title, states or "none", str(entry.trials), time)
    console.OUT.print(table)
    console.OUT.print(
        "time: a rough estimate for this machine if all data sets are there and no model stops "
        "early; trials that items share run once"
    )
    if paper.left_out:
        console.OUT.print(paper.left_out, markup=False)
    return []


def _run(
    datasets: PaperDatasets,
    items: Sequence[PaperItem],
    store: str,
    folder: Path,
    cores: dict[str, Any],
    cluster: Cluster | None,
) -> Reproduction:
    from plackett.experiments.papers import plan_reproduction, run_reproduction
    from plackett.experiments.plan import forecast
    from plackett.experiments.store import RunStore

    plan = plan_reproduction(datasets, items)
    _check_settings(plan)
    with RunStore(store) as runs:
        _announce(plan, forecast(*plan.plans(), store=runs, **cores))
        kept = console.explain_interrupt(lambda: console.describe_kept(runs, store, list(plan.plans())))
        with kept, console.step_progress() as progress:
            return run_reproduction(
                plan, store=runs, scratch=folder, progress=console.with_time_left(progress), cluster=cluster, **cores
            )


def _check_settings(plan: ReproductionPlan) -> None:
    """Refuse a setting that would change nothing."""
    from plackett.experiments.papers.paper import has_setting

    rankers = [system.ranker for comparison in plan.plans() for system in comparison.systems]
    for name in plan.datasets.budget.settings:
        if not any(has_setting(ranker, name) for ranker in rankers):
            raise UsageError(f"no system has a parameter {name!r} (--set).")


def _announce(plan: ReproductionPlan, ahead: Forecast) -> None:
    """Say what will be done, on which data, and how long it will take."""
    names = ", ".join(planned.item.name for planned in plan.items)
    console.ERR.print(f"paper {plan.paper.letter}: {names}", soft_wrap=True)
    for note in plan.caveats():
        console.ERR.print(f"- {note}", soft_wrap=True)
    console.ERR.print(f"{ahead.trials} trials{console.describe_forecast(ahead)}", soft_wrap=True)


def _print_result(result: Reproduction, folder: Path, json: bool) -> None:
    from plackett.experiments.papers import reproduction_payload, write_reproduction

    command = shlex.join(["plackett", *sys.argv[1:]])
    files = write_reproduction(result, folder, command=command)
    if json:
        console.print_json(reproduction_payload(result) | {"report": str(files.report)})
        return
    for item, content in result.contents:
        console.OUT.rule(f"{item.name}: {item.title}", align="left")
        console.print_tables(content.tables)
        if content.claims:
            console.OUT.print(console.claims_table(content.claims))
    budget = result.plan.datasets.budget
    for note in (f"Metrics: {result.plan.paper.convention}", *budget.describe()):
        console.OUT.print(note, markup=False)
    console.print_text(f"report: {files.report}")
