"""``plackett reproduce``: a paper's tables and figures, made anew beside its own numbers."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plackett.base.errors import UsageError
from plackett.cli.console import (
    ERR,
    OUT,
    ahead_in_words,
    byte_progress,
    duration,
    print_json,
    step_progress,
    with_rest,
)
from plackett.cli.options import (
    ClusterOption,
    Jobs,
    Json,
    Set,
    Store,
    Threads,
    cluster_of,
    cores_of,
    parse_settings,
)
from plackett.cli.tables import claims_table, print_grids

if TYPE_CHECKING:
    from plackett.distributed import Cluster as Place
    from plackett.experiments.forecast import Forecast
    from plackett.experiments.papers import (
        Paper,
        PaperDatasets,
        PaperItem,
        Reproduction,
        ReproductionPlan,
    )


def reproduce(
    paper: Annotated[str, typer.Argument(help="A, B, C or D; --list says what there is.")],
    table: Annotated[
        list[int] | None, typer.Option(help="Only this table; may be given several times.")
    ] = None,
    figure: Annotated[
        list[int] | None, typer.Option(help="Only this figure; may be given several times.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with MSLR-WEB30K, Yahoo, LETOR ... as they are distributed."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Few trials, small models, few lists; synthetic data where the real are absent.",
        ),
    ] = False,
    listed: Annotated[
        bool,
        typer.Option("--list", help="Show tables and figures, their data and expected time."),
    ] = False,
    trials: Annotated[
        int | None,
        typer.Option(min=2, help="Trials where the paper repeats.  [default: the paper's]"),
    ] = None,
    settings: Set = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for report, tables, figures and finished trials.  [default: "
                          "reproduce-PAPER]"),
    ] = None,
    store: Store = None,
    jobs: Jobs = 1,
    threads: Threads = None,
    cluster: ClusterOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Of divisions and models.")] = 0,
    json: Json = False,
) -> None:  # fmt: skip
    """Make the tables and figures of one of the four papers anew, beside its own numbers."""
    from plackett.experiments.papers import Budget, PaperDatasets
    from plackett.experiments.papers import paper as paper_of

    chosen = paper_of(paper)
    exhibits = _chosen(chosen, table or [], figure or [])
    budget = Budget(quick, trials, parse_settings(settings or []), seed)
    shelf = PaperDatasets(chosen, budget, data, byte_progress)
    where = cluster_of(cluster)
    cores = {"jobs": jobs, "threads": threads} if where is None else cores_of(where)
    if listed:
        _list(shelf, exhibits, cores, json)
        return
    folder = out or Path(f"reproduce-{chosen.letter}")
    found = _run(shelf, exhibits, store or str(folder / "runs.db"), folder, cores, where)
    _show(found, folder, json)


def _chosen(paper: Paper, tables: Sequence[int], figures: Sequence[int]) -> Sequence[PaperItem]:
    if not tables and not figures:
        return paper.exhibits
    wanted = [paper.exhibit("table", number) for number in tables]
    return [*wanted, *(paper.exhibit("figure", number) for number in figures)]


def _list(
    shelf: PaperDatasets, exhibits: Sequence[PaperItem], cores: dict[str, Any], json: bool
) -> None:
    from rich import box
    from rich.table import Table

    from plackett.experiments.papers import list_items

    with step_progress() as progress:
        found = list_items(shelf, exhibits, progress=progress, **cores)
    if json:
        print_json([
            {
                "name": each.exhibit.name,
                "title": each.exhibit.title,
                "data": each.sets,
                "trials": each.trials,
                "seconds": each.seconds,
            }
            for each in found
        ])  # fmt: skip
        return
    paper = shelf.paper
    OUT.print(f"{paper.authors}: {paper.title}", highlight=False)
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    shown.add_column("exhibit", no_wrap=True)
    shown.add_column("shows")
    shown.add_column("data")
    shown.add_column("trials", justify="right")
    shown.add_column("time", justify="right", no_wrap=True)
    for each in found:
        states = "\n".join(f"{name}: {state}" for name, state in each.sets.items())
        time = duration(each.seconds) if each.trials else "at once"
        shown.add_row(
            each.exhibit.name, each.exhibit.title, states or "none", str(each.trials), time
        )
    OUT.print(shown)
    OUT.print(
        "time: on this machine with nothing else to do, if all its data are there and no model "
        "stops early (nets may need a tenth of it); trials that exhibits share run once",
        highlight=False,
    )
    if paper.left_out:
        OUT.print(paper.left_out, highlight=False)


def _run(
    shelf: PaperDatasets,
    exhibits: Sequence[PaperItem],
    store: str,
    folder: Path,
    cores: dict[str, Any],
    cluster: Place | None,
) -> Reproduction:
    from plackett.experiments.papers import (
        forecast_reproduction,
        plan_reproduction,
        run_reproduction,
    )
    from plackett.experiments.store import RunStore

    agenda = plan_reproduction(shelf, exhibits)
    _check_settings(agenda)
    with RunStore(store) as kept:
        _announce(agenda, forecast_reproduction(agenda, store=kept, **cores))
        with step_progress() as progress:
            tell = with_rest(progress)
            return run_reproduction(
                agenda, store=kept, scratch=folder, progress=tell, cluster=cluster, **cores
            )


def _check_settings(agenda: ReproductionPlan) -> None:
    """Refuse a setting that would change nothing."""
    rankers = [system.ranker for plan in agenda.plans() for system in plan.systems]
    for name in agenda.shelf.budget.settings:
        if not any(name.partition("__")[0] in ranker.get_params() for ranker in rankers):
            raise UsageError(f"none of the systems has a parameter {name!r} (--set).")


def _announce(agenda: ReproductionPlan, ahead: Forecast) -> None:
    """Say what is to be done, on what, and how long it will take, before it is done."""
    names = ", ".join(item.exhibit.name for item in agenda.items)
    ERR.print(f"paper {agenda.paper.letter}: {names}", highlight=False, soft_wrap=True)
    for note in (*agenda.shelf.budget.words(), *agenda.shelf.notes, *agenda.missing):
        ERR.print(f"- {note}", highlight=False, soft_wrap=True)
    ERR.print(f"{ahead.trials} trials{ahead_in_words(ahead)}", highlight=False, soft_wrap=True)


def _show(found: Reproduction, folder: Path, json: bool) -> None:
    from plackett.experiments.papers import reproduction_payload, write_reproduction

    command = shlex.join(["plackett", *sys.argv[1:]])
    files = write_reproduction(found, folder, command=command)
    if json:
        print_json(reproduction_payload(found) | {"report": str(files.report)})
        return
    for exhibit, shown in found.shown:
        OUT.rule(f"{exhibit.name}: {exhibit.title}", align="left")
        print_grids(shown.grids)
        if shown.claims:
            OUT.print(claims_table(shown.claims))
    budget = found.agenda.shelf.budget
    for note in (f"Metrics: {found.agenda.paper.convention}", *budget.words()):
        OUT.print(note, highlight=False, markup=False)
    OUT.print(f"report: {files.report}", highlight=False, soft_wrap=True)
