"""``plackett train``: from data to a model on disk."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plackett.base.errors import UsageError
from plackett.cli.console import OUT, byte_progress, print_json, step_progress
from plackett.cli.options import (
    Cache,
    ClusterOption,
    Features,
    Json,
    Label,
    Missing,
    Query,
    Stream,
    Strict,
    cluster_of,
    open_data,
    parse_settings,
    read_options,
)
from plackett.data import find_files
from plackett.data.dataset import Dataset
from plackett.data.files import PathsLike

if TYPE_CHECKING:
    from plackett.models import Ranker


_SHARE = 0.2


def train(
    data: Annotated[
        list[Path],
        typer.Argument(
            help="Training data, or a folder with train and validation files; several Parquet "
            "files are one set."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where the model goes, for example model.plackett.")],
    model: Annotated[
        str, typer.Option(help="Recipe; a wrong name lists them.")
    ] = "e-lambdaloss-mart",
    preset: Annotated[
        str | None, typer.Option(help="Settings of a paper's experiment, for example C-web30k.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a setting: --set trees=200. May be repeated."),
    ] = None,
    validation: Annotated[
        Path | None, typer.Option(help="Data to choose on: when to stop, what to keep.")
    ] = None,
    validation_share: Annotated[
        float,
        typer.Option(
            min=0, max=0.9, help="Without validation data: share of the lists to hold out for it."
        ),
    ] = _SHARE,
    metric: Annotated[
        str, typer.Option(help="What to choose by; several with commas count in their order.")
    ] = "ndcg@5",
    crossfit: Annotated[
        int | None,
        typer.Option(min=2, help="Average so many models on rotating parts of all lists."),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder for the state; the same command goes on from it.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the split and the model.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads. [default: all]")] = None,
    cluster: ClusterOption = None,
    missing: Missing = None,
    features: Features = None,
    label: Label = "label",
    query: Query = "query_id",
    strict: Strict = False,
    stream: Stream = None,
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Train a model and write it to disk."""
    from plackett.metrics import evaluate
    from plackett.models.artifact.manifest import check_save_path

    check_save_path(out)
    where = cluster_of(cluster)
    if checkpoint is not None and checkpoint.resolve() == out.resolve():
        raise UsageError("--out and --checkpoint are the same folder; each needs one of its own.")
    ranker = _ranker(model, preset, parse_settings(settings or []), seed, threads, crossfit)
    options = read_options(missing, features, label, query, strict)
    share = validation_share if crossfit is None else 0.0
    learnt_from, chosen_on = _parts(data, validation, share, seed, Opening(options, stream, cache))
    begin = time.perf_counter()
    with step_progress() as progress:
        ranker.fit(learnt_from, chosen_on, metric, checkpoint, progress=progress, cluster=where)
    seconds = time.perf_counter() - begin
    ranker.save(out)
    # Members of a cross-fit learn from validation lists too, which makes these no fair estimate.
    beside = "validation" if crossfit is None else "validation (learnt from)"
    metrics = [name.strip() for name in metric.split(",")]
    found = {
        part: evaluate(ranker.predict(each), each, metrics)
        for part, each in (("train", learnt_from), (beside, chosen_on))
        if each is not None
    }
    _report(out, ranker, found, seconds, json)


def _ranker(
    model: str,
    preset: str | None,
    settings: dict[str, Any],
    seed: int,
    threads: int | None,
    crossfit: int | None,
) -> Ranker:
    from plackett.models import CrossFit, recipe

    ranker = recipe(model, preset=preset)
    own = {"seed": seed} | ({} if threads is None else {"threads": threads})
    ranker.set_params(**{k: v for k, v in own.items() if k in ranker.get_params()} | settings)
    if crossfit is None:
        return ranker
    made = CrossFit(ranker, folds=crossfit, seed=seed)
    made.recipe_name = model
    return made


@dataclass(frozen=True)
class Opening:
    """How data are read."""

    options: dict[str, Any]
    stream: bool | None
    cache: Path | None

    def open(self, source: PathsLike, role: str, **more: Any) -> Dataset:
        """Open a data set; each role has a cache of its own."""
        place = None if self.cache is None else self.cache / role
        return open_data(find_files(source), self.options | more, self.stream, place)


def _parts(
    data: list[Path], validation: Path | None, share: float, seed: int, how: Opening
) -> tuple[Dataset, Dataset | None]:
    """Training lists and, if there are any, validation lists."""
    from plackett.data.folds import is_folds, split

    beside: Dataset | None = None
    if len(data) == 1 and is_folds(data[0]):
        given, beside = _from_folder(data[0], how.options)
    else:
        given = how.open(data, "train")
    if validation is not None:
        # Text that leaves out its last features is as wide as the training data.
        beside = how.open(validation, "validation", n_features=given.n_features)
    if beside is not None or share == 0:
        return given, beside
    kept, held_out = split(given, (1 - share, share), seed=seed)
    return kept, held_out


def _from_folder(folder: Path, options: dict[str, Any]) -> tuple[Dataset, Dataset | None]:
    from plackett.data.folds import read_folds

    with byte_progress(f"reading {folder.name}") as progress:
        folds = read_folds(folder, progress=progress, **options)
    if len(folds) > 1:
        raise UsageError(
            f"{folder} has {len(folds)} folds; train on one of them, for example {folder}/"
            f"{folds[0].name}."
        )
    return folds[0].train, folds[0].validation


def _report(
    out: Path, ranker: Ranker, found: dict[str, dict[str, float]], seconds: float, json: bool
) -> None:
    if json:
        print_json(
            {
                "model": str(out),
                "kind": type(ranker).__name__,
                "recipe": ranker.recipe_name,
                "training": ranker.training_,
                "metrics": found,
                "seconds": seconds,
            }
        )
        return
    for part, means in found.items():
        text = ", ".join(f"{name} {mean:.4f}" for name, mean in means.items())
        OUT.print(f"{part:<11} {text}", highlight=False)
    OUT.print(f"{out}: {ranker.summary()}, {seconds:.1f} s", highlight=False, soft_wrap=True)
