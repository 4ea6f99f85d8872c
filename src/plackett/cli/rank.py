"""``plackett rank``: scores and rankings of a model, in the form another program wants.

Rankings as files and on the screen.

``plackett rank --cluster``: the shards of a data set scored on several machines.

Each Parquet or Arrow file is ranked by itself and becomes a file of the same name in a folder, so
the rows of a query must all be in one file; that is checked. A file that is there already, from the
same model and an unchanged shard, is not made again.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
import typer

from plackett.base.errors import DataError, UsageError
from plackett.base.files import atomic_file, tsv_cell
from plackett.base.ragged import Scores, list_of_document
from plackett.cli.console import OUT, print_json, step_progress
from plackett.cli.options import (
    ClusterOption,
    Features,
    Json,
    Missing,
    Query,
    Stream,
    Strict,
    blocks_of,
    cluster_of,
    open_data,
    read_options,
    should_stream,
)
from plackett.data import DataFiles, find_files
from plackett.data.dataset import Dataset
from plackett.data.trec import format_run

if TYPE_CHECKING:
    from plackett.distributed import Cluster
    from plackett.models import Ranker


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
        return format_run(data, scores, tag="-".join(tag.split()))
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
        yield f"{tsv_cell(query)}\t{tsv_cell(document)}\t{rank}\t{score!r}\n"


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


def rank(
    model: Annotated[Path, typer.Argument(help="A model made by plackett train.")],
    data: Annotated[
        list[Path], typer.Argument(help="Documents to rank; several Parquet files are one set.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help=f"File to write; its suffix says what: {FORMS}. [default: a table]"),
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="Only so many documents of each list.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Label column of a table, so that it is no feature.")
    ] = None,
    missing: Missing = None,
    features: Features = None,
    query: Query = "query_id",
    strict: Strict = False,
    stream: Stream = None,
    cluster: ClusterOption = None,
    json: Json = False,
) -> None:
    """Score documents with a model: best first in each list, or scores row by row."""
    from plackett.models import load

    where = cluster_of(cluster)
    if out is not None and where is None:
        check_form(out, top)
    ranker = load(model)
    sources = find_files(data)
    table = sources.is_columnar
    n_features = features or (None if table else ranker.n_features_)
    given = read_options(missing, n_features, label if table else "label", query, strict)
    if where is not None:
        facts = rank_shards(model, sources, out, top=top, options=given, cluster=where)
        _tell(facts, json)
        return
    parts = _scored(ranker, sources, given, stream)
    if out is None:
        print_rankings(parts, top, as_json=json)
        return
    lists = documents = 0
    with ranking_file(out, top, tag=ranker.recipe_name or model.stem) as add:
        for dataset, scores in parts:
            add(dataset, scores)
            lists, documents = lists + dataset.n_lists, documents + dataset.n_docs
    _tell({"out": str(out), "lists": lists, "documents": documents}, json)


def _tell(facts: dict[str, Any], json: bool) -> None:
    if json:
        print_json(facts)
        return
    told = f"{facts['out']}: {facts['documents']:,} documents of {facts['lists']:,} lists"
    OUT.print(told, highlight=False, soft_wrap=True)


def _scored(
    ranker: Ranker, sources: DataFiles, options: dict[str, Any], stream: bool | None
) -> Iterator[tuple[Dataset, Scores]]:
    """Lists and their scores: all at once, or block by block where tables do not fit in memory."""
    if sources.is_columnar and should_stream(sources, options, stream):
        yield from ((part, ranker.predict(part)) for part in blocks_of(sources, options))
    else:
        dataset = open_data(sources, options, stream)
        yield dataset, ranker.predict(dataset)


_NOTES = ".plackett"
"""Folder, among the rankings, of what each was made from."""


def rank_shards(
    model: Path,
    sources: DataFiles,
    out: Path | None,
    *,
    top: int | None,
    options: dict[str, Any],
    cluster: Cluster,
) -> dict[str, Any]:
    """Rank all shards; what was done, in numbers."""
    from plackett.distributed import map_on_cluster

    items = _items(model, sources, out, top, options)
    notes = [_finished(item) for item in items]
    missing = [item for item, note in zip(items, notes, strict=True) if note is None]
    found = [note for note in notes if note is not None]
    if missing:
        with step_progress() as told:
            found += map_on_cluster(
                rank_shard,
                missing,
                cluster=cluster,
                progress=lambda done, total: told("ranking shards", done, total),
            )
    _refuse_divided(found)
    return {
        "out": str(out),
        "shards": len(items),
        "ranked": len(missing),
        "lists": sum(note["lists"] for note in found),
        "documents": sum(note["documents"] for note in found),
    }


def rank_shard(item: dict[str, Any]) -> dict[str, Any]:
    """What a worker does: rank one shard block by block, and note what it was made from."""
    from plackett.data import read_blocks

    ranker = _model(item["model"], item["digest"])

    lists = documents = 0
    ids: list[int] = []
    target = Path(item["out"])

    with ranking_file(target, item["top"], tag="") as add:
        # Of a set of shards, some may be empty.
        for part in read_blocks(item["shard"], allow_empty=True, **item["options"]):
            add(part, ranker.predict(part))
            lists, documents = lists + part.n_lists, documents + part.n_docs
            ids += [_hash(each) for each in part.query_ids.tolist()]
    note = {"key": item["key"], "shard": item["shard"], "lists": lists, "documents": documents}
    with atomic_file(_note(target)) as temporary:
        temporary.write_text(json.dumps(note | {"ids": ids}), encoding="utf-8")
    return note | {"ids": ids}


@lru_cache(maxsize=1)
def _model(path: str, digest: str) -> Ranker:  # noqa: ARG001 - another model is another entry
    from plackett.models import load

    return load(Path(path))


def _items(
    model: Path, sources: DataFiles, out: Path | None, top: int | None, options: dict[str, Any]
) -> list[dict[str, Any]]:
    if not sources.is_columnar:
        raise UsageError("--cluster ranks the shards of Parquet or Arrow data; convert them first.")
    if out is None or out.suffix:
        raise UsageError("--cluster needs --out with a folder, into which each shard is ranked.")
    digest = _digest(model)
    names = [path.stem for path in sources.paths]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise UsageError(f"two shards are called {sorted(twice)[0]!r}; give them different names.")
    items = []
    for path in sources.paths:
        facts = path.stat()
        made_of = [digest, str(path.resolve()), facts.st_size, facts.st_mtime_ns, top, options]
        items.append(
            {
                "model": str(model.resolve()),
                "digest": digest,
                "shard": str(path.resolve()),
                "out": str(out.resolve() / f"{path.stem}.parquet"),
                "top": top,
                "options": options,
                "key": hashlib.sha256(json.dumps(made_of).encode()).hexdigest(),
            }
        )
    return items


def _digest(model: Path) -> str:
    """Of all files of a model."""
    digest = hashlib.sha256()
    for path in sorted(model.rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(model).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _note(target: Path) -> Path:
    return target.parent / _NOTES / f"{target.stem}.json"


def _finished(item: dict[str, Any]) -> dict[str, Any] | None:
    target = Path(item["out"])
    try:
        note: dict[str, Any] = json.loads(_note(target).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return note if target.exists() and note.get("key") == item["key"] else None


def _hash(query: Any) -> int:
    found = hashlib.blake2b(repr(query).encode(), digest_size=8).digest()
    return int.from_bytes(found, "little", signed=True)


def _refuse_divided(notes: list[dict[str, Any]]) -> None:
    """A query in two shards would be ranked as two lists."""
    ids = np.concatenate([np.array(note["ids"], np.int64) for note in notes])
    shard = np.repeat(np.arange(len(notes)), [len(note["ids"]) for note in notes])
    order = np.argsort(ids, kind="stable")
    same = np.flatnonzero((np.diff(ids[order]) == 0) & (np.diff(shard[order]) != 0))
    if len(same):
        first, second = (notes[shard[order[same[0] + k]]]["shard"] for k in (0, 1))
        raise DataError(
            f"{len(same)} queries have rows in two shards, for example in {first} and {second}; "
            "put all rows of a query into one file, or rank without --cluster."
        )
