"""Reading LETOR/SVMlight text: ``label qid:ID index:value ... # comment``.

The features come as one dense float32 array, each value the float32 nearest to its text. Whole
files and files larger than memory go through the same parser, block by block.

A block of text to arrays: survey, allocate once, parse the pieces in parallel.

Each piece knows its first row and its first line before parsing starts, so threads share nothing
but the arrays they fill, and the result does not depend on their number. Errors are looked at in
the order of the pieces: the first error of the file is the one reported.

Blocks of one file to one table.

Query ids that come back: lists whose lines do not stand together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numba import get_num_threads

from plackett.base.errors import DataError, UsageError
from plackett.base.memory import available_memory, format_bytes
from plackett.base.ragged import Features, Ids, Labels, Offsets
from plackett.data.dataset import Table
from plackett.data.letor.blocks import Piece, Source, open_source
from plackett.data.letor.errors import LineError, Row, Rules, read_line
from plackett.data.letor.parser import (
    LARGEST_INDEX,
    Survey,
    integer,
    join,
    parse_rows,
    spellings,
    strings,
    survey,
)


@dataclass(frozen=True)
class Part:
    """What one block holds."""

    features: Features
    labels: Labels
    query_ids: Ids
    document_ids: Ids | None
    full: bool
    """Whether every row lists every index up to the width."""
    lines: int


@dataclass(frozen=True)
class Job:
    """One file being read: what all its blocks share."""

    path: str
    rules: Rules
    executor: Executor
    advance: Callable[[int], None]


class _Arrays(NamedTuple):
    features: Features
    labels: Labels
    queries: Offsets
    query_spans: Offsets
    document_spans: Offsets

    @staticmethod
    def empty(rows: int, width: int) -> _Arrays:
        return _Arrays(
            np.empty((rows, width), np.float32),
            np.empty(rows, np.float32),
            np.empty(rows, np.int64),
            np.empty((rows, 2), np.int64),
            np.empty((rows, 2), np.int64),
        )

    def store(self, at: int, begin: int, row: Row, absent: float) -> None:
        """Store one row that :mod:`.careful` read from the line that begins at ``begin``."""
        values = np.full(self.features.shape[1], absent, dtype=np.float32)
        for index, value in row.features.items():
            if index <= len(values):
                values[index - 1] = value
        self.features[at] = values
        self.labels[at] = row.label
        self.query_spans[at] = begin + row.query[0], row.query[1]
        self.document_spans[at] = begin + row.document[0], row.document[1]


@dataclass(frozen=True)
class _Task:
    """One piece, and where its rows go."""

    piece: Piece
    first_row: int
    last_row: int
    first_line: int


def parse_block(pieces: list[Piece], first_line: int, job: Job) -> Part:
    """Parse one block whose first line has the number ``first_line``."""
    surveys = list(job.executor.map(_survey, pieces))
    rows = list(accumulate((found.rows for found in surveys), initial=0))
    lines = list(accumulate((found.lines for found in surveys), initial=first_line))
    tasks = [_Task(p, a, b, n) for p, a, b, n in zip(pieces, rows, rows[1:], lines, strict=False)]
    width = job.rules.n_features or max((found.width for found in surveys), default=0)
    _check_size(tasks, surveys, width, job)
    arrays = _Arrays.empty(rows[-1], width)
    flags = _parse_all(tasks, arrays, width, job)
    return Part(
        arrays.features,
        arrays.labels,
        arrays.queries if flags[1] else _strings(tasks, arrays.query_spans, job),
        _strings(tasks, arrays.document_spans, job) if arrays.document_spans[:, 1].any() else None,
        full=flags[0],
        lines=lines[-1] - first_line,
    )


def _survey(piece: Piece) -> Survey:
    return Survey(*survey(piece.text, piece.start, piece.stop))


def _strings(tasks: list[_Task], spans: Offsets, job: Job) -> Ids:
    texts = job.executor.map(
        lambda task: strings(task.piece.text, spans[task.first_row : task.last_row]), tasks
    )
    return join(list(texts))


def _parse_all(tasks: list[_Task], arrays: _Arrays, limit: int, job: Job) -> tuple[bool, bool]:
    """Whether all rows are full, and all query ids integers."""
    words, sizes = spellings(arrays.features.shape[1])
    settings = (words, sizes, limit, np.float32(job.rules.absent))
    futures = [job.executor.submit(_parse, task, arrays, settings, job) for task in tasks]
    full = integers = True
    try:
        for task, future in zip(tasks, futures, strict=True):
            whole, known = future.result()
            full, integers = full and whole, integers and known
            job.advance(task.piece.done)
    finally:
        for future in futures:
            future.cancel()
    return full, integers


def _parse(
    task: _Task, arrays: _Arrays, settings: tuple[object, ...], job: Job
) -> tuple[bool, bool]:
    piece, row, at = task.piece, task.first_row, task.piece.start
    out = tuple(arrays)
    full = integers = True
    while at < piece.stop:
        at, row, whole, known = parse_rows(piece.text, at, piece.stop, row, out, settings)
        full, integers = full and whole, integers and known
        if at < piece.stop:
            line = piece.line(at)
            parsed = _read_line(line, task, at, job)
            arrays.store(row, at, parsed, job.rules.absent)
            begin, length = arrays.query_spans[row]
            arrays.queries[row], known = integer(piece.text, begin, begin + length)
            integers = integers and known
            full = full and len(parsed.features) == arrays.features.shape[1]
            at, row = at + len(line), row + 1
    return full, integers


def _read_line(line: bytes, task: _Task, begin: int, job: Job) -> Row:
    try:
        row = read_line(line, job.rules)
        message, column = "cannot be read", 1
    except LineError as error:
        row, message, column = None, error.message, error.column
    if row is None:
        number = task.first_line + task.piece.lines_before(begin)
        raise DataError(message, path=job.path, line=number, column=column)
    return row


def _check_size(tasks: list[_Task], surveys: list[Survey], width: int, job: Job) -> None:
    """Refuse a matrix that memory cannot hold, unless an error comes before the index at fault."""
    rows = tasks[-1].last_row if tasks else 0
    needed = 4 * rows * width
    if needed <= available_memory():
        return
    size = f"{rows} rows of {width} features would take {format_bytes(needed)} of memory"
    if job.rules.n_features is not None:
        raise DataError(f"{size}; {format_bytes(available_memory())} is free", path=job.path)
    at = max(range(len(surveys)), key=lambda i: surveys[i].width)
    line = tasks[at].first_line + surveys[at].widest
    try:
        _parse_all(tasks, _Arrays.empty(rows, 0), LARGEST_INDEX, job)
    except DataError as error:
        if error.line is not None and error.line <= line:
            raise
    message = f"feature index {width}: {size}, {format_bytes(available_memory())} is free"
    raise DataError(message, path=job.path, line=line)


def join_parts(parts: list[Part], absent: float, path: str) -> Table:
    """Join the parts of a file, which are emptied: ``parts`` is used up.

    Parts that are narrower than the widest are filled with ``absent``.
    """
    parts[:] = [part for part in parts if len(part.labels)]
    width = max((part.features.shape[1] for part in parts), default=0)
    full = all(part.full and part.features.shape[1] == width for part in parts)
    labels = np.concatenate([part.labels for part in parts])
    queries = join([part.query_ids for part in parts])
    documents = _documents(parts)
    features = _features(parts, width, absent)
    return Table(features, labels, queries, documents, source=path, full_rows=full)


def _documents(parts: list[Part]) -> Ids | None:
    if all(part.document_ids is None for part in parts):
        return None
    missing = [np.zeros(len(part.labels), dtype="U1") for part in parts]
    given = [part.document_ids for part in parts]
    return join([m if g is None else g for g, m in zip(given, missing, strict=True)])


def _features(parts: list[Part], width: int, absent: float) -> Features:
    if len(parts) == 1:
        return parts[0].features
    # A fresh array takes up memory only as it is written, and each part is let go once copied:
    # at no time are there two whole matrices.
    features = np.empty((sum(len(part.labels) for part in parts), width), dtype=np.float32)
    at = 0
    parts.reverse()
    while parts:
        part = parts.pop()
        rows = features[at : at + len(part.labels)]
        rows[:, : part.features.shape[1]] = part.features
        rows[:, part.features.shape[1] :] = absent
        at += len(rows)
    return features


def refuse_returning(query_ids: Ids, source: Source) -> None:
    """Raise if a query id occurs again after lines of other queries."""
    starts = np.concatenate([[0], np.flatnonzero(query_ids[1:] != query_ids[:-1]) + 1])
    again = np.ones(len(starts), dtype=bool)
    again[np.unique(query_ids[starts], return_index=True)[1]] = False
    if again.any():
        row = int(starts[np.argmax(again)])
        message = (
            f"query id {query_ids[row]} comes back after lines of other queries; "
            "sort the file by query, or read it without strict"
        )
        line = _line_of(row, source) if source.regular else None
        raise DataError(message, path=source.path, line=line)


def _line_of(row: int, source: Source) -> int:
    """Find the line that holds a row, counted from 1; the file is gone through once more."""
    before = 1
    for block in source.blocks():
        for piece in block:
            lines, rows, _, _ = survey(piece.text, piece.start, piece.stop)
            if row < rows:
                text = piece.text[piece.start : piece.stop].tobytes()
                data = [line.partition(b"#")[0].strip() for line in text.split(b"\n")]
                return before + int(np.flatnonzero(np.array([len(d) for d in data]))[row])
            before, row = before + lines, row - rows
    raise DataError("changed while it was read", path=source.path)


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
