"""Rankings as files and on the screen."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from plackett.base.errors import UsageError
from plackett.base.files import atomic_file, cell
from plackett.base.ragged import Scores, list_of_document
from plackett.cli.console import print_json
from plackett.data.dataset import Dataset
from plackett.data.trec import run_lines

FORMS = ".txt .npy (scores by row), .tsv .parquet (rankings), .run (TREC)"
_FORMS = (".txt", ".npy", ".tsv", ".parquet", ".run")
_COLUMNS = ("query_id", "document", "rank", "score")
_HEADER = "\t".join(_COLUMNS) + "\n"

Add: TypeAlias = Callable[[Dataset, Scores], object]
"""Takes whole lists and the scores of their documents."""


@contextmanager
def ranking_file(path: Path, top: int | None, tag: str) -> Iterator[Add]:
    """A file in the form that the suffix names; takes lists block by block, in their order."""
    form = check_form(path, top)
    with atomic_file(path) as temporary:
        if form == ".parquet":
            with _parquet(temporary, top) as add:
                yield add
        elif form == ".npy":
            with _array(temporary) as add:
                yield add
        else:
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                if form == ".tsv":
                    file.write(_HEADER)
                yield lambda data, scores: file.writelines(_text(form, data, scores, top, tag))


def _text(form: str, data: Dataset, scores: Scores, top: int | None, tag: str) -> Iterator[str]:
    if form == ".run":
        return run_lines(data, scores, tag="-".join(tag.split()))
    if form == ".txt":
        return (f"{score!r}\n" for score in data.to_rows(scores).tolist())
    return _lines(ranking(data, scores, top))


def check_form(path: Path, top: int | None) -> str:
    """The suffix, which must be one of ours and fit the other options."""
    form = path.suffix.lower()
    if form not in _FORMS:
        raise UsageError(f"{path}: a ranking is written as {FORMS}.")
    if top is not None and form in (".txt", ".npy", ".run"):
        raise UsageError(f"--top cuts rankings (.tsv, .parquet); {form} files hold all documents.")
    return form


def print_rankings(
    parts: Iterable[tuple[Dataset, Scores]], top: int | None, *, as_json: bool
) -> None:
    """Print rankings, as columns between tabs or as JSON."""
    found = (ranking(data, scores, top) for data, scores in parts)
    if as_json:
        rows = (row for columns in found for row in _rows(columns))
        print_json([dict(zip(_COLUMNS, row, strict=True)) for row in rows])
        return
    sys.stdout.write(_HEADER)
    for columns in found:
        sys.stdout.writelines(_lines(columns))


def ranking(dataset: Dataset, scores: Scores, top: int | None) -> dict[str, Any]:
    """Columns of a ranking: lists in the caller's order, each from the best document down.

    Equal scores keep the order of the data set, as in the metrics. A document without an id goes
    by its row, counted from 0.
    """
    lists = list_of_document(dataset.offsets)
    first_rows = np.minimum.reduceat(dataset.rows, dataset.offsets[:-1])
    order = np.lexsort((-scores, first_rows[lists]))
    starts = np.concatenate([[True], lists[order][1:] != lists[order][:-1]])
    places = np.arange(len(order))
    ranks = places - np.maximum.accumulate(np.where(starts, places, 0)) + 1
    if top is not None:
        order, ranks = order[ranks <= top], ranks[ranks <= top]
    names = dataset.rows if dataset.document_ids is None else dataset.document_ids
    return {
        "query_id": dataset.query_ids[lists[order]],
        "document": names[order],
        "rank": ranks,
        "score": scores[order],
    }


def _rows(columns: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    return zip(*(columns[name].tolist() for name in _COLUMNS), strict=True)


def _lines(columns: dict[str, Any]) -> Iterator[str]:
    for query, document, rank, score in _rows(columns):
        yield f"{cell(query)}\t{cell(document)}\t{rank}\t{score!r}\n"


@contextmanager
def _parquet(path: Path, top: int | None) -> Iterator[Add]:
    import pyarrow
    from pyarrow import parquet

    with ExitStack() as stack:
        writers: list[Any] = []

        def add(data: Dataset, scores: Scores) -> None:
            table = pyarrow.table(ranking(data, scores, top))
            if not writers:  # the first lists tell the types of the columns
                writers.append(stack.enter_context(parquet.ParquetWriter(path, table.schema)))
            writers[0].write_table(table)

        yield add
        if not writers:  # there were no lists
            numbers = [pyarrow.array([], kind) for kind in ("int64", "int64", "int64", "float64")]
            parquet.write_table(pyarrow.table(numbers, names=_COLUMNS), path)


@contextmanager
def _array(path: Path) -> Iterator[Add]:
    parts: list[Scores] = []
    yield lambda data, scores: parts.append(data.to_rows(scores))
    with path.open("wb") as file:  # numpy would add a suffix to a name
        np.save(file, np.concatenate(parts))
