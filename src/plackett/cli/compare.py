"""``plackett compare`` trains several systems and tests which one is better; ``quickstart`` uses generated data."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from plackett.cli import console, options

if TYPE_CHECKING:
    from plackett.experiments.compare import CompareResult
    from plackett.experiments.plan import Forecast, Plan
    from plackett.experiments.report.write import ReportFiles


def compare(
    data: options.DataPaths,
    systems: options.SystemOptions,
    running: options.TrialOptions,
    reading: options.DataOptions,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="How lists are divided: folds, folds:5, splits:100, seeds:10 or holdout.  "
            "\\[default: folds if the data has several, otherwise holdout]",
            show_default=False,
        ),
    ] = None,
    metrics: Annotated[
        str, typer.Option(help="Metrics to report, separated by commas; systems are sorted by the first.")
    ] = "ndcg@10,ndcg@5,err@10",
    baseline: options.Baseline = None,
    out: Annotated[Path, typer.Option(help="Folder for the report, tables, results and finished trials.")] = Path(
        "comparison"
    ),
    store: options.Store = None,
    metric: Annotated[str, typer.Option(help="Metric for early stopping and model selection.")] = "ndcg@10",
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
            help="Column of the data files (Parquet, Arrow) by which the report groups test lists; repeatable."
        ),
    ] = None,
    mlflow: options.MLflow = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the splits, the models and the tests.")] = 0,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Train models on the same lists, compare them, and write tables and a report.

    Finished trials are kept: the same command resumes an interrupted comparison.
    """
    from plackett.experiments.plan import plan_comparison
    from plackett.experiments.report.segments import read_column
    from plackett.experiments.report.write import write_files

    options.check_mlflow(mlflow)
    options.check_report_folder(out)
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


def _run(plan: Plan, store: str, scratch: Path, cores: dict[str, Any], tests: dict[str, Any]) -> CompareResult:
    from plackett.experiments.compare import run_plan
    from plackett.experiments.plan import forecast
    from plackett.experiments.store import RunStore

    with RunStore(store) as runs:
        ahead = forecast(plan, store=runs, **cores)
        console.ERR.print(_describe(plan, ahead), soft_wrap=True)
        kept = console.explain_interrupt(lambda: console.describe_kept(runs, store, [plan]))
        with kept, console.count_convergence_warnings(), console.step_progress() as progress:
            report = console.with_time_left(progress)
            return run_plan(plan, store=runs, scratch=scratch, progress=report, **cores, **tests)


def _describe(plan: Plan, ahead: Forecast) -> str:
    """Say how many trials there are and how long they will take."""
    splits = ahead.trials // len(plan.systems)
    text = f"{ahead.trials} trials: {len(plan.systems)} systems × {splits} ({plan.protocol})"
    return text + console.describe_forecast(ahead)


def _print_forecast(plan: Plan, store: str, cores: dict[str, Any], json: bool) -> None:
    from plackett.experiments.plan import forecast
    from plackett.experiments.store import RunStore

    with TemporaryDirectory() as empty:  # a dry run does not create the store
        exists = "://" in store or Path(store).exists()
        with RunStore(store if exists else Path(empty) / "runs.db") as runs:
            ahead = forecast(plan, store=runs, **cores)
    if json:
        console.print_json({"trials": ahead.trials, "finished": ahead.finished, "expected_seconds": ahead.seconds})
        return
    console.print_text(_describe(plan, ahead))


def _print_result(result: CompareResult, files: ReportFiles, json: bool) -> None:
    from plackett.experiments.report.write import payload
    from plackett.experiments.tables import describe_test

    if json:
        console.print_json(payload(result) | {"ran": result.ran, "report": str(files.report)})
        return
    board = result.board
    console.OUT.print(console.board_table(board))
    console.print_text(
        f"▲ better, ▼ worse than {board.baseline} (base): {describe_test(board)};\np of "
        f"{board.primary}; s: seconds of training, one trial"
    )
    console.print_text(f"report: {files.report}")


def quickstart(
    out: Annotated[Path, typer.Option(help="Folder for the report and the results.")] = Path("quickstart"),
    lists: Annotated[int, typer.Option(min=50, help="Number of lists to generate.")] = 1200,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the data, the split and the models.")] = 0,
    json: options.Json = False,
) -> None:
    """Generate a data set, train models, compare them, and write a report."""
    from plackett.experiments.quickstart import quickstart as run

    options.check_report_folder(out)
    start = time.perf_counter()
    with console.step_progress() as progress:
        result = run(out, n_lists=lists, seed=seed, progress=progress)
    seconds = time.perf_counter() - start
    if json:
        payload = result.board.to_dict() | {"gains": result.gains, "report": str(result.report), "seconds": seconds}
        console.print_json(payload)
        return
    data = result.description
    console.print_text(
        f"{data.n_lists:,} lists, {data.n_docs:,} documents, {data.n_features} features, "
        f"{data.n_levels} label levels; {result.board.n_lists:,} test lists"
    )
    console.OUT.print(console.board_table(result.board))
    console.print_text(
        f"▲ better, ▼ worse than {result.board.baseline} (base) at level 0.05; p of "
        f"{result.board.primary}:\nrandomisation test over paired lists, Holm's correction; "
        "s: seconds of training"
    )
    ahead = sum(gain > 0 for gain in result.gains)
    console.print_text(
        "cross-fitted: five of e-lambdaloss-mart on rotating parts, averaged; it is ahead of the "
        f"base\non {ahead} of {len(result.gains)} data sets of as many seeds ("
        + ", ".join(f"{gain:+.4f}" for gain in result.gains)
        + ")"
    )
    console.print_text(f"report: {result.report}   ({seconds:.0f} s)")
