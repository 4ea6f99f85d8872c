"""``plackett tune``: search for the settings that are best on validation lists."""

from __future__ import annotations

import shlex
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich import box
from rich.table import Table

from plackett.base.errors import UsageError
from plackett.cli.console import OUT, explain_interrupt, print_json, print_text, step_progress
from plackett.cli.options import DataOptions, Json, MLflow, TrialOptions, check_mlflow, parse_settings

if TYPE_CHECKING:
    from plackett.experiments.protocols import DataSource
    from plackett.experiments.tuning import SearchPlan, TuneResult


_N_TRIALS = 5  # in the table of the best trials


def tune(
    reading: DataOptions,
    running: TrialOptions,
    data: Annotated[list[Path] | None, typer.Argument(help="Training data: a data set, or a folder of folds.")] = None,
    model: Annotated[str | None, typer.Option(help="Recipe to tune; an unknown name lists all recipes.")] = None,
    trials: Annotated[int, typer.Option(min=1, help="Number of settings to try.")] = 50,
    metric: Annotated[str, typer.Option(help="Metric to maximize on the validation lists.")] = "ndcg@10",
    out: Annotated[Path | None, typer.Option(help="Folder for a model fitted with the best settings.")] = None,
    space: Annotated[
        list[str] | None,
        typer.Option(
            help="Range of a setting: learning_rate=0.01..0.3:log, leaves=8..64, "
            "activation=relu,elu. May be repeated. A recipe's name alone prints its search space."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Fix a setting instead of searching it: --set leaves=31. May be repeated."),
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Start from the settings of a paper's experiment.")] = None,
    validation: Annotated[list[Path] | None, typer.Option(help="Validation data to select on. Repeatable.")] = None,
    validation_share: Annotated[
        float,
        typer.Option(
            min=0.01, max=0.9, help="Share of the lists to hold out for validation if there is no validation data."
        ),
    ] = 0.2,
    folds: Annotated[
        int | None, typer.Option(min=2, help="Select on the mean over this many cross-validation folds.")
    ] = None,
    store: Annotated[
        str, typer.Option(help="Database that keeps trials: a file, or postgresql://USER@HOST/DATABASE.")
    ] = "tuning.db",
    pruner: Annotated[
        Literal["median", "hyperband", "none"], typer.Option(help="Method that stops unpromising trials early.")
    ] = "median",
    mlflow: MLflow = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the suggestions, the split and the models.")] = 0,
    json: Json = False,
) -> None:
    """Search for the settings of a model that are best on validation lists.

    Trials are kept: the same command resumes an interrupted search. Test lists are never used.
    """
    from plackett.base.errors import require
    from plackett.experiments.tuning import ValidationSplits, plan_search
    from plackett.models.artifact import check_save_path

    if names := [text for text in space or [] if "=" not in text]:
        if data:
            raise UsageError(f"--space takes NAME=RANGE, such as leaves=7..63, got {names[0]!r}.")
        _print_space(names, preset, json)
        return
    if not data or model is None:
        raise UsageError("give the data and a model, for example: plackett tune train.txt --model lambdamart")
    if out is not None:
        check_save_path(out)
    check_mlflow(mlflow)
    cluster = running.find_cluster()
    require("optuna", "sqlalchemy")
    plan = plan_search(
        model,
        metric=metric,
        space=dict(_parse_range(text) for text in space or []),
        settings=parse_settings(settings),
        preset=preset,
        splits=ValidationSplits(folds, validation_share, seed),
        pruner=pruner,
        seed=seed,
    )
    source = _open_source(data, validation, reading)
    begin = time.perf_counter()
    cores = {"jobs": running.jobs, "threads": running.threads, "cluster": cluster}
    result = _run(plan, source, store, trials, cores, refit=out is not None)
    seconds = time.perf_counter() - begin
    if out is not None and result.ranker is not None:
        result.ranker.save(out)
    if mlflow is not None:
        from plackett.experiments.mlflow import log_tuning

        log_tuning(result, uri=mlflow, name=source.name)
    if json:
        path = None if out is None else str(out)
        print_json(result.to_dict() | {"model": path, "seconds": seconds})
        return
    _print_result(result, source, data[0], out, seconds)


def _run(
    plan: SearchPlan, source: DataSource, store: str, trials: int, cores: dict[str, Any], *, refit: bool
) -> TuneResult:
    from plackett.experiments.tuning import run_search

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
        return run_search(
            plan, source, store=store, scratch=scratch, trials=trials, refit=refit, progress=progress, **cores
        )


def _open_source(data: list[Path], validation: list[Path] | None, reading: DataOptions) -> DataSource:
    from plackett.experiments.tuning import with_validation

    if not validation:
        return reading.open_source(data)
    training_data, validation_data, _ = reading.open_parts(data, validation)
    assert validation_data is not None
    return with_validation(training_data, validation_data, name=data[0].resolve().name)


def _parse_range(text: str) -> tuple[str, str]:
    name, _, spelling = text.partition("=")
    return name.strip(), spelling


def _print_space(names: list[str], preset: str | None, as_json: bool) -> None:
    from plackett.models.recipes.search_spaces import search_space

    spaces = {name: search_space(name, preset=preset) for name in names}
    if as_json:
        print_json(
            {name: {setting: str(dimension) for setting, dimension in space.items()} for name, space in spaces.items()}
        )
        return
    for name, space in spaces.items():
        table = Table("setting", "searched", box=box.SIMPLE_HEAD, pad_edge=False, title=name)
        for setting, dimension in space.items():
            table.add_row(setting, str(dimension))
        OUT.print(table)


def _print_result(result: TuneResult, source: DataSource, data: Path, out: Path | None, seconds: float) -> None:
    OUT.print(_trials_table(result))
    if result.importance:
        OUT.print(_importance_table(result))
    n_splits = result.plan.splits.count(source)
    mean = f", mean over {n_splits} splits" if n_splits > 1 else ""
    counts = result.to_dict()["counts"]
    states = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    OUT.print(
        f"{len(result.trials)} trials ({states}), {result.ran} run now, {seconds:.0f} s; "
        f"{result.plan.judge} on validation lists{mean}: too optimistic, because it selected the "
        "settings"
    )
    if result.best is None:
        print_text("No trial was better than the recipe's default settings.")
    if out is not None and result.ranker is not None:
        scope = " on the lists of all folds" if n_splits > 1 else ""
        text = f"{out}: {result.ranker.summary()}, fitted{scope}"
    else:
        text = f"to fit a model with these settings: {_fit_command(result, data)}"
    print_text(text)


def _fit_command(result: TuneResult, data: Path) -> str:
    """Return this command with ``--out``; finished trials are not run again."""
    arguments = sys.argv[1:] if sys.argv[1:2] == ["tune"] else ["tune", str(data)]
    return shlex.join(["plackett", *arguments, "--out", f"{result.plan.name}.plackett"])


def _trials_table(result: TuneResult) -> Table:
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
    table.add_row(result.plan.judge, *values, f"{result.recipe_value:.4f}")
    for name in result.plan.space:
        cells = (_format_setting(trial.settings[name]) for trial in best)
        table.add_row(name, *cells, _format_default(result, name))
    return table


def _format_default(result: TuneResult, name: str) -> str:
    from plackett.models.recipes.search_spaces import get_setting

    value = get_setting(result.plan.ranker, name)
    if value is None:
        return ""
    if name == "C" and isinstance(value, tuple):
        return f"{len(value)} values"
    return _format_setting(value)


def _format_setting(value: Any) -> str:
    from plackett.models.recipes.search_spaces import format_value

    return f"{value:.3g}" if isinstance(value, float) else format_value(value)


def _importance_table(result: TuneResult) -> Table:
    table = Table(box=None, pad_edge=False, title="importance", title_justify="left")
    table.add_column(justify="right")
    table.add_column()
    top = max(result.importance.values())
    for name, share in result.importance.items():
        length = round(30 * share / top) if top > 0 else 0
        table.add_row(name, f"{'█' * max(length, 1)} {share:.0%}")
    return table
