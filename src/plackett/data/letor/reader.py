"""Reading LETOR/SVMlight text: ``label qid:ID index:value ... # comment``.

The features come as one dense float32 array, each value the float32 nearest to its text. Whole
files and files larger than memory go through the same parser, block by block.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Literal, TypeAlias

from numba import get_num_threads

from plackett.base.errors import DataError, UsageError
from plackett.data.letor.blocks import Source, open_source
from plackett.data.letor.careful import Rules
from plackett.data.letor.joining import join_parts
from plackett.data.letor.parse import Job, parse_block
from plackett.data.letor.returning import refuse_returning
from plackett.data.table import Table

Missing: TypeAlias = Literal["nan"] | None
Progress: TypeAlias = Callable[[int, int], None]
Path: TypeAlias = str | os.PathLike[str]

BLOCK_BYTES = 64 << 20


def read_table(
    path: Path,
    *,
    n_features: int | None = None,
    missing: Missing = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> Table:
    """Read a whole file.

    Parameters
    ----------
    path
        Text, or text compressed as ``.gz`` or ``.xz``.
    n_features
        Width of the result; an index above it is an error. Default: the largest index.
    missing
        ``"nan"``: features may be ``nan``, and those a line leaves out are NaN. Default: those
        left out are 0 and ``nan`` is an error.
    strict
        Refuse a query id that comes back after lines of other queries.
    progress
        Called now and then with the bytes of the file done and their total.

    Returns
    -------
    Table
        Query ids are int64 if all of them are plain integers, else strings; document ids come
        from the comments, and are None if no line names one.

    Raises
    ------
    DataError
        Names the first line that is not right, and says why.
    """
    source = open_source(path)
    with _job(source, n_features, missing, progress) as job:
        parts, line = [], 1
        for block in source.blocks():
            parts.append(parse_block(block, line, job))
            line += parts[-1].lines
    if sum(len(part.labels) for part in parts) == 0:
        raise DataError("has no documents", path=source.path)
    table = join_parts(parts, job.rules.absent, source.path)
    if table.n_features == 0:
        message = "has no features; a line reads 'label qid:ID index:value ...'"
        raise DataError(message, path=source.path)
    if strict:
        refuse_returning(table.query_ids, source)
    return table


def iter_tables(
    path: Path,
    *,
    n_features: int | None = None,
    missing: Missing = None,
    block_bytes: int = BLOCK_BYTES,
    progress: Progress | None = None,
) -> Iterator[Table]:
    """Read a file in tables of about ``block_bytes`` of text each, for files larger than memory.

    The rows are those of :func:`read_table`, in the same order. Each table is as wide as its own
    largest index unless ``n_features`` is given, and has integer query ids if its own are
    integers; lists may go on from one table to the next.
    """
    if block_bytes < 1:
        raise UsageError(f"block_bytes must be positive, got {block_bytes}.")
    source = open_source(path)
    with _job(source, n_features, missing, progress) as job:
        line, rows = 1, 0
        for block in source.blocks(block_bytes):
            part = parse_block(block, line, job)
            line += part.lines
            rows += len(part.labels)
            if len(part.labels):
                yield join_parts([part], job.rules.absent, source.path)
    if rows == 0:
        raise DataError("has no documents", path=source.path)


@contextmanager
def _job(
    source: Source, n_features: int | None, missing: Missing, progress: Progress | None
) -> Iterator[Job]:
    if missing not in (None, "nan"):
        raise UsageError(f"missing must be None or 'nan', got {missing!r}.")
    if n_features is not None and n_features < 1:
        raise UsageError(f"n_features must be positive, got {n_features}.")
    rules = Rules(n_features, 0.0 if missing is None else float("nan"))

    def advance(done: int) -> None:
        if progress is not None:
            progress(done, source.size)

    # Python threads, not Numba's: the kernels hold no lock, and several files may be read at once.
    with ThreadPoolExecutor(get_num_threads()) as executor:
        yield Job(source.path, rules, executor, advance)
