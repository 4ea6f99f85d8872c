"""A slow reader of LETOR text, written apart from the one under test: the judge of its results."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np

from plackett.base.errors import DataError
from plackett.data.inputs import Missing, Table
from plackett.data.letor import read_table

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LIMIT = Fraction(2) ** 128 - Fraction(2) ** 103  # from here up the nearest float32 is infinite


class RefusedError(Exception):
    def __init__(self, line: int | None) -> None:
        super().__init__(line)
        self.line = line


@dataclass
class Rows:
    labels: list[float] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    features: list[dict[int, float]] = field(default_factory=list)

    @property
    def width(self) -> int:
        return max((max(row, default=0) for row in self.features), default=0)

    def matrix(self, width: int, absent: float) -> np.ndarray:
        result = np.full((len(self.labels), width), absent, dtype=np.float32)
        for at, row in enumerate(self.features):
            for index, value in row.items():
                result[at, index - 1] = value
        return result


def exact(text: str) -> Fraction:
    """Value of a decimal; exponents beyond a thousand are as good as a thousand."""
    body, _, power = text.lower().partition("e")
    clamped = max(min(int(power or 0), 1000), -1000)
    return Fraction(body if body[-1] != "." else body + "0") * Fraction(10) ** clamped


@lru_cache(1 << 14)
def nearest_float32(text: str) -> float:
    """Nearest float32 by comparing the exact distances to the neighbours of a first guess."""
    value = abs(exact(text))
    sign = -1.0 if text.startswith("-") else 1.0
    if value >= _LIMIT:
        return sign * float("inf")
    guess = np.float32(min(float(value), float(np.finfo(np.float32).max)))
    with np.errstate(over="ignore"):
        neighbours = [guess, *np.nextafter(guess, np.float32([0, np.inf]))]
    finite = [x for x in neighbours if np.isfinite(x)]

    def distance(x: np.float32) -> tuple[Fraction, int]:
        return abs(Fraction(float(x)) - value), int(x.view(np.uint32)) & 1

    return sign * float(min(finite, key=distance))


def read(data: bytes, *, n_features: int | None = None, allow_nan: bool = False) -> Rows:
    rows = Rows()
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        text = line[:-1] if line.endswith(b"\r") else line
        try:
            _take(text, rows, n_features, allow_nan)
        except (ValueError, IndexError):
            raise RefusedError(number) from None
    if not rows.labels or (rows.width == 0 and n_features is None):
        raise RefusedError(None)
    return rows


def _take(line: bytes, rows: Rows, n_features: int | None, allow_nan: bool) -> None:
    _need(b"\0" not in line and b"\r" not in line)
    data, _, comment = line.partition(b"#")
    tokens = [token for token in re.split(b"[ \t]", data) if token]
    if not tokens:
        return
    label = _number(tokens[0])
    _need(label >= 0 and not exact(tokens[0].decode("latin-1")) < 0)
    name = tokens[1]
    _need(name[:4] == b"qid:" and len(name) > 4 and all(b > 32 and b != 127 for b in name))
    features: dict[int, float] = {}
    for token in tokens[2:]:
        index, colon, value = token.partition(b":")
        _need(colon == b":" and re.fullmatch(rb"[0-9]+", index) is not None)
        _need(int(index) > max(features, default=0) and int(index) <= (n_features or 10**17))
        missing = allow_nan and value.lower() in (b"nan", b"+nan", b"-nan")
        features[int(index)] = float("nan") if missing else _number(value)
    document = _document(comment)
    rows.labels.append(abs(label))
    rows.queries.append(name[4:].decode("utf-8"))
    rows.documents.append(document)
    rows.features.append(features)


def _document(comment: bytes) -> str:
    words = bytes(b if b > 32 else 32 for b in comment).split(b" ")
    words = [word for word in words if word]
    if not words:
        return ""
    joined = b" ".join(words)
    match = re.match(rb"docid ?= ?([^ ]+)", joined)
    return (match.group(1) if match else words[0]).decode("utf-8")


def _number(token: bytes) -> float:
    text = token.decode("ascii")
    _need(_NUMBER.fullmatch(text) is not None)
    value = nearest_float32(text)
    _need(np.isfinite(value))
    return value


def _need(condition: bool) -> None:
    if not condition:
        raise ValueError


def _read_or_refuse(data: bytes, n_features: int | None, allow_nan: bool) -> Rows | int | None:
    """Rows, or the number of the line that is refused."""
    try:
        return read(data, n_features=n_features, allow_nan=allow_nan)
    except RefusedError as refused:
        return refused.line


def compare(path: Path, data: bytes, missing: Missing, n_features: int | None, memory: int) -> None:
    """Check that the reader under test gives the rows of this one, or refuses the same line."""
    outcome: Table | DataError
    try:
        outcome = read_table(path, missing=missing, n_features=n_features)
    except DataError as error:
        outcome = error
    allow_nan = missing == "nan"
    rows = _read_or_refuse(data, n_features, allow_nan)
    if not isinstance(rows, Rows):
        assert isinstance(outcome, DataError)
        # The reader may stop earlier, at an index that memory cannot hold.
        assert outcome.line == rows or "would take" in str(outcome)
        return
    width = n_features or rows.width
    if len(rows.labels) * width * 4 > memory or (n_features is None and width > 1 << 16):
        assert isinstance(outcome, DataError)
        assert "would take" in str(outcome)
        return
    assert isinstance(outcome, Table), outcome
    expected = rows.matrix(width, np.nan if allow_nan else 0.0)
    np.testing.assert_array_equal(outcome.features.view(np.uint32), expected.view(np.uint32))
    assert outcome.labels.tolist() == rows.labels
    assert [str(name) for name in outcome.query_ids.tolist()] == rows.queries
    documents = None if not any(rows.documents) else rows.documents
    assert (None if outcome.document_ids is None else outcome.document_ids.tolist()) == documents
    assert outcome.full_rows == all(len(row) == width for row in rows.features)
