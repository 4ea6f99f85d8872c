"""A block of text to arrays: survey, allocate once, parse the pieces in parallel.

Each piece knows its first row and its first line before parsing starts, so threads share nothing
but the arrays they fill, and the result does not depend on their number. Errors are looked at in
the order of the pieces: the first error of the file is the one reported.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from plackett.base.errors import DataError
from plackett.base.memory import available_memory, spelled
from plackett.base.ragged import Features, Ids, Labels, Offsets
from plackett.data.letor.blocks import Piece
from plackett.data.letor.careful import LineError, Row, Rules, read_line
from plackett.data.letor.ids import integer, join, strings
from plackett.data.letor.rows import parse_rows, spellings
from plackett.data.letor.survey import LARGEST_INDEX, Survey, survey


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
    size = f"{rows} rows of {width} features would take {spelled(needed)} of memory"
    if job.rules.n_features is not None:
        raise DataError(f"{size}; {spelled(available_memory())} is free", path=job.path)
    at = max(range(len(surveys)), key=lambda i: surveys[i].width)
    line = tasks[at].first_line + surveys[at].widest
    try:
        _parse_all(tasks, _Arrays.empty(rows, 0), LARGEST_INDEX, job)
    except DataError as error:
        if error.line is not None and error.line <= line:
            raise
    message = f"feature index {width}: {size}, {spelled(available_memory())} is free"
    raise DataError(message, path=job.path, line=line)
