"""``plackett train``: fit a model and write it to disk."""

import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from plackett.base.errors import DataError, UsageError
from plackett.base.files import read_key
from plackett.cli import options
from plackett.cli.console import explain_interrupt, print_json, print_text, step_progress
from plackett.data import Dataset, split
from plackett.metrics import evaluate
from plackett.models import CrossFit, Ranker, recipe
from plackett.models.artifact import check_save_path
from plackett.models.recipes.search_spaces import with_settings

_TRAINED_ON = "validation (learnt from)"  # a key of the JSON


def train(
    data: options.DataPaths,
    out: Annotated[Path, "Folder of the model, for example model.plackett."],
    reading: options.DataOptions,
    model: Annotated[str, "Recipe to train; plackett recipes lists them."] = "e-lambdaloss-mart",
    preset: Annotated[
        str | None, "Settings of a paper's experiment, such as C-web30k; plackett recipes lists them."
    ] = None,
    settings: options.Settings = None,
    validation: options.Validation = None,
    validation_share: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=0.9,
            help="Share of the lists to hold out for validation if there is no validation data.  \\[default: 0.2]",
        ),
    ] = None,
    metric: Annotated[
        str,
        "Metric for early stopping and model selection, also printed at the end. With several, separated by commas, "
        "later ones break ties.",
    ] = "ndcg@10",
    crossfit: Annotated[
        int | None, typer.Option(min=2, help="Train this many models on rotating parts of the lists and average them.")
    ] = None,
    checkpoint: Annotated[Path | None, "Folder for checkpoints; the same command resumes an interrupted fit."] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the split and the model.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Number of threads.  \\[default: all]")] = None,
    cluster: options.ClusterOption = None,
    sign_key: Annotated[Path | None, "File of a secret key to sign the model with; see plackett verify."] = None,
    json: options.Json = False,
) -> None:
    """Train a model and write it to disk."""
    check_save_path(out)
    if sign_key is not None:
        read_key(sign_key)
    if checkpoint is not None and checkpoint.resolve() == out.resolve():
        raise UsageError("--out and --checkpoint name the same folder; choose two folders.")
    ray_cluster = options.find_cluster(cluster)
    ranker = _build_ranker(model, preset, options.parse_settings(settings), seed, threads, crossfit)
    training_data, validation_data, _ = reading.open_parts(data, validation)
    if validation_share is not None and (validation_data is not None or crossfit is not None):
        other = "--crossfit uses all lists" if crossfit is not None else "validation data is given"
        raise UsageError(f"--validation-share {validation_share:g} has no effect: {other}; leave it out.")
    share = 0.2 if validation_share is None else validation_share
    if validation_data is None and crossfit is None and share:
        training_data, validation_data = _hold_out(training_data, share, seed)
    begin = time.perf_counter()
    with explain_interrupt(partial(_describe_checkpoint, checkpoint)), step_progress() as progress:
        ranker.fit(training_data, validation_data, metric, checkpoint, progress=progress, cluster=ray_cluster)
    seconds = time.perf_counter() - begin
    ranker.save(out, sign_key=sign_key)
    # The members of a cross-fit also learn from the validation lists, so this estimate is too optimistic.
    role = "validation" if crossfit is None else _TRAINED_ON
    means = {
        part: evaluate(ranker.predict(lists), lists, metric)
        for part, lists in (("train", training_data), (role, validation_data))
        if lists is not None
    }
    _print_result(out, ranker, means, seconds, json)


def _describe_checkpoint(checkpoint: Path | None) -> str:
    if checkpoint is None:
        return "nothing was kept. With --checkpoint FOLDER, the same command resumes an interrupted fit."
    # The state of one model, finished members of a cross-fit, or the state of the member being fitted.
    if not any(any(checkpoint.glob(name)) for name in ("step-*", "member-*", "fit-*/step-*")):
        return f"no state was saved in {checkpoint} yet."
    return f"the state of the fit is kept in {checkpoint}: the same command resumes it."


def _build_ranker(
    model: str, preset: str | None, settings: dict[str, Any], seed: int, threads: int | None, crossfit: int | None
) -> Ranker:
    ranker = recipe(model, preset=preset)
    common = {"seed": seed} | ({} if threads is None else {"threads": threads})
    accepted = {name: value for name, value in common.items() if name in ranker.get_params()}
    ranker = with_settings(ranker.set_params(**accepted), settings)
    if crossfit is None:
        return ranker
    members = CrossFit(ranker, folds=crossfit, seed=seed)
    members.recipe_name = model
    return members


def _hold_out(data: Dataset, share: float, seed: int) -> tuple[Dataset, Dataset]:
    try:
        first, second = split(data, (1 - share, share), seed=seed)
    except DataError as error:
        raise DataError(
            f"{error} Give validation data (--validation FILE), or train without any (--validation-share 0)."
        ) from error
    return first, second


def _print_result(out: Path, ranker: Ranker, means: dict[str, dict[str, float]], seconds: float, json: bool) -> None:
    facts = {"model": str(out), "kind": type(ranker).__name__, "recipe": ranker.recipe_name}
    if json:
        print_json(facts | {"training": ranker.training_, "metrics": means, "seconds": seconds})
        return
    for role, values in means.items():
        part = "validation (also trained on)" if role == _TRAINED_ON else role
        text = ", ".join(f"{name} {mean:.4f}" for name, mean in values.items())
        print_text(f"{part:<11} {text}")
    print_text(f"{out}: {ranker.summary()}, {seconds:.1f} s")
