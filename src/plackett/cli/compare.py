"""``plackett compare``: train several systems and test which one is better."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from plackett.cli.console import (
    ERR,
    OUT,
    count_convergence_warnings,
    describe_forecast,
    describe_kept,
    explain_interrupt,
    print_json,
    step_progress,
    with_time_left,
)
from plackett.cli.options import (
    Baseline,
    DataOptions,
    DataPaths,
    DryRun,
    Json,
    MLflow,
    Store,
    SystemOptions,
    TrialOptions,
    check_mlflow,
)
from plackett.cli.tables import board_table

if TYPE_CHECKING:
    from plackett.experiments.compare import CompareResult
    from plackett.experiments.forecast import Forecast
    from plackett.experiments.plan import Plan
    from plackett.experiments.report.write import ReportFiles


def compare(
    data: DataPaths,
    systems: SystemOptions,
    running: TrialOptions,
    reading: DataOptions,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="How lists are divided: folds, folds:5, splits:100, seeds:10 or holdout.  "
            "\\[default: folds if the data has several, otherwise holdout]",
            show_default=False,
        ),
    ] = None,
    metrics: Annotated[
        str,
        typer.Option(
            help="Metrics to report, separated by commas; systems are sorted by the first."
        ),
    ] = "ndcg@10,ndcg@5,err@10",
    baseline: Baseline = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the report, tables, results and finished trials.")
    ] = Path("comparison"),
    store: Store = None,
    metric: Annotated[
        str, typer.Option(help="Metric for early stopping and model selection.")
    ] = "ndcg@10",
    test: Annotated[
        Literal["randomisation", "t_test", "wilcoxon"] | None,
        typer.Option(help="Significance test.  \\[default: randomisation; t_test over splits]"),
    ] = None,
    correction: Annotated[
        Literal["holm", "benjamini-hochberg"],
        typer.Option(help="Correction of the p-values for the number of systems."),
    ] = "holm",
    segment: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of the data files (Parquet, Arrow) by which the report groups test lists; "
            "repeatable."
        ),
    ] = None,
    mlflow: MLflow = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed for the splits, the models and the tests.")
    ] = 0,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Train models on the same lists, compare them, and write tables and a report.

    Finished trials are kept: the same command resumes an interrupted comparison.
    """
    from plackett.experiments.plan import plan_comparison
    from plackett.experiments.report.segments import read_column
    from plackett.experiments.report.write import write_files

    check_mlflow(mlflow)
    rankers = systems.build()
    segments = {name: read_column(data, name, query=reading.query) for name in segment or ()}
    source = reading.open_source(data)
    plan = plan_comparison(
        source,
        rankers,
        protocol=protocol or ("folds" if len(source.folds) > 1 else "holdout"),
        metrics=metrics,
        baseline=baseline,
        metric=metric,
        seed=seed,
    )
    cluster = running.find_cluster()
    cores = running.cores(cluster)
    place = store or str(out / "runs.db")
    if dry_run:
        _print_forecast(plan, place, cores, json)
        return
    tests = {"test": test, "correction": correction, "seed": seed}
    result = _run(plan, place, out, cores, tests | {"cluster": cluster})
    command = shlex.join(["plackett", *sys.argv[1:]])
    files = write_files(result, out, command=command, segments=segments)
    if mlflow is not None:
        from plackett.experiments.mlflow import log_comparison

        log_comparison(result, uri=mlflow, files=files)
    _print_result(result, files, json)


def _run(
    plan: Plan, store: str, scratch: Path, cores: dict[str, Any], tests: dict[str, Any]
) -> CompareResult:
    from plackett.experiments.compare import run_plan
    from plackett.experiments.forecast import forecast
    from plackett.experiments.store import RunStore

    with RunStore(store) as runs:
        ahead = forecast(plan, store=runs, **cores)
        ERR.print(_describe(plan, ahead), highlight=False, soft_wrap=True)
        kept = explain_interrupt(lambda: describe_kept(runs, store, [plan]))
        with kept, count_convergence_warnings(), step_progress() as progress:
            report = with_time_left(progress)
            return run_plan(plan, store=runs, scratch=scratch, progress=report, **cores, **tests)


def _describe(plan: Plan, ahead: Forecast) -> str:
    """Say how many trials there are and how long they will take."""
    splits = ahead.trials // len(plan.systems)
    text = f"{ahead.trials} trials: {len(plan.systems)} systems × {splits} ({plan.protocol})"
    return text + describe_forecast(ahead)


def _print_forecast(plan: Plan, store: str, cores: dict[str, Any], json: bool) -> None:
    from plackett.experiments.forecast import forecast
    from plackett.experiments.store import RunStore

    with TemporaryDirectory() as empty:  # a dry run does not create the store
        exists = "://" in store or Path(store).exists()
        with RunStore(store if exists else Path(empty) / "runs.db") as runs:
            ahead = forecast(plan, store=runs, **cores)
    if json:
        print_json(
            {"trials": ahead.trials, "finished": ahead.finished, "expected_seconds": ahead.seconds}
        )
        return
    OUT.print(_describe(plan, ahead), highlight=False, soft_wrap=True)


def _print_result(result: CompareResult, files: ReportFiles, json: bool) -> None:
    from plackett.experiments.report.write import payload
    from plackett.experiments.tables import describe_test

    if json:
        print_json(payload(result) | {"ran": result.ran, "report": str(files.report)})
        return
    board = result.board
    OUT.print(board_table(board))
    OUT.print(
        f"▲ better, ▼ worse than {board.baseline} (base): {describe_test(board)};\np of "
        f"{board.primary}; s: seconds of training, one trial",
        highlight=False,
    )
    OUT.print(f"report: {files.report}", highlight=False, soft_wrap=True)
