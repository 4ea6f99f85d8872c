"""Read LETOR/SVMlight text: ``label qid:ID index:value ... # comment``.

The features become one dense float32 array, each value the float32 nearest to its text. A file is read block by block:
survey the block, allocate arrays once, parse the pieces in parallel. The result does not depend on the number of
threads, and the error reported is the first one of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from plackett.data.letor import parser
from plackett.data.letor.blocks import Piece, TextFile, open_text
from plackett.data.letor.errors import LineError, LineRules, ParsedLine, read_line

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
    features may be ``nan``, and those that a line omits are NaN; by default they are 0 and ``nan`` is an error.
    With ``strict``, a query id that occurs again after lines of other queries is an error.

    Query ids are int64 if all of them are plain integers, else strings; document ids come from the comments, and are
    None if no line names one. A DataError names the first line that is wrong, and the reason.
    """
    file = open_text(path, limits)
    with _open_job(file, n_features, missing, progress) as job:
        parts = [_parse_block(block, job) for block in file.blocks()]
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
        for block in file.blocks(block_bytes):
            table = _parse_block(block, job)
            if table.n_docs:
                yield table


@dataclass
class _ReadJob:
    """The state of a file being read that all its blocks share."""

    file: TextFile
    rules: LineRules
    executor: Executor
    progress: ByteProgress | None
    line: int = 1
    """Number of the first line of the next block."""
    rows: int = 0
    """Rows of the blocks so far."""
    width: int = 0
    """Largest feature index so far."""
    text_bytes: int = 0


@contextmanager
def _open_job(
    file: TextFile, n_features: int | None, missing: Missing, progress: ByteProgress | None
) -> Iterator[_ReadJob]:
    if missing not in (None, "nan"):
        raise UsageError(f"missing must be None or 'nan', got {missing!r}.")
    if n_features is not None and n_features < 1:
        raise UsageError(f"n_features must be positive, got {n_features}.")
    rules = LineRules(n_features, 0.0 if missing is None else float("nan"))
    # Python threads, not Numba's: the kernels release the GIL, and several files may be read at once.
    with ThreadPoolExecutor(get_num_threads()) as executor:
        job = _ReadJob(file, rules, executor, progress)
        yield job
    if job.rows == 0:
        raise DataError("has no documents", path=file.path)


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


def _parse_block(pieces: list[Piece], job: _ReadJob) -> Table:
    """Parse one block."""
    surveys = [
        parser.Survey(*counts) for counts in job.executor.map(lambda p: parser.survey(p.text, p.start, p.stop), pieces)
    ]
    rows = list(accumulate((result.rows for result in surveys), initial=0))
    lines = list(accumulate((result.lines for result in surveys), initial=job.line))
    tasks = [_PieceRows(*task) for task in zip(pieces, rows, rows[1:], lines, strict=False)]
    job.line = lines[-1]
    width = job.rules.n_features or max((result.width for result in surveys), default=0)
    _check_size(tasks, surveys, width, job)
    arrays = _Arrays.empty(rows[-1], width)
    full, integers = _parse_all(tasks, arrays, width, job)
    queries = arrays.queries if integers else _decode(tasks, arrays.query_spans, job)
    has_documents = arrays.document_spans[:, 1].any()
    documents = _decode(tasks, arrays.document_spans, job) if has_documents else None
    return Table(arrays.features, arrays.labels, queries, documents, source=job.file.path, full_rows=full)


def _decode(tasks: list[_PieceRows], spans: Offsets, job: _ReadJob) -> Ids:
    texts = job.executor.map(
        lambda task: parser.decode_strings(task.piece.text, spans[task.first_row : task.last_row]), tasks
    )
    return _join_ids(list(texts))


def _parse_all(tasks: list[_PieceRows], arrays: _Arrays, limit: int, job: _ReadJob) -> tuple[bool, bool]:
    """Parse all pieces; returns whether all rows are full, and all query ids integers."""
    words, sizes = parser.encode_indices(arrays.features.shape[1])
    settings = (words, sizes, limit, np.float32(job.rules.absent))
    futures = [job.executor.submit(_parse_piece, task, arrays, settings, job) for task in tasks]
    all_full = all_integers = True
    try:
        for task, future in zip(tasks, futures, strict=True):
            full, integers = future.result()
            all_full, all_integers = all_full and full, all_integers and integers
            if job.progress is not None:
                job.progress(task.piece.done, job.file.size)
    finally:
        for future in futures:
            future.cancel()
    return all_full, all_integers


def _parse_piece(task: _PieceRows, arrays: _Arrays, settings: tuple[object, ...], job: _ReadJob) -> tuple[bool, bool]:
    piece, row, at = task.piece, task.first_row, task.piece.start
    out = tuple(arrays)
    all_full = all_integers = True
    parse = parser.parse_rows
    while at < piece.stop:
        at, row, full, integers = parse(piece.text, at, piece.stop, row, out, settings)
        all_full, all_integers = all_full and full, all_integers and integers
        if at < piece.stop and parse is parser.parse_rows:
            parse = parser.parse_any_rows
        elif at < piece.stop:
            text = piece.line(at)
            try:
                line = read_line(text, job.rules)
                if line is None:
                    raise LineError("cannot be read", 1)
            except LineError as error:
                number = task.first_line + piece.lines_before(at)
                raise DataError(error.message, path=job.file.path, line=number, column=error.column) from None
            arrays.store(row, at, line, job.rules.absent)
            begin, length = arrays.query_spans[row]
            arrays.queries[row], integers = parser.parse_integer(piece.text, begin, begin + length)
            all_integers = all_integers and integers
            all_full = all_full and len(line.features) == arrays.features.shape[1]
            at, row = at + len(text), row + 1
    return all_full, all_integers


def _check_size(tasks: list[_PieceRows], surveys: list[parser.Survey], width: int, job: _ReadJob) -> None:
    """Raise DataError for a matrix that is out of proportion to the text, or that does not fit in memory.

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
            raise DataError(f"{size}; {format_bytes(free)} is free", path=job.file.path)
        reason = Message(f"means that {size}, and {format_bytes(free)} is free")
    if reason is None:
        return
    widest = max(range(len(surveys)), key=lambda i: surveys[i].width)
    line = tasks[widest].first_line + surveys[widest].widest
    try:
        _parse_all(tasks, _Arrays.empty(rows, 0), parser.LARGEST_INDEX, job)
    except DataError as error:
        if error.line is not None and error.line <= line:
            raise
    raise DataError(Message(f"feature index {job.width} ", reason), path=job.file.path, line=line)


def _join_parts(parts: list[Table], absent: float, path: str) -> Table:
    """Join the blocks of a file, and fill narrow ones with ``absent``; ``parts`` is emptied to free memory."""
    parts[:] = [part for part in parts if part.n_docs]
    if len(parts) == 1:
        return parts[0]
    width = max(part.n_features for part in parts)
    check_memory(sum(part.n_docs * (width - part.n_features) for part in parts), 1, path)
    table = join_columns(parts, np.empty((sum(part.n_docs for part in parts), width), np.float32), path)
    # A new array uses memory only as it is written, and each part is freed once copied, so there are
    # never two whole matrices in memory.
    start = 0
    parts.reverse()
    while parts:
        part = parts.pop()
        rows = table.features[start : start + part.n_docs]
        rows[:, : part.n_features] = np.asarray(part.features)
        rows[:, part.n_features :] = absent
        start += part.n_docs
    return table


def join_columns(parts: Sequence[Table], features: Features, path: str) -> Table:
    """One table of the rows of all parts, with these features."""
    full = all(part.full_rows and part.n_features == features.shape[1] for part in parts)
    documents: Ids | None = None
    if any(part.document_ids is not None for part in parts):  # those of a part without any are empty
        documents = _join_ids([np.zeros(p.n_docs, "U1") if p.document_ids is None else p.document_ids for p in parts])
    queries = _join_ids([part.query_ids for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    return Table(features, labels, queries, documents, source=path, full_rows=full)


def _join_ids(parts: Sequence[Ids]) -> Ids:
    """One array of ids; integers become text if any part is text."""
    if all(part.dtype.kind == "i" for part in parts):
        return np.concatenate(parts)
    return np.concatenate([part.astype(str) if part.dtype.kind == "i" else part for part in parts])


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
            lines, rows, _, _ = parser.survey(piece.text, piece.start, piece.stop)
            if row < rows:
                text = piece.text[piece.start : piece.stop].tobytes()
                data = [line.partition(b"#")[0].strip() for line in text.split(b"\n")]
                return before + int(np.flatnonzero(np.array([len(d) for d in data]))[row])
            before, row = before + lines, row - rows
    raise DataError("changed while it was read", path=file.path)
