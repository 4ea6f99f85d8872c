"""Judgements (qrels) and runs in the formats of TREC.

========  ==============================================  ==========================
file      a line                                          for example
========  ==============================================  ==========================
qrels     ``query iteration document label``              ``301 0 FR940202-2-00150 1``
run       ``query Q0 document rank score tag``            ``301 Q0 FR940202-2-00150 1 3.7 bm25``
========  ==============================================  ==========================

As in trec_eval, the iteration, the word Q0 and the rank are read over: the score alone ranks.
"""

from __future__ import annotations

import gzip
import lzma
import math
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO, cast

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.ragged import Ids, Offsets, from_sizes

_QRELS = ("query", "iteration", "document", "label")
_RUN = ("query", "Q0", "document", "rank", "score", "tag")
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
_CORRUPT = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
_BEYOND = 2.0**128 - 2.0**103  # from here up the nearest float32 is infinite


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(Mapping[str, dict[str, float]]):
    """A value for each (query, document) of a file: labels of qrels, scores of a run.

    A mapping ``{query: {document: value}}`` in the order of the file, kept as arrays.
    """

    queries: Ids
    offsets: Offsets
    documents: Ids
    numbers: NDArray[np.float64]
    source: str

    @cached_property
    def _places(self) -> dict[str, int]:
        return {query: at for at, query in enumerate(self.queries.tolist())}

    def __getitem__(self, query: str) -> dict[str, float]:
        at = self._places[query]
        rows = slice(self.offsets[at], self.offsets[at + 1])
        return dict(zip(self.documents[rows].tolist(), self.numbers[rows].tolist(), strict=True))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        return f"Pairs({self.source}: {len(self):,} queries, {len(self.numbers):,} documents)"


def read_qrels(path: str | os.PathLike[str]) -> Pairs:
    """Read judgements; labels are real numbers, and may be negative (judged, and junk)."""
    return _read(Path(path), _QRELS, "label")


def read_run(path: str | os.PathLike[str]) -> Pairs:
    """Read a run: the scores of the documents retrieved for each query."""
    return _read(Path(path), _RUN, "score")


def is_run(path: str | os.PathLike[str]) -> bool:
    """Whether the first line of a file that is not blank has the six columns of a run."""
    try:
        with _open(Path(path)) as lines:
            first = next((line for line in lines if line.strip()), "")
    except _CORRUPT as error:
        raise DataError(f"corrupt or cut-off file: {error}", path=str(path)) from error
    except OSError:
        return False
    return len(first.split()) == len(_RUN) and "\0" not in first  # NUL: an array, not text


def _open(path: Path) -> TextIO:
    # Bytes that are not UTF-8 come through, marked, so that the line they are in can be named.
    opener = _OPENERS.get(path.suffix.lower(), open)
    return cast(TextIO, opener(path, "rt", encoding="utf-8-sig", errors="surrogateescape"))


def _read(path: Path, columns: tuple[str, ...], what: str) -> Pairs:
    groups: dict[str, dict[str, float]] = {}
    number = 1
    try:
        with _open(path) as lines:
            for line in lines:
                _check_text(line)
                if fields := line.split():
                    _add(groups, fields, columns, what)
                number += 1
    except DataError as error:
        raise DataError(error.message, path=str(path), line=number) from error
    except _CORRUPT as error:
        raise DataError(f"corrupt or cut-off file: {error}", path=str(path)) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error}", path=str(path)) from error
    if not groups:
        raise DataError(f"has no lines; a line reads '{' '.join(columns)}'", path=str(path))
    return Pairs(
        queries=np.array(list(groups)),
        offsets=from_sizes([len(group) for group in groups.values()]),
        documents=np.array([document for group in groups.values() for document in group]),
        numbers=np.array([value for group in groups.values() for value in group.values()]),
        source=str(path),
    )


def _check_text(line: str) -> None:
    if "\0" in line:
        raise DataError("NUL byte; the file is not text")
    if not line.isascii():
        try:
            line.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError("the text is not UTF-8") from None


def _number(text: str, what: str) -> float:
    value: float | None
    try:
        value = float(text)
    except ValueError:
        value = None
    # Python also reads 1_0 and the digits of other scripts.
    if value is None or "_" in text or not text.isascii():
        raise DataError(f"{what} {text!r} is not a number")
    if not math.isfinite(value):
        raise DataError(f"{what} {text}; a {what} is a finite number")
    if what == "label" and abs(value) >= _BEYOND:
        raise DataError(f"label {text} is beyond float32 (3.4028235e38)")
    return value


def _add(
    groups: dict[str, dict[str, float]], fields: list[str], columns: tuple[str, ...], what: str
) -> None:
    if len(fields) != len(columns):
        raise DataError(
            f"{len(fields)} columns; a line has the {len(columns)} columns '{' '.join(columns)}'"
        )
    query, document = fields[0], fields[2]
    value = _number(fields[columns.index(what)], what)
    group = groups.setdefault(query, {})
    if document in group:
        raise DataError(f"document {document!r} of query {query!r} occurs a second time")
    group[document] = value
