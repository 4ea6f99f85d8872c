"""``plackett rank --cluster``: the shards of a data set scored on several machines.

Each Parquet or Arrow file is ranked by itself and becomes a file of the same name in a folder, so
the rows of a query must all be in one file; that is checked. A file that is there already, from the
same model and an unchanged shard, is not made again.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from plackett.base.errors import DataError, UsageError
from plackett.base.files import atomic_file
from plackett.cli.console import step_progress
from plackett.cli.rankings import ranking_file
from plackett.data.read import Sources

if TYPE_CHECKING:
    from plackett.distributed import Cluster
    from plackett.models import Ranker


_NOTES = ".plackett"
"""Folder, among the rankings, of what each was made from."""


def rank_shards(
    model: Path,
    sources: Sources,
    out: Path | None,
    *,
    top: int | None,
    options: dict[str, Any],
    cluster: Cluster,
) -> dict[str, Any]:
    """Rank all shards; what was done, in numbers."""
    from plackett.distributed.task_pool import map_together

    items = _items(model, sources, out, top, options)
    notes = [_finished(item) for item in items]
    missing = [item for item, note in zip(items, notes, strict=True) if note is None]
    found = [note for note in notes if note is not None]
    if missing:
        with step_progress() as told:
            found += map_together(
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
    from plackett.data.read import ReadOptions, find_sources
    from plackett.data.streaming import columns_of
    from plackett.data.streaming.columns import whole_lists

    ranker = _model(item["model"], item["digest"])
    options = ReadOptions(**item["options"])
    lists = documents = 0
    ids: list[int] = []
    target = Path(item["out"])
    columns = columns_of(find_sources([Path(item["shard"])]), options)
    with ranking_file(target, item["top"], tag="") as add:
        # Of a set of shards, some may be empty.
        for part in whole_lists(columns, options.missing) if columns.n_docs else ():
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
    model: Path, sources: Sources, out: Path | None, top: int | None, options: dict[str, Any]
) -> list[dict[str, Any]]:
    if sources.form != "columns":
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
