"""``plackett rank``: score documents with a model and write rankings.

With ``--cluster``, the shards of a data set are scored on several machines. Each Parquet or Arrow
file is ranked separately and becomes a file of the same name in the output folder, so all rows of a
query must be in one file; this is checked. A shard that has not changed is not ranked again.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import typer

from plackett.base.errors import DataError, UsageError
from plackett.base.files import atomic_file, hash_file, tsv_cell, write_text
from plackett.base.ragged import Scores
from plackett.cli.console import print_facts, print_json, step_progress
from plackett.cli.options import ClusterOption, DataOptions, Json, find_cluster, find_test_set, name_model_features
from plackett.data import DataFiles, Dataset, find_files, read_blocks
from plackett.data.trec import format_run
from plackett.distributed import Cluster, map_on_cluster
from plackett.models import Ranker, load
from plackett.models.artifact import MANIFEST_FILE

_FORMATS = ".txt .npy (scores by row), .tsv .parquet (rankings), .run (TREC)"
_COLUMNS = ("query_id", "document", "rank", "score")
_HEADER = "\t".join(_COLUMNS) + "\n"
_NOTES = ".plackett"  # subfolder of the output that records what each ranking was made from

AddLists: TypeAlias = Callable[[Dataset, Scores], object]  # receives lists and the scores of their documents


@dataclass(frozen=True)
class RankDataOptions(DataOptions):
    """Data to rank needs no labels."""

    label: Annotated[str | None, "Name of the label column, so that it is not used as a feature."] = None


def rank(
    model: Annotated[Path, typer.Argument(help="Folder of a model.")],
    data: Annotated[
        list[Path],
        typer.Argument(
            help="Documents to rank; several Parquet or Arrow files form one data set; for a fold, its test set."
        ),
    ],
    reading: RankDataOptions,
    out: Annotated[
        Path | None,
        f"File to write; its suffix selects the format: {_FORMATS}. With --cluster a folder.  [default: print]",
    ] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Keep only this many documents of each list.")] = None,
    cluster: ClusterOption = None,
    json: Json = False,
) -> None:
    """Score documents with a model: rankings, best document first, or scores row by row."""
    ray_cluster = find_cluster(cluster)
    if out is not None and ray_cluster is None:
        check_suffix(out, top)
    ranker = load(model)
    files = find_files(find_test_set(data))
    limit = name_model_features(None if reading.n_features else ranker)
    reading = reading.for_model(ranker, files)
    if files.format in ("letor", "mapped"):  # they always have labels
        reading = replace(reading, label="label")
    parts = _score(ranker, files, reading)
    if ray_cluster is not None:
        facts = rank_shards(model, files, out, top=top, options=reading.read_options(), cluster=ray_cluster)
    elif out is None:
        with limit:
            print_rankings(parts, top, as_json=json)
        return
    else:
        facts = {"out": str(out), "lists": 0, "documents": 0}
        with limit, ranking_file(out, top, tag=ranker.recipe_name or model.stem) as add:
            for dataset, scores in parts:
                add(dataset, scores)
                facts["lists"] += dataset.n_lists
                facts["documents"] += dataset.n_docs
    text = f"{facts['out']}: {facts['documents']:,} documents of {facts['lists']:,} lists"
    print_facts(facts, text, as_json=json)


def _score(ranker: Ranker, files: DataFiles, reading: DataOptions) -> Iterator[tuple[Dataset, Scores]]:
    """Yield lists and their scores: all at once, or in blocks if they do not fit in memory."""
    if reading.reads_in_blocks(files):
        yield from ((block, ranker.predict(block)) for block in reading.iter_blocks(files))
    else:
        dataset = reading.open(files.paths)
        yield dataset, ranker.predict(dataset)


@contextmanager
def ranking_file(path: Path, top: int | None, tag: str) -> Iterator[AddLists]:
    """Open a file in the format of its suffix; yields a function that appends lists to it."""
    suffix = check_suffix(path, top)
    with atomic_file(path) as temporary:
        if suffix == ".parquet":
            with _parquet(temporary, top) as add:
                yield add
        elif suffix == ".npy":
            with _array(temporary) as add:
                yield add
        else:
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                if suffix == ".tsv":
                    file.write(_HEADER)
                yield lambda data, scores: file.writelines(_format_lists(suffix, data, scores, top, tag))


def _format_lists(suffix: str, data: Dataset, scores: Scores, top: int | None, tag: str) -> Iterator[str]:
    if suffix == ".run":
        return format_run(data, scores, tag="-".join(tag.split()))
    if suffix == ".txt":
        return (f"{score!r}\n" for score in scores.tolist())
    return _lines(ranking(data, scores, top))


def check_suffix(path: Path, top: int | None) -> str:
    """Return the suffix, after checking that it is known and goes with ``--top``."""
    suffix = path.suffix.lower()
    if suffix not in (".txt", ".npy", ".tsv", ".parquet", ".run"):
        raise UsageError(f"{path}: unknown format; rankings are written to {_FORMATS}.")
    if top is not None and suffix in (".txt", ".npy", ".run"):
        raise UsageError(f"--top only applies to .tsv and .parquet; {suffix} files contain all documents.")
    return suffix


def print_rankings(parts: Iterable[tuple[Dataset, Scores]], top: int | None, *, as_json: bool) -> None:
    """Print rankings, as tab-separated columns or as JSON."""
    rankings = (ranking(data, scores, top) for data, scores in parts)
    if as_json:
        rows = (row for columns in rankings for row in _rows(columns))
        print_json([dict(zip(_COLUMNS, row, strict=True)) for row in rows])
        return
    for number, columns in enumerate(rankings):
        sys.stdout.writelines([_HEADER] if number == 0 else [])  # only once the data have been read
        sys.stdout.writelines(_lines(columns))


def ranking(dataset: Dataset, scores: Scores, top: int | None) -> dict[str, Any]:
    """Return the columns of a ranking: lists in the order of the rows, best document first.

    Equal scores are ordered as in the metrics. A document without an id is identified by its row, counted from 0.
    """
    order = dataset.rank(scores)
    lists = dataset.list_of_row[order]
    ranks = np.arange(len(order)) - np.searchsorted(lists, lists) + 1
    if top is not None:
        order, lists, ranks = order[ranks <= top], lists[ranks <= top], ranks[ranks <= top]
    names = dataset.rows if dataset.document_ids is None else dataset.document_ids
    return {"query_id": dataset.list_ids[lists], "document": names[order], "rank": ranks, "score": scores[order]}


def _rows(columns: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    return zip(*(columns[name].tolist() for name in _COLUMNS), strict=True)


def _lines(columns: dict[str, Any]) -> Iterator[str]:
    for query, document, rank, score in _rows(columns):
        yield f"{tsv_cell(query)}\t{tsv_cell(document)}\t{rank}\t{score!r}\n"


@contextmanager
def _parquet(path: Path, top: int | None) -> Iterator[AddLists]:
    import pyarrow
    from pyarrow import parquet

    with ExitStack() as stack:
        writers: list[Any] = []

        def add(data: Dataset, scores: Scores) -> None:
            table = pyarrow.table(ranking(data, scores, top))
            if not writers:  # the first lists determine the column types
                writers.append(stack.enter_context(parquet.ParquetWriter(path, table.schema)))
            writers[0].write_table(table)

        yield add
        if not writers:  # there were no lists
            numbers = [pyarrow.array([], kind) for kind in ("int64", "int64", "int64", "float64")]
            parquet.write_table(pyarrow.table(numbers, names=_COLUMNS), path)


@contextmanager
def _array(path: Path) -> Iterator[AddLists]:
    parts: list[Scores] = []
    yield lambda _, scores: parts.append(scores)
    with path.open("wb") as file:  # np.save would add a suffix to a path
        np.save(file, np.concatenate(parts))


def rank_shards(
    model: Path, files: DataFiles, out: Path | None, *, top: int | None, options: dict[str, Any], cluster: Cluster
) -> dict[str, Any]:
    """Rank all shards that have changed, and return the numbers of shards, lists and documents."""
    items = _list_items(model, files, out, top, options)
    notes = [_read_note(item) for item in items]
    missing = [item for item, note in zip(items, notes, strict=True) if note is None]
    finished = [note for note in notes if note is not None]
    if missing:
        with step_progress() as progress:
            finished += map_on_cluster(
                rank_shard,
                missing,
                cluster=cluster,
                progress=lambda done, total: progress("ranking shards", done, total),
            )
    _refuse_divided_queries(finished)
    return {
        "out": str(out),
        "shards": len(items),
        "ranked": len(missing),
        "lists": sum(note["lists"] for note in finished),
        "documents": sum(note["documents"] for note in finished),
    }


def rank_shard(item: dict[str, Any]) -> dict[str, Any]:
    """Rank one shard in blocks, on a worker, and record what the ranking was made from."""
    ranker = _load_model(item["model"], item["digest"])
    lists = documents = 0
    ids: list[int] = []
    target = Path(item["out"])
    with ranking_file(target, item["top"], tag="") as add:
        for block in read_blocks([Path(item["shard"])], allow_empty=True, **item["options"]):
            add(block, ranker.predict(block))
            lists, documents = lists + block.n_lists, documents + block.n_docs
            ids += [_hash(query) for query in block.list_ids.tolist()]
    note = {"key": item["key"], "shard": item["shard"], "lists": lists, "documents": documents, "ids": ids}
    write_text(_note_path(target), json.dumps(note))
    return note


@lru_cache(maxsize=1)
def _load_model(path: str, digest: str) -> Ranker:  # noqa: ARG001 - part of the cache key
    return load(Path(path))


def _list_items(
    model: Path, files: DataFiles, out: Path | None, top: int | None, options: dict[str, Any]
) -> list[dict[str, Any]]:
    """Describe the work on each shard, with a key that changes when the ranking would."""
    if not files.is_columnar:
        raise UsageError("--cluster needs Parquet or Arrow data; convert the data first.")
    if out is None or out.suffix:
        raise UsageError("--cluster needs a folder as --out, for one ranking per shard.")
    digest = hash_file(model / MANIFEST_FILE)  # the manifest has the hashes of all files
    names = [path.stem for path in files.paths]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise UsageError(f"two shards are named {sorted(twice)[0]!r}; rename one of them.")
    items = []
    for path in files.paths:
        status = path.stat()
        made_of = [digest, str(path.resolve()), status.st_size, status.st_mtime_ns, top, options]
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


def _note_path(target: Path) -> Path:
    return target.parent / _NOTES / f"{target.stem}.json"


def _read_note(item: dict[str, Any]) -> dict[str, Any] | None:
    """Return the note of a finished ranking of the same shard by the same model."""
    target = Path(item["out"])
    try:
        note: dict[str, Any] = json.loads(_note_path(target).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return note if target.exists() and note.get("key") == item["key"] else None


def _hash(query: Any) -> int:
    digest = hashlib.blake2b(repr(query).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _refuse_divided_queries(notes: list[dict[str, Any]]) -> None:
    """Raise DataError for a query in two shards, which would be ranked as two lists."""
    ids = np.concatenate([np.array(note["ids"], np.int64) for note in notes])
    shard = np.repeat(np.arange(len(notes)), [len(note["ids"]) for note in notes])
    order = np.argsort(ids, kind="stable")
    same = np.flatnonzero((np.diff(ids[order]) == 0) & (np.diff(shard[order]) != 0))
    if len(same):
        first, second = (notes[shard[order[same[0] + k]]]["shard"] for k in (0, 1))
        raise DataError(
            f"{len(same)} queries have rows in two shards, for example in {first} and {second}; "
            "put all rows of a query in one file, or rank without --cluster."
        )
