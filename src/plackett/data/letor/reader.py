"""Read LETOR/SVMlight text: ``label qid:ID index:value ... # comment``.

The features become one dense float32 array, each value the float32 nearest to its text. Whole
files and files larger than memory use the same parser, block by block: survey the block, allocate
arrays once, parse the pieces in parallel.

Each piece knows its first row and its first line before parsing starts, so threads share only the
arrays they fill, and the result does not depend on their number. Errors are checked in the order of
the pieces: the first error of the file is the one reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numba import get_num_threads

from plackett.base.errors import DataError, Message, UsageError
from plackett.base.memory import available_memory, format_bytes
from plackett.base.ragged import Features, Ids, Labels, Offsets, run_starts
from plackett.data.files import DEFAULT_LIMITS, ByteProgress, PathLike, ReadLimits, check_memory
from plackett.data.inputs import Missing, Table
from plackett.data.letor.blocks import Piece, TextFile, open_text
from plackett.data.letor.errors import LineError, LineRules, ParsedLine, read_line
from plackett.data.letor.parser import (
    LARGEST_INDEX,
    Survey,
    decode_strings,
    encode_indices,
    parse_any_rows,
    parse_integer,
    parse_rows,
    survey,
)

BLOCK_BYTES = 64 << 20
NO_FEATURES = "has no features; a line reads 'label qid:ID index:value ...'"


def read_table(
    path: PathLike,
    *,
    n_features: int | None = None,
    missing: Missing = None,
    strict: bool = False,
    limits: ReadLimits = DEFAULT_LIMITS,
    progress: ByteProgress | None = None,
) -> Table:
    """Read a whole file: text, text compressed as ``.gz`` or ``.xz``, or ``-`` for standard input.

    The width is ``n_features``, by default the largest index; an index above it is an error. With ``missing="nan"``
    features may be ``nan``, and those that a line leaves out are NaN; by default they are 0 and ``nan`` is an error.
    ``strict`` refuses a query id that occurs again after lines of other queries.

    Query ids are int64 if all of them are plain integers, else strings; document ids come from the comments, and are
    None if no line names one. A DataError names the first line that is wrong, and the reason.
    """
    file = open_text(path, limits)
    with _open_job(file, n_features, missing, progress) as job:
        parts, line = [], 1
        for block in file.blocks():
            parts.append(_parse_block(block, line, job))
            line += parts[-1].lines
    if sum(len(part.labels) for part in parts) == 0:
        raise DataError("has no documents", path=file.path)
    table = _join_parts(parts, job.rules.absent, file.path)
    if table.n_features == 0:
        raise DataError(NO_FEATURES, path=file.path)
    if strict:
        refuse_scattered(table.query_ids, file)
    return table


def iter_tables(
    path: PathLike,
    *,
    n_features: int | None = None,
    missing: Missing = None,
    block_bytes: int = BLOCK_BYTES,
    limits: ReadLimits = DEFAULT_LIMITS,
    progress: ByteProgress | None = None,
) -> Iterator[Table]:
    """Read a file in tables of about ``block_bytes`` of text each, for files larger than memory.

    The rows are those of :func:`read_table`, in the same order. Each table is as wide as its own
    largest index unless ``n_features`` is given, and has integer query ids if its own are
    integers; a list may continue from one table to the next.
    """
    if block_bytes < 1:
        raise UsageError(f"block_bytes must be positive, got {block_bytes}.")
    file = open_text(path, limits)
    with _open_job(file, n_features, missing, progress) as job:
        line, rows = 1, 0
        for block in file.blocks(block_bytes):
            part = _parse_block(block, line, job)
            line += part.lines
            rows += len(part.labels)
            if len(part.labels):
                yield _join_parts([part], job.rules.absent, file.path)
    if rows == 0:
        raise DataError("has no documents", path=file.path)


@dataclass
class _ReadJob:
    """One file being read: what all its blocks share."""

    file: TextFile
    rules: LineRules
    executor: Executor
    advance: Callable[[int], None]
    rows: int = 0
    """Rows of the blocks so far."""
    width: int = 0
    """Largest feature index so far."""
    text_bytes: int = 0

    @property
    def path(self) -> str:
        return self.file.path


@contextmanager
def _open_job(
    file: TextFile, n_features: int | None, missing: Missing, progress: ByteProgress | None
) -> Iterator[_ReadJob]:
    if missing not in (None, "nan"):
        raise UsageError(f"missing must be None or 'nan', got {missing!r}.")
    if n_features is not None and n_features < 1:
        raise UsageError(f"n_features must be positive, got {n_features}.")
    rules = LineRules(n_features, 0.0 if missing is None else float("nan"))

    def advance(done: int) -> None:
        if progress is not None:
            progress(done, file.size)

    # Python threads, not Numba's: the kernels release the GIL, and several files may be read at
    # once.
    with ThreadPoolExecutor(get_num_threads()) as executor:
        yield _ReadJob(file, rules, executor, advance)


@dataclass(frozen=True)
class _ParsedBlock:
    """The rows of one block."""

    features: Features
    labels: Labels
    query_ids: Ids
    document_ids: Ids | None
    full: bool
    """Whether every row lists every index up to the width."""
    lines: int


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

    def store(self, row: int, begin: int, line: ParsedLine, absent: float) -> None:
        """Store a line that the Python parser read; the line begins at ``begin``."""
        values = np.full(self.features.shape[1], absent, dtype=np.float32)
        for index, value in line.features.items():
            if index <= len(values):
                values[index - 1] = value
        self.features[row] = values
        self.labels[row] = line.label
        self.query_spans[row] = begin + line.query[0], line.query[1]
        self.document_spans[row] = begin + line.document[0], line.document[1]


@dataclass(frozen=True)
class _PieceRows:
    """One piece of text and the rows it fills."""

    piece: Piece
    first_row: int
    last_row: int
    first_line: int


def _parse_block(pieces: list[Piece], first_line: int, job: _ReadJob) -> _ParsedBlock:
    """Parse one block whose first line has the number ``first_line``."""
    surveys = list(job.executor.map(_survey, pieces))
    rows = list(accumulate((result.rows for result in surveys), initial=0))
    lines = list(accumulate((result.lines for result in surveys), initial=first_line))
    tasks = [
        _PieceRows(piece, first, last, line)
        for piece, first, last, line in zip(pieces, rows, rows[1:], lines, strict=False)
    ]
    width = job.rules.n_features or max((result.width for result in surveys), default=0)
    _check_size(tasks, surveys, width, job)
    arrays = _Arrays.empty(rows[-1], width)
    full, integers = _parse_all(tasks, arrays, width, job)
    has_documents = arrays.document_spans[:, 1].any()
    return _ParsedBlock(
        arrays.features,
        arrays.labels,
        arrays.queries if integers else _decode(tasks, arrays.query_spans, job),
        _decode(tasks, arrays.document_spans, job) if has_documents else None,
        full=full,
        lines=lines[-1] - first_line,
    )


def _survey(piece: Piece) -> Survey:
    return Survey(*survey(piece.text, piece.start, piece.stop))


def _decode(tasks: list[_PieceRows], spans: Offsets, job: _ReadJob) -> Ids:
    texts = job.executor.map(lambda task: decode_strings(task.piece.text, spans[task.first_row : task.last_row]), tasks)
    return join_ids(list(texts))


def _parse_all(tasks: list[_PieceRows], arrays: _Arrays, limit: int, job: _ReadJob) -> tuple[bool, bool]:
    """Parse all pieces; returns whether all rows are full, and all query ids integers."""
    words, sizes = encode_indices(arrays.features.shape[1])
    settings = (words, sizes, limit, np.float32(job.rules.absent))
    futures = [job.executor.submit(_parse_piece, task, arrays, settings, job) for task in tasks]
    all_full = all_integers = True
    try:
        for task, future in zip(tasks, futures, strict=True):
            full, integers = future.result()
            all_full, all_integers = all_full and full, all_integers and integers
            job.advance(task.piece.done)
    finally:
        for future in futures:
            future.cancel()
    return all_full, all_integers


def _parse_piece(task: _PieceRows, arrays: _Arrays, settings: tuple[object, ...], job: _ReadJob) -> tuple[bool, bool]:
    piece, row, at = task.piece, task.first_row, task.piece.start
    out = tuple(arrays)
    all_full = all_integers = True
    parse = parse_rows
    while at < piece.stop:
        at, row, full, integers = parse(piece.text, at, piece.stop, row, out, settings)
        all_full, all_integers = all_full and full, all_integers and integers
        if at < piece.stop and parse is parse_rows:
            parse = parse_any_rows
        elif at < piece.stop:
            text = piece.line(at)
            line = _read_line(text, task, at, job)
            arrays.store(row, at, line, job.rules.absent)
            begin, length = arrays.query_spans[row]
            arrays.queries[row], integers = parse_integer(piece.text, begin, begin + length)
            all_integers = all_integers and integers
            all_full = all_full and len(line.features) == arrays.features.shape[1]
            at, row = at + len(text), row + 1
    return all_full, all_integers


def _read_line(text: bytes, task: _PieceRows, begin: int, job: _ReadJob) -> ParsedLine:
    try:
        line = read_line(text, job.rules)
        message, column = "cannot be read", 1
    except LineError as error:
        line, message, column = None, error.message, error.column
    if line is None:
        number = task.first_line + task.piece.lines_before(begin)
        raise DataError(message, path=job.path, line=number, column=column)
    return line


def _check_size(tasks: list[_PieceRows], surveys: list[Survey], width: int, job: _ReadJob) -> None:
    """Refuse a matrix that is out of proportion to the text, or that does not fit in memory.

    An error in an earlier line is reported instead.
    """
    rows = tasks[-1].last_row if tasks else 0
    job.rows, job.width = job.rows + rows, max(job.width, width)
    job.text_bytes += sum(task.piece.stop - task.piece.start for task in tasks)
    reason = None
    if job.rules.n_features is None:
        text_bytes = max(job.text_bytes, job.file.size)
        reason = job.file.limits.excess_width(job.rows, job.width, text_bytes)
    needed, free = 4 * rows * width, available_memory()
    if reason is None and needed > free:
        size = f"{rows} rows of {width} features would take {format_bytes(needed)} of memory"
        if job.rules.n_features is not None:
            raise DataError(f"{size}; {format_bytes(free)} is free", path=job.path)
        reason = Message(f"means that {size}, and {format_bytes(free)} is free")
    if reason is None:
        return
    widest = max(range(len(surveys)), key=lambda i: surveys[i].width)
    line = tasks[widest].first_line + surveys[widest].widest
    try:
        _parse_all(tasks, _Arrays.empty(rows, 0), LARGEST_INDEX, job)
    except DataError as error:
        if error.line is not None and error.line <= line:
            raise
    raise DataError(Message(f"feature index {job.width} ", reason), path=job.path, line=line)


def _join_parts(parts: list[_ParsedBlock], absent: float, path: str) -> Table:
    """Join the blocks of a file; ``parts`` is emptied to free memory.

    Blocks that are narrower than the widest are filled with ``absent``.
    """
    parts[:] = [part for part in parts if len(part.labels)]
    width = max((part.features.shape[1] for part in parts), default=0)
    full = all(part.full and part.features.shape[1] == width for part in parts)
    labels = np.concatenate([part.labels for part in parts])
    queries = join_ids([part.query_ids for part in parts])
    sizes = [len(part.labels) for part in parts]
    documents = join_document_ids([part.document_ids for part in parts], sizes)
    features = _join_features(parts, width, absent, path)
    return Table(features, labels, queries, documents, source=path, full_rows=full)


def join_ids(parts: Sequence[Ids]) -> Ids:
    """One array of ids; integers become text if any part is text."""
    if all(part.dtype.kind == "i" for part in parts):
        return np.concatenate(parts)
    return np.concatenate([part.astype(str) if part.dtype.kind == "i" else part for part in parts])


def join_document_ids(parts: Sequence[Ids | None], sizes: Sequence[int]) -> Ids | None:
    """One array of document ids, empty where a part has none; None if all parts have none."""
    if all(ids is None for ids in parts):
        return None
    pairs = zip(parts, sizes, strict=True)
    return join_ids([np.zeros(size, "U1") if ids is None else ids for ids, size in pairs])


def _join_features(parts: list[_ParsedBlock], width: int, absent: float, path: str) -> Features:
    if len(parts) == 1:
        return parts[0].features
    added = sum(len(part.labels) * (width - part.features.shape[1]) for part in parts)
    check_memory(added, 1, path)
    # A new array takes up memory only as it is written, and each part is freed once copied: there
    # are never two whole matrices.
    features = np.empty((sum(len(part.labels) for part in parts), width), dtype=np.float32)
    start = 0
    parts.reverse()
    while parts:
        part = parts.pop()
        rows = features[start : start + len(part.labels)]
        rows[:, : part.features.shape[1]] = part.features
        rows[:, part.features.shape[1] :] = absent
        start += len(rows)
    return features


def refuse_scattered(query_ids: Ids, file: TextFile) -> None:
    """Raise if a query id occurs again after lines of other queries."""
    starts = run_starts(query_ids)
    again = np.ones(len(starts), dtype=bool)
    again[np.unique(query_ids[starts], return_index=True)[1]] = False
    if again.any():
        row = int(starts[np.argmax(again)])
        message = (
            f"query id {query_ids[row]} occurs again after lines of other queries; "
            "sort the file by query, or read it without strict"
        )
        line = _find_line(row, file) if file.regular else None
        raise DataError(message, path=file.path, line=line)


def _find_line(row: int, file: TextFile) -> int:
    """Number of the line, counted from 1, that holds a row; reads the file once more."""
    before = 1
    for block in file.blocks():
        for piece in block:
            lines, rows, _, _ = survey(piece.text, piece.start, piece.stop)
            if row < rows:
                text = piece.text[piece.start : piece.stop].tobytes()
                data = [line.partition(b"#")[0].strip() for line in text.split(b"\n")]
                return before + int(np.flatnonzero(np.array([len(d) for d in data]))[row])
            before, row = before + lines, row - rows
    raise DataError("changed while it was read", path=file.path)
