"""Options that several commands share, and what they mean to the library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from plackett.base.errors import DataError, UsageError
from plackett.cli.console import byte_progress
from plackett.data.dataset import Dataset

Missing = Annotated[Literal["nan"] | None, typer.Option(help='"nan": take NaN as a missing value.')]
Features = Annotated[int | None, typer.Option(min=1, help="Number of features of a text file.")]
Label = Annotated[str, typer.Option(help="Label column of a table.")]
Query = Annotated[str, typer.Option(help="Query column of a table.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse queries whose rows are scattered.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

# Of commands that run trials.
Baseline = Annotated[
    str | None, typer.Option(help="The system to compare with.  [default: the first]")
]
Store = Annotated[
    str | None,
    typer.Option(
        help="Where finished trials are kept: a file, or postgresql://USER@HOST/DATABASE for a "
        "team.  [default: runs.db in the folder]"
    ),
]
Jobs = Annotated[int, typer.Option(min=1, help="Trials at the same time, one core each.")]
Threads = Annotated[
    int | None, typer.Option(min=1, help="Threads of each trial.  [default: all; 1 with --jobs]")
]
Preset = Annotated[
    str | None, typer.Option(help="Settings of a paper's experiment, where a model has them.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a setting in the models that have it: --set trees=200."),
]
MLflow = Annotated[
    str | None, typer.Option(help="Also log to MLflow, for example sqlite:///mlflow.db.")
]


def read_options(
    missing: str | None, features: int | None, label: str | None, query: str, strict: bool
) -> dict[str, Any]:
    """The arguments of :func:`plackett.read`."""
    return {
        "missing": missing,
        "n_features": features,
        "label": label,
        "query": query,
        "strict": strict,
    }


def read_data(path: Path, options: dict[str, Any]) -> Dataset:
    """Read a data set with a bar."""
    from plackett.data.read import read

    if not path.exists():
        raise DataError("does not exist", path=str(path))
    with byte_progress(f"reading {path.name}") as progress:
        return read(path, progress=progress, **options)


def check_mlflow(uri: str | None) -> None:
    """Refuse a place that nothing can be logged to before any work is done."""
    if uri is not None:
        from plackett.experiments.mlflow import check_uri

        try:
            check_uri(uri)
        except ImportError as error:
            raise UsageError(str(error)) from error


def parse_settings(given: list[str]) -> dict[str, Any]:
    """``key=value`` pairs; values are JSON, and whatever is not JSON is text."""
    settings: dict[str, Any] = {}
    for pair in given:
        key, sign, text = pair.partition("=")
        if not sign or not key.strip():
            raise UsageError(f"--set takes key=value, for example --set trees=200, got {pair!r}.")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        settings[key.strip()] = tuple(value) if isinstance(value, list) else value
    return settings
