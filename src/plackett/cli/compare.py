"""``plackett compare``: train several systems and say which is better, with proof."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from plackett.cli.console import (
    ERR,
    OUT,
    ahead_in_words,
    byte_progress,
    print_json,
    solvers_counted,
    step_progress,
    with_rest,
)
from plackett.cli.options import (
    Baseline,
    ClusterOption,
    Features,
    Jobs,
    Json,
    Label,
    Missing,
    MLflow,
    Preset,
    Query,
    Set,
    Store,
    Strict,
    Threads,
    check_mlflow,
    cluster_of,
    cores_of,
    parse_settings,
    read_data,
    read_options,
)
from plackett.cli.tables import board_table

if TYPE_CHECKING:
    from plackett.experiments.compare import CompareResult
    from plackett.experiments.forecast import Forecast
    from plackett.experiments.plan import Plan
    from plackett.experiments.protocols import DataSource
    from plackett.experiments.report.write import ReportFiles


def compare(
    data: Annotated[
        Path,
        typer.Argument(help="A data set, or a folder with folds or with train and test files."),
    ],
    models: Annotated[
        str, typer.Option(help="Recipes, with commas between; a wrong name lists them.")
    ],
    protocol: Annotated[
        str | None,
        typer.Option(
            help="folds, folds:5, splits:100, seeds:10 or holdout.  [default: folds if the data "
            "have several, else holdout]",
            show_default=False,
        ),
    ] = None,
    metrics: Annotated[
        str, typer.Option(help="What to measure; the first orders the systems.")
    ] = "ndcg@5,ndcg@10,err@10",
    baseline: Baseline = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the report, tables, results and finished trials.")
    ] = Path("comparison"),
    store: Store = None,
    jobs: Jobs = 1,
    threads: Threads = None,
    cluster: ClusterOption = None,
    metric: Annotated[
        str, typer.Option(help="What models are chosen by on the validation lists.")
    ] = "ndcg@5",
    preset: Preset = None,
    settings: Set = None,
    test: Annotated[
        Literal["randomisation", "t_test", "wilcoxon"] | None,
        typer.Option(help="Whose p-values decide.  [default: randomisation; t_test over splits]"),
    ] = None,
    correction: Annotated[
        Literal["holm", "benjamini-hochberg"], typer.Option(help="For the number of systems.")
    ] = "holm",
    mlflow: MLflow = None,
    seed: Annotated[int, typer.Option(min=0, help="Of divisions, models and tests.")] = 0,
    missing: Missing = None,
    features: Features = None,
    label: Label = "label",
    query: Query = "query_id",
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Train models on the same lists, compare them, and write tables and a report."""
    from plackett.experiments.plan import plan_comparison
    from plackett.experiments.report.write import write_files
    from plackett.experiments.systems import as_systems

    check_mlflow(mlflow)
    names = [name.strip() for name in models.split(",") if name.strip()]
    changed = parse_settings(settings or [])
    systems = {s.name: s.ranker for s in as_systems(names, preset=preset, settings=changed)}
    source = _source(data, read_options(missing, features, label, query, strict))
    plan = plan_comparison(
        source,
        systems,
        protocol=protocol or ("folds" if len(source.folds) > 1 else "holdout"),
        metrics=metrics,
        baseline=baseline,
        select=metric,
        seed=seed,
    )
    where = cluster_of(cluster)
    cores = {"jobs": jobs, "threads": threads} if where is None else cores_of(where)
    tests = {"test": test, "correction": correction, "seed": seed}
    found = _run(plan, store or str(out / "runs.db"), out, cores, tests | {"cluster": where})
    files = write_files(found, out, command=shlex.join(["plackett", *sys.argv[1:]]))
    if mlflow is not None:
        from plackett.experiments.mlflow import log_comparison

        log_comparison(found, uri=mlflow, files=files)
    _show(found, files, json)


def _run(
    plan: Plan, store: str, scratch: Path, cores: dict[str, Any], tests: dict[str, Any]
) -> CompareResult:
    from plackett.experiments.compare import run_plan
    from plackett.experiments.forecast import forecast
    from plackett.experiments.store import RunStore

    with RunStore(store) as kept:
        _announce(plan, forecast(plan, store=kept, **cores))
        with solvers_counted(), step_progress() as progress:
            tell = with_rest(progress)
            return run_plan(plan, store=kept, scratch=scratch, progress=tell, **cores, **tests)


def _source(data: Path, options: dict[str, Any]) -> DataSource:
    from plackett.data.folds import is_folds, read_folds
    from plackett.experiments.protocols import as_source

    name = data.resolve().name
    if not is_folds(data):
        return as_source(read_data(data, options), name=name)
    with byte_progress(f"reading {name}") as progress:
        return as_source(read_folds(data, progress=progress, **options), name=name)


def _announce(plan: Plan, ahead: Forecast) -> None:
    """Say what is to be done and how long it will take, before it is done."""
    parts = ahead.trials // len(plan.systems)
    text = f"{ahead.trials} trials: {len(plan.systems)} systems × {parts} ({plan.protocol})"
    ERR.print(text + ahead_in_words(ahead), highlight=False, soft_wrap=True)


def _show(found: CompareResult, files: ReportFiles, json: bool) -> None:
    from plackett.experiments.report.write import payload
    from plackett.experiments.tables import describe_test

    if json:
        print_json(payload(found) | {"ran": found.ran, "report": str(files.report)})
        return
    board = found.board
    OUT.print(board_table(board))
    OUT.print(
        f"▲ better, ▼ worse than {board.baseline} (base): {describe_test(board)};\np of "
        f"{board.primary}; s: seconds of training, one trial",
        highlight=False,
    )
    OUT.print(f"report: {files.report}", highlight=False, soft_wrap=True)
