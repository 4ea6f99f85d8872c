"""Data sets larger than memory: read block by block, and kept on disk while models learn."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plackett.base.errors import DataError
from plackett.base.files import write_json
from plackett.base.memory import available_memory, memory_limits
from plackett.data.dataset import Dataset
from plackett.data.large_arrays import SCRATCH
from plackett.data.mapped import is_mapped, open_mapped
from plackett.data.reader import COMPRESSED, DataFiles, ReadOptions, Source, find_files, read_part
from plackett.data.writer import Halves, write_mapped

if TYPE_CHECKING:
    from plackett.data.columnar.reader import Columns
    from plackett.data.letor import Progress


_DATA, _NOTE = "data.pkdata", "source.json"
_TEXT_BYTES = 64 << 20  # of text in memory at a time


def stream(
    source: Source,
    *,
    cache: str | os.PathLike[str] | None = None,
    scratch: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Dataset:
    """Open a data set larger than memory: what :func:`plackett.read` gives, features on disk.

    Models learn from it, score it and are the same to the bit as from memory; only labels, ids and
    the like are in memory.

    Parameters
    ----------
    source
        Parquet or Arrow files (a file, a folder of Parquet files, a pattern such as
        ``"shards/*.parquet"``, or several of these), LETOR text, or the memory-mapped form, which
        is used as it is. The rows of a list may be in several files.
    cache
        A folder that keeps the features for the next time; it is used again as long as the files
        have the same names, sizes and times. Without it they are in a scratch file that vanishes
        with the data set. Either needs room for the features as float32.
    scratch
        A folder for the scratch file; by default beside the data, where that may be written.
    progress
        Called now and then with the bytes done and the bytes in all.
    **options
        Those of :func:`plackett.read`.
    """
    sources, chosen = find_files(source), ReadOptions(**options)
    if sources.form == "mapped":
        opened = read_part(sources.first, chosen)
        assert isinstance(opened, Dataset)
        return opened
    if cache is None:
        folder = sources.first.parent if scratch is None else Path(scratch)
        return _spooled(sources, chosen, folder, progress)
    return _cached(sources, chosen, Path(cache), progress)


def columns_of(sources: DataFiles, options: ReadOptions) -> Columns:
    """The columns of Parquet or Arrow files, found and checked."""
    from plackett.data.columnar.reader import (
        open_columns,  # imports pyarrow, which others do without
    )

    wanted = {name: getattr(options, name) for name in ("label", "query", "document", "weight")}
    return open_columns(
        sources.paths,
        sources.name,
        n_features=options.n_features,
        features=options.features,
        **wanted,
    )


def _spooled(
    sources: DataFiles, options: ReadOptions, folder: Path, progress: Progress | None
) -> Dataset:
    if sources.form == "columns":
        from plackett.data.columnar.streaming import spool

        return spool(
            columns_of(sources, options),
            missing=options.missing,
            strict=options.strict,
            folder=folder,
            progress=progress,
        )
    return _spooled_text(sources.first, options, folder, progress)


def _spooled_text(
    source: Path, options: ReadOptions, folder: Path, progress: Progress | None
) -> Dataset:
    from plackett.data.letor.streaming import stream_to_mapped

    options.refuse_columns(source, "LETOR text")
    halves = Halves(progress)
    place = os.environ.get(SCRATCH) or (folder if os.access(folder, os.W_OK) else None)
    with tempfile.TemporaryDirectory(dir=place, prefix=".plackett-") as made:
        target = Path(made) / _DATA
        stream_to_mapped(
            source,
            target,
            options,
            block_bytes=_TEXT_BYTES,
            reading=halves.first,
            writing=halves.second,
        )
        # The files lose their names here and are gone when the last array over them is.
        return open_mapped(target, missing=options.missing)


def _cached(
    sources: DataFiles, options: ReadOptions, cache: Path, progress: Progress | None
) -> Dataset:
    data, file = cache / _DATA, cache / _NOTE
    note = _note(sources, options)
    if is_mapped(data) and _read_note(file) == note:
        return open_mapped(data, missing=options.missing)
    if cache.is_dir():
        strange = [path.name for path in cache.iterdir() if not path.name.endswith((_DATA, _NOTE))]
        if [name for name in strange if not name.startswith(".")]:
            raise DataError(
                f"is no cache of ours: it holds {strange[0]!r}. Give an empty or new folder",
                path=str(cache),
            )
    cache.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)  # what it speaks of is about to be replaced
    write_mapped(_spooled(sources, options, cache, progress), data)
    write_json(file, note)
    return open_mapped(data, missing=options.missing)


def _note(sources: DataFiles, options: ReadOptions) -> Any:
    """What a cache was made from, as plain data."""
    stats = [(str(path.resolve()), path.stat()) for path in sources.paths]
    files = [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]
    return json.loads(json.dumps({"files": files, "options": vars(options)}))


def _read_note(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


SHARE = 0.5
"""Of the memory there is that features may take; models and what they keep need the rest."""


def fits_in_memory(sources: DataFiles, options: ReadOptions) -> bool:
    """Whether the features take at most half of the memory there is; True if nobody knows."""
    room, needed = available_bytes(), feature_bytes(sources, options)
    return room is None or needed is None or needed <= SHARE * room


def feature_bytes(sources: DataFiles, options: ReadOptions) -> int | None:
    """What the features take as float32; of text, about as much as the text."""
    if sources.form == "columns":
        columns = columns_of(sources, options)
        return 4 * columns.n_docs * columns.width
    if sources.form == "letor" and sources.first.suffix.lower() not in COMPRESSED:
        return sources.first.stat().st_size
    return None


def available_bytes() -> int:
    """Memory that this process can still have, as far as the system says."""
    return min([available_memory(), *(limit.left for limit in memory_limits())])


__all__ = [
    "stream",
]
