"""Rankings as files and on the screen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from plackett.base.errors import UsageError
from plackett.base.files import atomic_file
from plackett.base.ragged import list_of_document
from plackett.base.types import Scores
from plackett.cli.console import print_json
from plackett.data.dataset import Dataset
from plackett.data.trec import write_run

FORMS = ".txt .npy (scores by row), .tsv .parquet (rankings), .run (TREC)"
_FORMS = (".txt", ".npy", ".tsv", ".parquet", ".run")
_COLUMNS = ("query_id", "document", "rank", "score")


def write_ranking(path: Path, dataset: Dataset, scores: Scores, top: int | None, tag: str) -> None:
    """Write scores or rankings in the form that the suffix names."""
    form = check_form(path, top)
    if form == ".run":
        write_run(dataset, scores, path, tag="-".join(tag.split()))
    elif form == ".parquet":
        _write_parquet(path, ranking(dataset, scores, top))
    else:
        with atomic_file(path) as temporary, temporary.open("wb") as file:
            if form == ".npy":
                np.save(file, dataset.to_rows(scores))
            elif form == ".txt":
                file.writelines(b"%a\n" % s for s in dataset.to_rows(scores).tolist())
            else:
                file.writelines(line.encode() for line in _lines(ranking(dataset, scores, top)))


def check_form(path: Path, top: int | None) -> str:
    """The suffix, which must be one of ours and fit the other options."""
    form = path.suffix.lower()
    if form not in _FORMS:
        raise UsageError(f"{path}: a ranking is written as {FORMS}.")
    if top is not None and form in (".txt", ".npy", ".run"):
        raise UsageError(f"--top cuts rankings (.tsv, .parquet); {form} files hold all documents.")
    return form


def print_ranking(dataset: Dataset, scores: Scores, top: int | None, *, as_json: bool) -> None:
    """Print rankings, as columns between tabs or as JSON."""
    columns = ranking(dataset, scores, top)
    if as_json:
        rows = zip(*(columns[name].tolist() for name in _COLUMNS), strict=True)
        print_json([dict(zip(_COLUMNS, row, strict=True)) for row in rows])
        return
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


def _lines(columns: dict[str, Any]) -> Any:
    yield "\t".join(_COLUMNS) + "\n"
    for query, document, rank, score in zip(
        *(columns[name].tolist() for name in _COLUMNS), strict=True
    ):
        yield f"{query}\t{document}\t{rank}\t{score!r}\n"


def _write_parquet(path: Path, columns: dict[str, Any]) -> None:
    import pyarrow
    from pyarrow import parquet

    with atomic_file(path) as temporary:
        parquet.write_table(pyarrow.table(columns), temporary)
