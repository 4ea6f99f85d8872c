"""Options that several commands share, and what they mean to the library.

``--cluster``: which machines do the work.

Data sets of any size for the commands: read into memory, or streamed where they do not fit.

Scores from files or models, aligned with the data they are for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer

from plackett.base.deprecation import rename_deprecated
from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import Scores
from plackett.cli.console import byte_progress
from plackett.data import DataFiles, ReadOptions, find_files, fits_in_memory, read_blocks
from plackett.data import collect_lists as collect
from plackett.data import open_data as open_any
from plackett.data.dataset import Dataset

if TYPE_CHECKING:
    from plackett.distributed import Cluster as Place


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
    from plackett.data import read

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
    return rename_deprecated(settings)


ClusterOption = Annotated[
    str | None,
    typer.Option(
        help='Work on Ray: "local:2" (workers on this machine), "auto" or "HOST:6379" (a cluster), '
        'with settings behind it: "auto?workers=8&threads=4".  [default: this process]',
        show_default=False,
    ),
]


def cluster_of(given: str | None) -> Place | None:
    """The cluster that is meant; refused before any work is done if Ray is missing."""
    if given is None:
        return None
    from plackett.base.optional import require
    from plackett.distributed import as_cluster

    found = as_cluster(given)
    try:
        require("ray")
    except ImportError as error:
        raise UsageError(str(error)) from error
    return found


def cores_of(cluster: Place) -> dict[str, Any]:
    """Trials at the same time and threads of each, as far as they are known before it starts."""
    return {"jobs": cluster.local_workers, "threads": cluster.threads}


Stream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream",
        help="Read features block by block, not into memory. [default: if they would not fit]",
        show_default=False,
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(help="Folder that keeps streamed features for the next time."),
]


def open_data(
    sources: DataFiles, options: dict[str, Any], stream: bool | None, cache: Path | None = None
) -> Dataset:
    """The data set, with its features in memory or on disk."""
    with byte_progress(f"reading {sources.first.name}") as progress:
        return open_any(sources, stream=stream, cache=cache, progress=progress, **options)


def should_stream(sources: DataFiles, options: dict[str, Any], stream: bool | None) -> bool:
    """What the user says, or whether it is needed."""
    if stream is not None:
        return stream
    return not fits_in_memory([sources], ReadOptions(**options))


def blocks_of(sources: DataFiles, options: dict[str, Any]) -> Iterator[Dataset]:
    """Whole lists of Parquet or Arrow files, block by block, with a bar."""
    with byte_progress(f"reading {sources.first.name}") as progress:
        yield from read_blocks(sources, progress=progress, **options)


def without_features(
    sources: DataFiles, options: dict[str, Any], score: Callable[[Dataset], Scores] | None = None
) -> tuple[Dataset, Scores | None]:
    """Labels and lists of Parquet or Arrow files, and scores made of their features."""
    return collect(blocks_of(sources, options), score)


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def load(
    scores: Path, data: Sequence[Path], options: dict[str, Any], stream: bool | None = None
) -> tuple[Dataset, Scores]:
    """The data set and its scores, aligned: of a model, of a TREC run and qrels, or row by row.

    Tables that do not fit in memory are streamed, and the data set has no features then.
    """
    from plackett.data.trec import is_run, judge_run, read_qrels, read_run

    if scores.is_dir():
        return _of_model(scores, data, options, stream)
    if not scores.is_file():
        raise DataError(
            "does not exist; scores are a model, a file with one number per row, or a run",
            path=str(scores),
        )
    if is_run(scores):
        return judge_run(read_run(scores), read_qrels(_only(data)))
    by_row = read_scores(scores)
    sources = find_files(data)
    if _in_blocks(sources, options, stream):
        dataset, _ = without_features(sources, options)
    else:
        dataset = open_data(sources, options, stream)
    if len(by_row) != dataset.n_docs:
        raise DataError(
            f"{len(by_row):,} scores for the {dataset.n_docs:,} documents of {sources.name}; there "
            "must be one per row, in the order of the rows.",
            path=str(scores),
        )
    return dataset, by_row[dataset.rows]


def _of_model(
    model: Path, data: Sequence[Path], options: dict[str, Any], stream: bool | None
) -> tuple[Dataset, Scores]:
    from plackett.models import load

    ranker = load(model)
    sources = find_files(data)
    if sources.format == "letor":  # text may leave out its last features
        options = options | {"n_features": options["n_features"] or ranker.n_features_}
    if _in_blocks(sources, options, stream):
        found, scores = without_features(sources, options, ranker.predict)
        assert scores is not None
        return found, scores
    dataset = open_data(sources, options, stream)
    return dataset, ranker.predict(dataset)


def _in_blocks(sources: DataFiles, options: dict[str, Any], stream: bool | None) -> bool:
    return sources.is_columnar and should_stream(sources, options, stream)


def _only(data: Sequence[Path]) -> Path:
    if len(data) > 1:
        raise UsageError(f"a run goes with one file of qrels, got {len(data)}.")
    return data[0]


def read_scores(path: Path) -> Scores:
    """One finite number per line of a text file, or a one-dimensional array in .npy form."""
    return _from_npy(path) if path.suffix == ".npy" else _from_text(path)


def _from_npy(path: Path) -> Scores:
    try:
        values = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DataError("is not an array of numbers in .npy form", path=str(path)) from error
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in "fiu":
        raise DataError("holds no one-dimensional array of numbers", path=str(path))
    result = values.astype(np.float64)
    if not np.all(np.isfinite(result)):
        row = int(np.argmin(np.isfinite(result)))
        raise DataError(f"score {row} (counted from 0) is {result[row]}", path=str(path))
    return result


def _from_text(path: Path) -> Scores:
    result = []
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            token = line.strip()
            if not _NUMBER.fullmatch(token):
                raise DataError(
                    f"{token[:40]!r} is not a number; scores are one finite number per line, or a "
                    "TREC run of six columns",
                    path=str(path),
                    line=number,
                )
            result.append(float(token))
    if not result:
        raise DataError("has no scores", path=str(path))
    return np.array(result)
