"""``plackett tune``: search for the settings that are best on validation lists."""

from __future__ import annotations

import shlex
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich import box
from rich.table import Table

from plackett.base.errors import UsageError
from plackett.cli.console import OUT, byte_progress, print_json, step_progress
from plackett.cli.options import (
    ClusterOption,
    Features,
    Jobs,
    Json,
    Label,
    Missing,
    MLflow,
    Query,
    Strict,
    Threads,
    check_mlflow,
    cluster_of,
    parse_settings,
    read_data,
    read_options,
)

if TYPE_CHECKING:
    from plackett.experiments.protocols import DataSource
    from plackett.experiments.tuning import SearchPlan, TuneResult


_SHOWN = 5
"""Trials in the table: the best ones."""


def tune(
    data: Annotated[
        Path | None,
        typer.Argument(help="Training data, or a folder with folds or with train and validation."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Recipe; a wrong name lists them.")] = None,
    trials: Annotated[int, typer.Option(min=1, help="Settings to try.")] = 50,
    metric: Annotated[
        str, typer.Option(help="What to choose by on the validation lists.")
    ] = "ndcg@10",
    out: Annotated[
        Path | None, typer.Option(help="Where the model with the best settings goes.")
    ] = None,
    space: Annotated[
        list[str] | None,
        typer.Option(
            help="Search a setting: learning_rate=0.01..0.3:log, leaves=8..64, activation=relu,elu."
            " May be repeated. With a recipe's name alone: print what is searched."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Fix a setting instead of searching it: --set leaves=31."),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Begin with the settings of a paper's experiment.")
    ] = None,
    validation: Annotated[Path | None, typer.Option(help="Data to choose on.")] = None,
    validation_share: Annotated[
        float,
        typer.Option(
            min=0.01, max=0.9, help="Without validation data: share of the lists held out for it."
        ),
    ] = 0.2,
    folds: Annotated[
        int | None, typer.Option(min=2, help="Cut the data into folds and take the mean over them.")
    ] = None,
    store: Annotated[
        str, typer.Option(help="Where trials are kept: a file, or postgresql://USER@HOST/DATABASE.")
    ] = "tuning.db",
    jobs: Jobs = 1,
    threads: Threads = None,
    cluster: ClusterOption = None,
    pruner: Annotated[
        Literal["median", "hyperband", "none"],
        typer.Option(help="How trials that are behind are given up early."),
    ] = "median",
    mlflow: MLflow = None,
    seed: Annotated[int, typer.Option(min=0, help="Of suggestions, split and models.")] = 0,
    missing: Missing = None,
    features: Features = None,
    label: Label = "label",
    query: Query = "query_id",
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Search for the settings of a model that are best on validation lists.

    Killed or interrupted, the same command goes on where it was. Test lists are not looked at.
    """
    from plackett.base.optional import require
    from plackett.experiments.tuning import ValidationSplits, plan_search
    from plackett.models.artifact.manifest import check_save_path

    if shown := [each for each in space or [] if "=" not in each]:
        _print_space(shown, preset, json)
        return
    if data is None or model is None:
        raise UsageError(
            "give the data and a model, for example: plackett tune train.txt --model lambdamart"
        )
    if out is not None:
        check_save_path(out)
    check_mlflow(mlflow)
    where = cluster_of(cluster)
    try:
        require("optuna", "sqlalchemy")
    except ImportError as error:
        raise UsageError(str(error)) from error
    plan = plan_search(
        model,
        metric=metric,
        space=dict(_pair(each) for each in space or []),
        settings=parse_settings(settings or []),
        preset=preset,
        splits=ValidationSplits(folds, validation_share, seed),
        pruner=pruner,
        seed=seed,
    )
    source = _source(data, validation, read_options(missing, features, label, query, strict))
    begin = time.perf_counter()
    cores = {"jobs": jobs, "threads": threads, "cluster": where}
    found = _run(plan, source, store, trials, cores, refit=out is not None)
    seconds = time.perf_counter() - begin
    if out is not None and found.ranker is not None:
        found.ranker.save(out)
    if mlflow is not None:
        from plackett.experiments.mlflow import log_tuning

        log_tuning(found, uri=mlflow, name=source.name)
    _show(found, source, data, out, seconds, json)


def _run(
    plan: SearchPlan,
    source: DataSource,
    store: str,
    trials: int,
    cores: dict[str, Any],
    *,
    refit: bool,
) -> TuneResult:
    import tempfile

    from plackett.experiments.tuning import run_search

    with ExitStack() as stack:
        # Beside the store, where there is room for the data; of a server's, anywhere.
        here = None if "://" in store else Path(store).absolute().parent
        if here is not None:
            here.mkdir(parents=True, exist_ok=True)
        scratch = here or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        progress = stack.enter_context(step_progress())
        return run_search(
            plan,
            source,
            store=store,
            scratch=scratch,
            trials=trials,
            refit=refit,
            progress=progress,
            **cores,
        )


def _source(data: Path, validation: Path | None, options: dict[str, Any]) -> DataSource:
    from plackett.data.folds import is_folds, read_folds
    from plackett.experiments.protocols import as_source
    from plackett.experiments.tuning import with_validation

    name = data.resolve().name
    if validation is None and is_folds(data):
        with byte_progress(f"reading {name}") as progress:
            return as_source(read_folds(data, progress=progress, **options), name=name)
    given = read_data(data, options)
    if validation is None:
        return as_source(given, name=name)
    # Text that leaves out its last features is as wide as the training data.
    beside = read_data(validation, options | {"n_features": given.n_features})
    return with_validation(given, beside, name=name)


def _pair(text: str) -> tuple[str, str]:
    name, _, what = text.partition("=")
    return name.strip(), what


def _print_space(names: list[str], preset: str | None, as_json: bool) -> None:
    from plackett.models.recipes.search_spaces import search_space

    found = {name: search_space(name, preset=preset) for name in names}
    if as_json:
        plain = {name: {k: str(v) for k, v in each.items()} for name, each in found.items()}
        print_json(plain)
        return
    for name, each in found.items():
        table = Table("setting", "searched", box=box.SIMPLE_HEAD, pad_edge=False, title=name)
        for setting, dimension in each.items():
            table.add_row(setting, str(dimension))
        OUT.print(table)


def _show(
    found: TuneResult,
    source: DataSource,
    data: Path,
    out: Path | None,
    seconds: float,
    as_json: bool,
) -> None:
    if as_json:
        model = None if out is None else str(out)
        print_json(found.to_dict() | {"model": model, "seconds": seconds})
        return
    judge, counts = found.plan.judge, found.to_dict()["counts"]
    OUT.print(_trials_table(found))
    if found.importance:
        OUT.print(_importance_table(found))
    several = found.plan.splits.count(source)
    over = f", mean over {several} divisions" if several > 1 else ""
    text = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    OUT.print(
        f"{len(found.trials)} trials ({text}), {found.ran} run now, {seconds:.0f} s; {judge} on "
        f"validation lists{over}: it chose the settings, so it flatters them",
        highlight=False,
    )
    if found.best is None:
        OUT.print("No trial was better than the recipe's own settings.", highlight=False)
    if out is not None and found.ranker is not None:
        on = " on the lists of all folds" if several > 1 else ""
        OUT.print(f"{out}: {found.ranker.summary()}, fitted{on}", highlight=False, soft_wrap=True)
        return
    OUT.print(f"to fit them: {_command(found, data)}", highlight=False, soft_wrap=True)


def _command(found: TuneResult, data: Path) -> str:
    """The same search, which costs nothing again, with a place for the model."""
    import sys

    given = sys.argv[1:] if sys.argv[1:2] == ["tune"] else ["tune", str(data)]
    return shlex.join(["plackett", *given, "--out", f"{found.plan.name}.plackett"])


def _trials_table(found: TuneResult) -> Table:
    """The best trials and the recipe's own settings, a column each."""
    finished = [each for each in found.trials if each.state == "finished"]
    best = sorted(finished, key=lambda each: (-(each.value or 0.0), each.number))[:_SHOWN]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("trial", no_wrap=True)
    for each in best:
        table.add_column(str(each.number + 1), justify="right")
    table.add_column("recipe", justify="right", no_wrap=True)
    values = [f"{each.value:.4f}" for each in best]
    if values and found.settings:
        values[0] = f"[bold]{values[0]}[/]"
    table.add_row(found.plan.judge, *values, f"{found.recipe_value:.4f}")
    for name in found.plan.space:
        table.add_row(name, *(_spelt(each.settings[name]) for each in best), _own(found, name))
    return table


def _own(found: TuneResult, name: str) -> str:
    from plackett.models.recipes.search_spaces import setting

    value = setting(found.plan.ranker, name)
    if value is None:
        return ""
    return f"{len(value)} values" if name == "C" and isinstance(value, tuple) else _spelt(value)


def _spelt(value: Any) -> str:
    from plackett.models.recipes.search_spaces import format_value

    return f"{value:.3g}" if isinstance(value, float) else format_value(value)


def _importance_table(found: TuneResult) -> Table:
    table = Table(box=None, pad_edge=False, title="importance", title_justify="left")
    table.add_column(justify="right")
    table.add_column()
    top = max(found.importance.values())
    for name, share in found.importance.items():
        length = round(30 * share / top) if top > 0 else 0
        table.add_row(name, f"{'█' * max(length, 1)} {share:.0%}")
    return table
