"""Scores from files or models, aligned with the data they are for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from plackett.base.errors import DataError
from plackett.base.types import Scores
from plackett.cli.options import read_data
from plackett.data.dataset import Dataset
from plackett.data.formats import known_format

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def load(scores: Path, data: Path, options: dict[str, Any]) -> tuple[Dataset, Scores]:
    """The data set and its scores, aligned: of a model, of a TREC run and qrels, or row by row."""
    from plackett.data.trec import is_run, judged, read_qrels, read_run

    if scores.is_dir():
        return _of_model(scores, data, options)
    if not scores.is_file():
        raise DataError(
            "does not exist; scores are a model, a file with one number per row, or a run",
            path=str(scores),
        )
    if is_run(scores):
        return judged(read_run(scores), read_qrels(data))
    by_row = read_scores(scores)
    dataset = read_data(data, options)
    if len(by_row) != dataset.n_docs:
        raise DataError(
            f"{len(by_row):,} scores for the {dataset.n_docs:,} documents of {data}; there must be "
            "one per row, in the order of the rows.",
            path=str(scores),
        )
    return dataset, by_row[dataset.rows]


def _of_model(model: Path, data: Path, options: dict[str, Any]) -> tuple[Dataset, Scores]:
    from plackett.models import load

    ranker = load(model)
    if known_format(data) == "letor":  # text may leave out its last features
        options = options | {"n_features": options["n_features"] or ranker.n_features_}
    dataset = read_data(data, options)
    return dataset, ranker.predict(dataset)


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
