"""Options that several commands share, and the one way in which commands open data.

A command takes a group of options as one parameter, whose type is a dataclass of options::

    def compare(data: DataPaths, reading: DataOptions, metric: Annotated[str, "Help text."] = "ndcg@10") -> None: ...

:func:`expand_groups` gives the command line one option per field of the group. A parameter that is annotated with a
text is an option with this help; a switch (a bool that is False by default) then has no ``--no-`` form.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args, get_type_hints

import typer
from rich.markup import escape

from plackett.base.errors import DataError, FeatureMismatch, Message, Parameter, UsageError, require
from plackett.cli.console import byte_progress, explain_interrupt
from plackett.data import (
    DataFiles,
    Dataset,
    Fold,
    ReadOptions,
    find_splits,
    fits_in_memory,
    fold_folders,
    is_folds,
    join_folds,
    open_data_or_folds,
    read_blocks,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from plackett.distributed import Cluster
    from plackett.experiments.protocols import DataSource
    from plackett.models import Ranker

DataPaths = Annotated[
    list[Path],
    typer.Argument(
        help="A data set (LETOR text, Parquet, Arrow, CSV, .pkdata; several Parquet or Arrow files "
        "are one data set), or a folder of folds."
    ),
]
Validation = Annotated[list[Path] | None, "Validation data for early stopping and model selection. Repeatable."]
Missing = Annotated[Literal["nan"] | None, '"nan" accepts NaN as a missing value.']
QueryColumn = Annotated[str, "Name of the query column in Parquet, Arrow and CSV files."]
Strict = Annotated[bool, "Reject data in which the rows of a query are not contiguous."]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Change a setting of the model: --set trees=200, --set objective.beta=0.5. May be repeated."
    ),
]
Store = Annotated[
    str | None,
    "Database that keeps finished trials: a file, or postgresql://USER@HOST/DATABASE to share them in a team."
    "  [default: runs.db in the output folder]",
]
Baseline = Annotated[str | None, "System that the others are compared with.  [default: the first]"]
MLflow = Annotated[str | None, "Also log the results to this MLflow server, such as sqlite:///mlflow.db."]
Json = Annotated[bool, "Print JSON instead of tables."]


@dataclass(frozen=True)
class DataOptions:
    """How data is read. Commands that train, measure or convert take these options."""

    panel: ClassVar[str] = "Reading data"

    missing: Missing = None
    n_features: Annotated[
        int | None, typer.Option(min=1, help="Number of features in LETOR text.  \\[default: largest index]")
    ] = None
    label: Annotated[str | None, "Name of the label column in Parquet, Arrow and CSV files."] = "label"
    query: QueryColumn = "query_id"
    document: Annotated[str | None, "Name of the column of document ids.  [default: document_id, if any]"] = None
    features: Annotated[str | None, "Columns of features, separated by commas.  [default: all others]"] = None
    drop: Annotated[str | None, "Columns to leave out, separated by commas."] = None
    categorical: Annotated[str | None, "Columns of text or numbers that are categories, separated by commas."] = None
    strict: Strict = False
    max_features: Annotated[
        int | None,
        typer.Option(
            min=1, help="Largest feature index allowed in LETOR text.  \\[default: in proportion to the text]"
        ),
    ] = None
    max_line_bytes: Annotated[
        int | None, typer.Option(min=1, help="Longest line allowed in LETOR text.  \\[default: 64 MiB]")
    ] = None
    max_expansion: Annotated[
        int | None, typer.Option(min=1, help="Bytes of text allowed per byte of a compressed file.  \\[default: 200]")
    ] = None
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--no-stream",
            help="Keep features on disk instead of in memory.  \\[default: if they would not fit]",
        ),
    ] = None
    cache: Annotated[Path | None, "Folder that keeps streamed features, so that the next run is faster."] = None

    def __post_init__(self) -> None:
        if isinstance(self.features, str) and self.features.isdecimal():  # what --n-features was called before
            object.__setattr__(self, "n_features", int(self.features))
            object.__setattr__(self, "features", None)

    def read_options(self, **changes: Any) -> dict[str, Any]:
        """Keyword arguments of :func:`plackett.read`."""
        options = {name: value for name, value in vars(self).items() if name not in ("stream", "cache")}
        return (
            options
            | {
                "features": None if self.features is None else split_names(self.features),
                "drop": tuple(split_names(self.drop or "")),
                "categorical": tuple(split_names(self.categorical or "")),
            }
            | changes
        )

    def for_model(self, ranker: Ranker, files: DataFiles) -> Self:
        """Adapt the options to data that a model scores: set the number of features, or select columns by name."""
        if files.format in ("letor", "mapped"):  # text may omit the last features
            return replace(self, n_features=self.n_features or ranker.n_features_, features=None)
        from plackett.data.columnar.reader import column_names

        present = column_names(files)
        names = [name for name in ranker.feature_names_ or () if name in present]
        if not names or self.features is not None:
            return self
        categories = [name for name in names if name in (ranker.categories_ or ())]
        return replace(self, features=ranker.feature_names_, categorical=categories)  # type: ignore[arg-type]

    def open(self, paths: Sequence[Path], *, cache: str = "", **changes: Any) -> Dataset:
        """Open one data set, in memory or on disk; for a folder of folds, all lists.

        ``cache`` is the data set's subfolder of ``--cache``; ``changes`` replace read options.
        """
        data = self.open_data_or_folds(paths, cache=cache, **changes)
        return data if isinstance(data, Dataset) else join_folds(data)

    def open_data_or_folds(self, paths: Sequence[Path], *, cache: str = "", **changes: Any) -> Dataset | list[Fold]:
        """Open one data set, or the folds of a folder."""
        refuse_models(paths)
        folder = None if self.cache is None else self.cache / cache
        with byte_progress(f"reading {paths[0].resolve().name}") as progress:
            return open_data_or_folds(
                paths, stream=self.stream, cache=folder, progress=progress, **self.read_options(**changes)
            )

    def open_source(self, paths: Sequence[Path]) -> DataSource:
        """Open a data set or a folder of folds for an experiment."""
        from plackett.experiments.protocols import as_source

        return as_source(self.open_data_or_folds(paths), name=paths[0].resolve().name)

    def open_parts(
        self, paths: Sequence[Path], validation: Sequence[Path] | None = None, test: Sequence[Path] | None = None
    ) -> tuple[Dataset, Dataset | None, Dataset | None]:
        """Open training, validation and test lists; a folder with one fold has all of them."""
        validation_data: Dataset | None = None
        test_data: Dataset | None = None
        if len(paths) == 1 and is_folds(paths[0]):
            fold = self.open_source([_single_fold(paths[0])]).folds[0]
            training_data, validation_data, test_data = fold.train, fold.validation, fold.test
        else:
            training_data = self.open(paths, cache="train")
        # LETOR text may omit the last features: use the number of features of the training data.
        width = training_data.n_features
        if validation:
            validation_data = self.open(validation, cache="validation", n_features=width)
        if test:
            test_data = self.open(test, cache="test", n_features=width)
        return training_data, validation_data, test_data

    def reads_in_blocks(self, files: DataFiles) -> bool:
        """Whether to go through the files list by list, because they do not fit in memory."""
        if not files.is_columnar:
            return False
        if self.stream is not None:
            return self.stream
        return not fits_in_memory([files], ReadOptions(**self.read_options()))

    def iter_blocks(self, files: DataFiles) -> Iterator[Dataset]:
        """Yield the lists of Parquet or Arrow files in blocks that fit in memory."""
        with byte_progress(f"reading {files.first.name}") as progress:
            yield from read_blocks(files, progress=progress, **self.read_options())


@dataclass(frozen=True)
class SystemOptions:
    """Which models an experiment trains."""

    panel: ClassVar[str] = "Models"

    models: Annotated[
        str,
        "Recipes (plackett recipes lists them), paths of saved models, and files with one score per row, separated by "
        "commas.",
    ]
    preset: Annotated[
        str | None,
        "Settings of a paper's experiment, such as C-web30k, for the recipes that have them; plackett recipes lists "
        "them.",
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Change a setting of the models that have it: --set trees=200, --set "
            "objective.beta=0.5. May be repeated.",
        ),
    ] = None

    def build(self) -> dict[str, Any]:
        """Return the unfitted ranker of each system by name."""
        from plackett.experiments.systems import as_systems, split_outside_brackets

        changes = parse_settings(self.settings)
        names = split_outside_brackets(self.models, ",")
        systems = as_systems(names, preset=self.preset, settings=changes)
        return {system.name: system.ranker for system in systems}


@dataclass(frozen=True)
class TrialOptions:
    """Where trials run, and how many at the same time."""

    panel: ClassVar[str] = "Running trials"

    jobs: Annotated[
        int, typer.Option(min=1, help="Number of trials that run at the same time; not with --cluster.")
    ] = 1
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, help="Threads of each trial; with --cluster, its address sets them.  \\[default: all; 1 with --jobs]"
        ),
    ] = None
    cluster: Annotated[
        str | None,
        'Run on Ray: "local:2" (two workers on this machine), "auto" or "HOST:6379" (a cluster), with settings '
        'such as "auto?workers=8&threads=4".  [default: no cluster]',
    ] = None

    def find_parallelism(self) -> tuple[Cluster | None, dict[str, Any]]:
        """Return the cluster, and the numbers of parallel trials and of threads per trial as keyword arguments."""
        if self.cluster is not None and self.threads is not None:
            raise UsageError(
                f"--threads {self.threads} has no effect with --cluster; leave it out, or set the threads in the "
                f'address, such as "auto?threads={self.threads}".'
            )
        cluster = self.find_cluster()
        if cluster is None:
            return None, {"jobs": self.jobs, "threads": self.threads}
        return cluster, {"jobs": cluster.local_workers, "threads": cluster.threads}

    def find_cluster(self) -> Cluster | None:
        """Return the cluster; raise UsageError if ``--jobs`` is given as well."""
        if self.cluster is not None and self.jobs > 1:
            raise UsageError(
                f"--jobs {self.jobs} has no effect with --cluster; leave it out, or set the number of workers in the "
                f'address, such as "local:{self.jobs}" or "auto?workers={self.jobs}".'
            )
        return find_cluster(self.cluster)


ClusterOption = get_type_hints(TrialOptions, include_extras=True)["cluster"]


def refuse_models(paths: Sequence[Path]) -> None:
    """Raise UsageError if a path is a model instead of data."""
    for path in paths:
        if path.is_dir() and path.suffix == ".plackett":
            raise UsageError(f"{path} is a model, and data are needed here; see --help.")


def find_test_set(paths: Sequence[Path]) -> Sequence[Path]:
    """Replace a folder with one fold with its test set, on which models are evaluated."""
    refuse_models(paths)
    if len(paths) == 1 and is_folds(paths[0]):
        return [find_splits(_single_fold(paths[0]))["test"]]
    return paths


def _single_fold(path: Path) -> Path:
    folders = fold_folders(path)
    name, folder = next(iter(folders.items()))
    if len(folders) > 1:
        raise UsageError(f"{path} has {len(folders)} folds; use one of them, for example {path}/{name}.")
    return folder


def check_report_folder(path: Path) -> None:
    """Raise UsageError, before any work is done, if a report in this folder would damage other files."""
    if path.is_file():
        raise UsageError(f"{path} is a file; --out is the folder of the report.")
    if (path / "manifest.json").exists():
        raise UsageError(f"{path} is a model or a data set, which other files would damage; give another folder.")


@contextmanager
def name_model_features(ranker: Ranker | None) -> Iterator[None]:
    """In errors about the number of features, name the model, not an option, as the source of the limit."""
    try:
        yield
    except DataError as error:
        parts = error.message.parts if isinstance(error.message, Message) else ()
        if ranker is None or not any(_is_width(part) for part in parts):
            raise
        limit = f"the {ranker.n_features_} features of the model"
        message = Message(*(limit if _is_width(part) else part for part in parts))
        location = {"path": error.path, "line": error.line, "column": error.column}
        raise FeatureMismatch(message, **location) from error  # type: ignore[arg-type]


def _is_width(part: str | Parameter) -> bool:
    return isinstance(part, Parameter) and part.name == "n_features"


def find_cluster(spelling: str | None) -> Cluster | None:
    """Return the cluster that ``--cluster`` names, after checking that Ray is installed."""
    if spelling is None:
        return None
    from plackett.distributed import as_cluster

    cluster = as_cluster(spelling)
    require("ray")
    return cluster


def split_names(text: str | Sequence[str]) -> list[str]:
    """Split a text at its commas; a sequence of names, which may contain commas, is returned unchanged."""
    if not isinstance(text, str):
        return list(text)
    return [name.strip() for name in text.split(",") if name.strip()]


def parse_settings(pairs: Sequence[str] | None) -> dict[str, Any]:
    """Parse the ``key=value`` pairs of ``--set``."""
    from plackett.experiments.systems import parse_settings as parse

    return parse(pairs or (), example="--set trees=200")


def expand_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter that is a group of options with the options of the group.

    An option may be annotated with its help text alone, ``Annotated[int, "Random seed."]``.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            parameters.append(_parameter(name, hints[name], parameter.default))
            continue
        group_hints = get_type_hints(groups[name], include_extras=True)
        for field in fields(groups[name]):
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            parameters.append(_parameter(field.name, group_hints[field.name], default, groups[name].panel))

    @wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        with explain_interrupt(lambda: "nothing was written."):
            command(**values)

    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _parameter(name: str, annotated: Any, default: Any, panel: str | None = None) -> inspect.Parameter:
    hint, option = get_args(annotated)
    if isinstance(option, str):
        flag = [f"--{name.replace('_', '-')}"] if default is False else []
        option = typer.Option(*flag, help=escape(option), rich_help_panel=panel)
    elif panel:
        option = copy(option)
        option.rich_help_panel = panel
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, option])
