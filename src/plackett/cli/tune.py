"""``plackett tune``: search for the settings that are best on validation lists."""

import shlex
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import typer
from rich import box
from rich.table import Table

from plackett.base.errors import UsageError, require
from plackett.cli.console import OUT, bar_table, explain_interrupt, print_json, print_text, step_progress
from plackett.cli.options import DataOptions, Json, MLflow, TrialOptions, parse_settings
from plackett.experiments import tuning
from plackett.experiments.mlflow import check_uri, log_tuning
from plackett.experiments.protocols import DataSource
from plackett.models.artifact import check_save_path
from plackett.models.recipes.search_spaces import format_value, get_setting, search_space

_N_TRIALS = 5  # in the table of the best trials


def tune(
    reading: DataOptions,
    running: TrialOptions,
    data: Annotated[list[Path] | None, typer.Argument(help="Training data: a data set, or a folder of folds.")] = None,
    model: Annotated[str | None, "Recipe to tune; plackett recipes lists them."] = None,
    trials: Annotated[
        int, typer.Option(min=1, help="Number of trials; each fits and measures the model with other settings.")
    ] = 50,
    metric: Annotated[
        str, "Metric to maximize on the validation lists; it also stops fits early and is reported."
    ] = "ndcg@10",
    out: Annotated[Path | None, "Folder for a model fitted with the best settings."] = None,
    space: Annotated[
        list[str] | None,
        "Range of a setting: learning_rate=0.01..0.3:log, leaves=8..64, activation=relu,elu. May be repeated. A "
        "recipe's name alone prints its search space.",
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Fix a setting instead of searching it: --set leaves=31. May be repeated."),
    ] = None,
    preset: Annotated[
        str | None, "Start from the settings of a paper's experiment, such as C-web30k; plackett recipes lists them."
    ] = None,
    validation: Annotated[list[Path] | None, "Validation data to select on. Repeatable."] = None,
    validation_share: Annotated[
        float,
        typer.Option(
            min=0.01, max=0.9, help="Share of the lists to hold out for validation if there is no validation data."
        ),
    ] = 0.2,
    folds: Annotated[
        int | None, typer.Option(min=2, help="Select on the mean over this many cross-validation folds.")
    ] = None,
    store: Annotated[str, "Database that keeps trials: a file, or postgresql://USER@HOST/DATABASE."] = "tuning.db",
    pruner: Annotated[Literal["median", "hyperband", "none"], "Method that stops unpromising trials early."] = "median",
    mlflow: MLflow = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the suggestions, the split and the models.")] = 0,
    json: Json = False,
) -> None:
    """Search for the settings of a model that are best on validation lists.

    Trials are kept: the same command resumes an interrupted search. Test lists are never used.
    """
    if names := [text for text in space or [] if "=" not in text]:
        if data:
            raise UsageError(f"--space takes NAME=RANGE, such as leaves=7..63, got {names[0]!r}.")
        _print_space(names, preset, json)
        return
    if not data or model is None:
        raise UsageError("give the data and a model, for example: plackett tune train.txt --model lambdamart")
    if out is not None:
        check_save_path(out)
    check_uri(mlflow)
    cluster = running.find_cluster()
    require("optuna", "sqlalchemy")
    plan = tuning.plan_search(
        model,
        metric=metric,
        space={name.strip(): text for name, _, text in (pair.partition("=") for pair in space or [])},
        settings=parse_settings(settings),
        preset=preset,
        splits=tuning.ValidationSplits(folds, validation_share, seed),
        pruner=pruner,
        seed=seed,
    )
    if validation:
        training_data, validation_data, _ = reading.open_parts(data, validation)
        assert validation_data is not None
        source = tuning.with_validation(training_data, validation_data, name=data[0].resolve().name)
    else:
        source = reading.open_source(data)
    begin = time.perf_counter()
    parallelism = {"jobs": running.jobs, "threads": running.threads, "cluster": cluster}
    result = _run(plan, source, store, trials, parallelism, refit=out is not None)
    seconds = time.perf_counter() - begin
    if out is not None and result.ranker is not None:
        result.ranker.save(out)
    if mlflow is not None:
        log_tuning(result, uri=mlflow, name=source.name)
    if json:
        print_json(result.to_dict() | {"model": out and str(out), "seconds": seconds})
        return
    _print_result(result, source, data[0], out, seconds)


def _run(
    plan: tuning.SearchPlan, source: DataSource, store: str, trials: int, parallelism: dict[str, Any], *, refit: bool
) -> tuning.TuneResult:
    with ExitStack() as stack:
        # Scratch files go next to the store, where there is room for the data.
        if "://" in store:
            scratch = Path(stack.enter_context(TemporaryDirectory()))
        else:
            scratch = Path(store).absolute().parent
            scratch.mkdir(parents=True, exist_ok=True)
        kept = f"finished trials are kept in {store}: the same command runs the others."
        stack.enter_context(explain_interrupt(lambda: kept))
        progress = stack.enter_context(step_progress())
        return tuning.run_search(
            plan, source, store=store, scratch=scratch, trials=trials, refit=refit, progress=progress, **parallelism
        )


def _print_space(names: list[str], preset: str | None, as_json: bool) -> None:
    spaces = {name: {k: str(v) for k, v in search_space(name, preset=preset).items()} for name in names}
    if as_json:
        print_json(spaces)
        return
    for name, space in spaces.items():
        table = Table("setting", "searched", box=box.SIMPLE_HEAD, pad_edge=False, title=name)
        for row in space.items():
            table.add_row(*row)
        OUT.print(table)


def _print_result(result: tuning.TuneResult, source: DataSource, data: Path, out: Path | None, seconds: float) -> None:
    OUT.print(_trials_table(result))
    if result.importance:
        OUT.print(bar_table("importance", result.importance))
    n_splits = result.plan.splits.count(source)
    mean = f", mean over {n_splits} splits" if n_splits > 1 else ""
    counts = result.to_dict()["counts"]
    states = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    OUT.print(
        f"{len(result.trials)} trials ({states}), {result.ran} run now, {seconds:.0f} s; "
        f"{result.plan.selection_metric} on validation lists{mean}: too optimistic, because it selected the settings"
    )
    if result.best is None:
        print_text("No trial was better than the recipe's default settings.")
    if out is not None and result.ranker is not None:
        scope = " on the lists of all folds" if n_splits > 1 else ""
        print_text(f"{out}: {result.ranker.summary()}, fitted{scope}")
    else:  # the same command with --out; finished trials are not run again
        arguments = sys.argv[1:] if sys.argv[1:2] == ["tune"] else ["tune", str(data)]
        command = shlex.join(["plackett", *arguments, "--out", f"{result.plan.name}.plackett"])
        print_text(f"to fit a model with these settings: {command}")


def _trials_table(result: tuning.TuneResult) -> Table:
    """Show the best trials and the recipe's default settings, one column each."""
    finished = [trial for trial in result.trials if trial.state == "finished"]
    best = sorted(finished, key=lambda trial: (-(trial.value or 0.0), trial.number))[:_N_TRIALS]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("trial", no_wrap=True)
    for trial in best:
        table.add_column(str(trial.number + 1), justify="right")
    table.add_column("recipe", justify="right", no_wrap=True)
    values = [f"{trial.value:.4f}" for trial in best]
    if values and result.settings:
        values[0] = f"[bold]{values[0]}[/]"
    table.add_row(result.plan.selection_metric, *values, f"{result.recipe_value:.4f}")
    for name in result.plan.space:
        cells = (_format_setting(trial.settings[name]) for trial in best)
        table.add_row(name, *cells, _format_default(result, name))
    return table


def _format_default(result: tuning.TuneResult, name: str) -> str:
    value = get_setting(result.plan.ranker, name)
    if name == "C" and isinstance(value, tuple):
        return f"{len(value)} values"
    return "" if value is None else _format_setting(value)


def _format_setting(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else format_value(value)
