"""Scores from files or models, aligned with the data they are for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import Scores
from plackett.cli.opening import open_data, should_stream, without_features
from plackett.data.dataset import Dataset
from plackett.data.read import Sources, find_sources

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def load(
    scores: Path, data: Sequence[Path], options: dict[str, Any], stream: bool | None = None
) -> tuple[Dataset, Scores]:
    """The data set and its scores, aligned: of a model, of a TREC run and qrels, or row by row.

    Tables that do not fit in memory are streamed, and the data set has no features then.
    """
    from plackett.data.trec import is_run, judged, read_qrels, read_run

    if scores.is_dir():
        return _of_model(scores, data, options, stream)
    if not scores.is_file():
        raise DataError(
            "does not exist; scores are a model, a file with one number per row, or a run",
            path=str(scores),
        )
    if is_run(scores):
        return judged(read_run(scores), read_qrels(_only(data)))
    by_row = read_scores(scores)
    sources = find_sources(data)
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
    sources = find_sources(data)
    if sources.form == "letor":  # text may leave out its last features
        options = options | {"n_features": options["n_features"] or ranker.n_features_}
    if _in_blocks(sources, options, stream):
        found, scores = without_features(sources, options, ranker.predict)
        assert scores is not None
        return found, scores
    dataset = open_data(sources, options, stream)
    return dataset, ranker.predict(dataset)


def _in_blocks(sources: Sources, options: dict[str, Any], stream: bool | None) -> bool:
    return sources.form == "columns" and should_stream(sources, options, stream)


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
