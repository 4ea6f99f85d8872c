"""Data sets larger than memory: their features stay on disk while models learn from them."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from plackett.base.errors import DataError, UsageError
from plackett.base.files import write_json
from plackett.base.ragged import Features, Scores
from plackett.data.dataset import Dataset
from plackett.data.files import ByteProgress, DataFiles, PathLike, PathsLike, ReadOptions, find_files
from plackett.data.folds import concat
from plackett.data.inputs import Table
from plackett.data.large_arrays import explain_write_error, map_scratch, open_scratch, release_pages, scratch_array
from plackett.data.letor.blocks import open_text
from plackett.data.letor.reader import NO_FEATURES, iter_tables, join_columns, refuse_scattered
from plackett.data.mapped import is_mapped, open_mapped, write_mapped
from plackett.data.reader import open_columnar, read_mapped

_DATA, _ORIGIN = "data.pkdata", "source.json"
TEXT_BYTES = 64 << 20
"""Size of the text that is in memory at a time."""


def stream(
    source: PathsLike | DataFiles,
    *,
    cache: PathLike | None = None,
    scratch: PathLike | None = None,
    progress: ByteProgress | None = None,
    **options: Any,
) -> Dataset:
    """Open a data set larger than memory: like :func:`plackett.read`, but with the features on disk.

    Models train on it and score it with the same results, to the bit, as from memory; only labels,
    ids and the like are in memory.

    Parameters
    ----------
    source
        Parquet or Arrow files (a file, a folder of Parquet files, a pattern such as
        ``"shards/*.parquet"``, or several of these), LETOR text, or the memory-mapped format, which
        is used as it is. The rows of a list may be in several files.
    cache
        Folder that keeps the features for the next time; it is used again as long as the files have
        the same names, sizes and times. Without it they are in a scratch file that is deleted with
        the data set. Either needs disk space for the features as float32.
    scratch
        Folder for the scratch file; by default the folder of the data, if it is writable.
    progress
        Called now and then with the bytes done and the total number of bytes.
    **options
        Those of :func:`plackett.read`.

    Examples
    --------
    >>> import plackett as pk
    >>> data = pk.stream("shards/*.parquet", cache="cache")  # doctest: +SKIP
    """
    files, read_options = find_files(source), ReadOptions(**options)
    if files.format == "mapped":
        return read_mapped(files.first, read_options)
    if files.format == "csv":
        raise UsageError(
            f"{files.first}: CSV is read into memory; convert it to Parquet first (plackett convert), and stream that."
        )
    if cache is None:
        folder = files.first.parent if scratch is None else Path(scratch)
        return spool(files, read_options, folder, progress)
    return _open_cached(files, read_options, Path(cache), progress)


def read_blocks(
    source: PathsLike | DataFiles, *, allow_empty: bool = False, progress: ByteProgress | None = None, **options: Any
) -> Iterator[Dataset]:
    """Read Parquet or Arrow files as data sets of a few thousand documents in whole lists.

    The blocks come in the order of the files, and their ``rows`` count through all files from 0.
    The rows of a list must be next to each other. Files without documents raise DataError unless
    ``allow_empty``. The options are those of :func:`plackett.read`.
    """
    from plackett.data.columnar.blocks import iter_list_blocks  # imports pyarrow

    read_options = ReadOptions(**options)
    columns = open_columnar(find_files(source), read_options)
    if columns.n_docs or not allow_empty:
        yield from iter_list_blocks(columns, read_options.missing, progress)


def collect_lists(
    blocks: Iterable[Dataset], score: Callable[[Dataset], Scores] | None = None
) -> tuple[Dataset, Scores | None]:
    """The lists of all blocks as one data set without features, and their scores.

    ``score`` is called for each block while its features are in memory.
    """
    parts: list[Dataset] = []
    scores: list[Scores] = []
    for block in blocks:
        if score is not None:
            scores.append(score(block))
        parts.append(block.without_features())
    if not parts:
        raise DataError("there are no documents.")
    dataset = concat(parts)._replace(rows=np.concatenate([part.rows for part in parts]))
    return dataset, np.concatenate(scores) if score is not None else None


def spool(
    files: DataFiles, options: ReadOptions, folder: Path, progress: ByteProgress | None, text_bytes: int = TEXT_BYTES
) -> Dataset:
    """Copy the features into a scratch file in ``folder``, ``text_bytes`` of text at a time."""
    if files.is_columnar:
        from plackett.data.columnar.blocks import spool as spool_columns  # imports pyarrow

        return spool_columns(open_columnar(files, options), options, folder, progress)

    options.refuse_columns(files.first, "LETOR text")
    return spool_text(files.first, options, folder, block_bytes=text_bytes, progress=progress)


def _open_cached(files: DataFiles, options: ReadOptions, cache: Path, progress: ByteProgress | None) -> Dataset:
    data, origin_file = cache / _DATA, cache / _ORIGIN
    stats = [(str(path.resolve()), path.stat()) for path in files.paths]
    entries = [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]
    origin = json.loads(json.dumps({"files": entries, "options": vars(options)}))
    if is_mapped(data) and _read_json(origin_file) == origin:
        return open_mapped(data, missing=options.missing)
    if cache.is_dir():
        names = [path.name for path in cache.iterdir() if not path.name.startswith(".")]
        if others := [name for name in names if not name.endswith((_DATA, _ORIGIN))]:
            raise DataError(
                f"is not a cache of plackett: it holds {others[0]!r}. Give an empty or new folder", path=str(cache)
            )
    cache.mkdir(parents=True, exist_ok=True)
    origin_file.unlink(missing_ok=True)  # it describes data that are about to be replaced
    write_mapped(spool(files, options, cache, progress), data)
    write_json(origin_file, origin)
    return open_mapped(data, missing=options.missing)


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def spool_text(
    source: Path, options: ReadOptions, folder: Path, *, block_bytes: int, progress: ByteProgress | None = None
) -> Dataset:
    """Read text to a data set with its features in a scratch file in ``folder``."""
    parts: list[Table] = []
    with open_scratch(folder) as file:
        for table in iter_tables(
            source,
            n_features=options.n_features,
            missing=options.missing,
            block_bytes=block_bytes,
            limits=options,
            progress=progress,
        ):
            with explain_write_error(file):
                file.write(np.asarray(table.features).reshape(-1).data)
                file.flush()
            parts.append(replace(table, features=np.empty((0, table.n_features), np.float32)))
        width = max(part.n_features for part in parts)
        if width == 0:
            raise DataError(NO_FEATURES, path=str(source))
        sizes = [part.n_docs * part.n_features for part in parts]
        features = map_scratch(file, (sum(sizes),), np.float32)
    if all(part.n_features == width for part in parts):
        features = features.reshape(-1, width)
    else:
        features = _widen(
            features, parts, scratch_array(folder, (sum(p.n_docs for p in parts), width), np.float32), options.absent
        )
    table = join_columns(parts, features, str(source))
    if options.strict:
        refuse_scattered(table.query_ids, open_text(source))  # its error names the line
    return Dataset.from_table(table)


def _widen(values: Features, parts: Sequence[Table], out: Features, absent: float) -> Features:
    """Copy the features of parts of different widths into rows as wide as the widest part."""
    start = row = 0
    for part in parts:
        rows, size = out[row : row + part.n_docs], part.n_docs * part.n_features
        rows[:, : part.n_features] = values[start : start + size].reshape(part.n_docs, part.n_features)
        rows[:, part.n_features :] = absent
        start, row = start + size, row + part.n_docs
        release_pages(values)
        release_pages(out)
    return out
