"""``plackett compare`` trains several systems and tests which one is better; ``quickstart`` uses generated data."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import typer

from plackett.cli import console, options
from plackett.experiments import RunStore, quickstart as run_quickstart
from plackett.experiments.compare import CompareResult, run_plan
from plackett.experiments.mlflow import check_uri, log_comparison
from plackett.experiments.plan import Plan, forecast, plan_comparison
from plackett.experiments.report.queries import read_column
from plackett.experiments.report.write import ReportFiles, payload, write_files
from plackett.experiments.tables import describe_test


def compare(
    data: options.DataPaths,
    systems: options.SystemOptions,
    running: options.TrialOptions,
    reading: options.DataOptions,
    protocol: Annotated[
        str | None,
        "How lists are divided: folds, folds:5, splits:100, seeds:10 or holdout.  [default: folds if the data has"
        " several, otherwise holdout]",
    ] = None,
    metrics: Annotated[
        str, "Metrics to report on the test lists, separated by commas; systems are sorted by the first."
    ] = "ndcg@10,ndcg@5,err@10",
    baseline: options.Baseline = None,
    out: Annotated[Path, "Folder for the report, tables, results and finished trials."] = Path("comparison"),
    store: options.Store = None,
    metric: Annotated[
        str, "Metric for early stopping and model selection on the validation lists; --metrics are reported."
    ] = "ndcg@10",
    test: Annotated[
        Literal["randomization", "t_test", "wilcoxon", "randomisation"] | None,
        typer.Option(
            metavar="<randomization|t_test|wilcoxon>",
            help="Significance test.  \\[default: randomization; t_test over splits]",
        ),
    ] = None,
    correction: Annotated[
        Literal["holm", "benjamini-hochberg"], "Correction of the p-values for the number of systems."
    ] = "holm",
    segment: Annotated[
        list[str] | None, "Column of the data files (Parquet, Arrow) by which the report groups test lists; repeatable."
    ] = None,
    mlflow: options.MLflow = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the splits, the models and the tests.")] = 0,
    dry_run: Annotated[bool, "Print the number of trials and the expected time, then stop."] = False,
    json: options.Json = False,
) -> None:
    """Train models on the same lists, compare them, and write tables and a report.

    Finished trials are kept: the same command resumes an interrupted comparison.
    """
    check_uri(mlflow)
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
    cluster, parallelism = running.find_parallelism()
    store_url = store or str(out / "runs.db")
    if dry_run:
        _print_forecast(plan, store_url, parallelism, json)
        return
    with console.trial_progress([plan], store_url, parallelism, _describe(plan)) as (runs, progress):
        result = run_plan(
            plan,
            store=runs,
            scratch=out,
            progress=console.with_time_left(progress),
            cluster=cluster,
            test=test,
            correction=correction,
            seed=seed,
            **parallelism,
        )
    files = write_files(result, out, command=console.this_command(), segments=segments)
    if mlflow is not None:
        log_comparison(result, uri=mlflow, files=files)
    _print_result(result, files, json)


def _describe(plan: Plan) -> str:
    n_trials = len({trial.identity.digest for trial in plan.trials})
    return f": {len(plan.systems)} systems × {n_trials // len(plan.systems)} ({plan.protocol})"


def _print_forecast(plan: Plan, store: str, parallelism: dict[str, Any], json: bool) -> None:
    with TemporaryDirectory() as empty:  # a dry run does not create the store
        exists = "://" in store or Path(store).exists()
        with RunStore(store if exists else Path(empty) / "runs.db") as runs:
            ahead = forecast(plan, store=runs, **parallelism)
    facts = {"trials": ahead.trials, "finished": ahead.finished, "expected_seconds": ahead.seconds}
    text = f"{ahead.trials} trials{_describe(plan)}{console.describe_forecast(ahead)}"
    console.print_facts(facts, text, as_json=json)


def _print_result(result: CompareResult, files: ReportFiles, json: bool) -> None:
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
    out: Annotated[Path, "Folder for the report and the results."] = Path("quickstart"),
    lists: Annotated[int, typer.Option(min=50, help="Number of lists to generate.")] = 1200,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the data, the split and the models.")] = 0,
    json: options.Json = False,
) -> None:
    """Generate a data set, train models, compare them, and write a report."""
    options.check_report_folder(out)
    start = time.perf_counter()
    with console.step_progress() as progress:
        result = run_quickstart(out, n_lists=lists, seed=seed, progress=progress)
    seconds = time.perf_counter() - start
    if json:
        facts = {"gains": result.gains, "report": str(result.report), "seconds": seconds}
        console.print_json(result.board.to_dict() | facts)
        return
    data = result.description
    console.print_text(
        f"{data.n_lists:,} lists, {data.n_docs:,} documents, {data.n_features} features, "
        f"{data.n_levels} label levels; {result.board.n_lists:,} test lists"
    )
    console.OUT.print(console.board_table(result.board))
    console.print_text(
        f"▲ better, ▼ worse than {result.board.baseline} (base) at level 0.05; p of "
        f"{result.board.primary}:\nrandomization test over paired lists, Holm's correction; "
        "s: seconds of training"
    )
    ahead, gains = sum(gain > 0 for gain in result.gains), ", ".join(f"{gain:+.4f}" for gain in result.gains)
    console.print_text(
        "cross-fitted: the average of five e-lambdaloss-mart models on rotating parts; better than the\n"
        f"base on {ahead} of {len(result.gains)} data sets with different seeds ({gains})"
    )
    console.print_text(f"report: {result.report}   ({seconds:.0f} s)")
