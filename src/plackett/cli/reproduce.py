"""``plackett reproduce``: a paper's tables and figures, next to the published numbers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from plackett.base.errors import UsageError
from plackett.cli import console
from plackett.cli.options import Json, Settings, Store, TrialOptions, check_report_folder, parse_settings, split_names
from plackett.experiments import papers
from plackett.experiments.papers.paper import has_setting

_VERDICT_COLORS = {"yes": "green", "no": "red", "undecided": "dim", "not tested": "dim"}


def reproduce(
    running: TrialOptions,
    paper: Annotated[
        str | None,
        typer.Argument(
            help="A (stochastic scores), B (LogRank), C (XE-NDCG) or D (unique ratings); --list "
            "shows its tables and figures, or those of all papers if no letter is given.",
            show_default=False,
        ),
    ] = None,
    table: Annotated[list[int] | None, "Only this table. May be repeated."] = None,
    figure: Annotated[list[int] | None, "Only this figure. May be repeated."] = None,
    data: Annotated[Path | None, "Folder with MSLR-WEB30K, Yahoo, LETOR ... as distributed."] = None,
    on: Annotated[
        str | None,
        "Your data sets to use instead of the paper's, separated by commas: names of files or folders in --data, or"
        " paths.",
    ] = None,
    quick: Annotated[
        bool, "Few trials, small models and few lists, with synthetic data in place of missing data sets."
    ] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="List tables and figures, their data and expected time.")
    ] = False,
    trials: Annotated[
        int | None,
        typer.Option(
            min=2, help="Number of trials of each system, over seeds or splits.  \\[default: that of the paper]"
        ),
    ] = None,
    models: Annotated[str | None, "Only these systems, by their names in the tables, separated by commas."] = None,
    settings: Settings = None,
    out: Annotated[
        Path | None, "Folder for the report, tables, figures and finished trials.  [default: reproduce-PAPER]"
    ] = None,
    store: Store = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the splits and the models.")] = 0,
    json: Json = False,
) -> None:
    """Reproduce the tables and figures of a paper, next to the published numbers.

    Finished trials are kept: the same command resumes an interrupted reproduction.
    """
    if paper is None and not listed:
        raise UsageError(f"give the letter of a paper ({', '.join(papers.PAPERS)}), or --list to see what there is.")
    budget = papers.Budget(quick, trials, parse_settings(settings), seed, tuple(split_names(models or "")))
    named = tuple(split_names(on or ""))
    cluster, parallelism = running.find_parallelism()
    if listed:
        payload = []
        for one in list(papers.PAPERS.values()) if paper is None else [papers.paper(paper)]:
            datasets = papers.PaperDatasets(one, budget, data, console.byte_progress, named)
            payload += _print_items(datasets, _select_items(one, table or [], figure or []), parallelism, json)
        if json:
            console.print_json(payload)
        return
    chosen = papers.paper(paper or "")
    items = _select_items(chosen, table or [], figure or [])
    datasets = papers.PaperDatasets(chosen, budget, data, console.byte_progress, named)
    folder = out or Path(f"reproduce-{chosen.letter}")
    check_report_folder(folder)
    plan = papers.plan_reproduction(datasets, items)
    _check_settings(plan)
    names = ", ".join(planned.item.name for planned in plan.items)
    for line in (f"paper {plan.paper.letter}: {names}", *(f"- {note}" for note in plan.caveats())):
        console.ERR.print(line, soft_wrap=True)
    store_url = store or str(folder / "runs.db")
    with console.trial_progress(list(plan.plans()), store_url, parallelism, "") as (runs, progress):
        report = console.with_time_left(progress)
        result = papers.run_reproduction(
            plan, store=runs, scratch=folder, progress=report, cluster=cluster, **parallelism
        )
    _print_result(result, folder, json)


def _select_items(paper: papers.Paper, tables: Sequence[int], figures: Sequence[int]) -> Sequence[papers.PaperItem]:
    chosen = [paper.item("table", number) for number in tables] + [paper.item("figure", number) for number in figures]
    return chosen or paper.items


def _print_items(
    datasets: papers.PaperDatasets, items: Sequence[papers.PaperItem], parallelism: dict[str, Any], json: bool
) -> list[dict[str, Any]]:
    """Print the items of a paper, or return them for JSON."""
    with console.step_progress() as progress:
        listed = papers.list_items(datasets, items, progress=progress, **parallelism)
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
    table = console.make_table("item", "shows", "data", "trials", "time", left=3, collapse_padding=True)
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


def _check_settings(plan: papers.ReproductionPlan) -> None:
    """Raise UsageError for a setting that no system has."""
    rankers = [system.ranker for comparison in plan.plans() for system in comparison.systems]
    for name in plan.datasets.budget.settings:
        if not any(has_setting(ranker, name) for ranker in rankers):
            raise UsageError(f"no system has a parameter {name!r} (--set).")


def _print_result(result: papers.Reproduction, folder: Path, json: bool) -> None:
    files = papers.write_reproduction(result, folder, command=console.this_command())
    if json:
        console.print_json(papers.reproduction_payload(result) | {"report": str(files.report)})
        return
    for item, content in result.contents:
        console.OUT.rule(f"{item.name}: {item.title}", align="left")
        console.print_tables(content.tables)
        if content.claims:
            table = Table(
                "the paper says", "here", "p", "holds", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True
            )
            for claim in content.claims:
                verdict = f"[{_VERDICT_COLORS[claim.verdict]}]{claim.verdict}[/]"
                table.add_row(escape(claim.text), escape(claim.here), claim.p_text, verdict)
            console.OUT.print(table)
    budget = result.plan.datasets.budget
    for note in (f"Metrics: {result.plan.paper.convention}", *budget.describe()):
        console.OUT.print(note, markup=False)
    console.print_text(f"report: {files.report}")
