"""Parse a line in Python that the compiled parser rejects because it needs exact arithmetic or is wrong.

A :class:`LineError` says what was found, where, and what is allowed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from plackett.base.decimals import exact_float32
from plackett.base.errors import Message, Parameter
from plackett.data.letor.parser import LARGEST_INDEX

_TOKEN = re.compile(rb"[^ \t]+")
_SPACES = rb"[\x01-\x20]*"
_DOCID = re.compile(_SPACES + rb"docid" + _SPACES + rb"=" + _SPACES + rb"([^\x00-\x20]+)")
_FIRST_WORD = re.compile(_SPACES + rb"([^\x00-\x20]*)")
_NAN = re.compile(r"[+-]?nan", re.IGNORECASE)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_CONTROL = re.compile(rb"[\x00-\x20\x7f]")
_FORM = "a line reads 'label qid:ID index:value ... # comment'"
_LONGEST = 40


class LineError(Exception):
    """An error in a line, with its column, counted from 1."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.column = column


@dataclass(frozen=True)
class LineRules:
    """What the lines of a file may contain."""

    n_features: int | None = None
    """Largest index allowed."""
    absent: float = 0.0
    """Value of an index that a line omits; NaN also allows ``nan`` in the text."""


@dataclass(frozen=True)
class ParsedLine:
    """One document; ids are given by their begin and length within the line."""

    label: float
    query: tuple[int, int]
    document: tuple[int, int]
    features: dict[int, float]


def quote(token: bytes) -> str:
    r"""Quote a token for a message: printable, and not too long.

    >>> quote(b"a" * 100), quote(bytes([0x61, 0]))
    ("'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...'", "'a\\x00'")
    """
    text = token[: 4 * _LONGEST].decode("utf-8", errors="backslashreplace")
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f"'{text}'" if len(text) <= _LONGEST else f"'{text[: _LONGEST - 3]}...'"


def read_line(line: bytes, rules: LineRules) -> ParsedLine | None:
    """Parse a line with its newline; None if it holds only blanks or a comment."""
    content = line.removesuffix(b"\n").removesuffix(b"\r")
    if (lone := content.find(b"\r")) >= 0:
        # Checked first: the rest was meant as another line, so other messages would be misleading.
        raise LineError("CR without LF; lines must end in LF or CRLF", lone + 1)
    data, _, comment = content.partition(b"#")
    tokens = [(match.group(), match.start() + 1) for match in _TOKEN.finditer(data)]
    row = None
    if tokens:
        label = _label(*tokens[0])
        begin = _query(tokens) - 1
        features = dict(_features(tokens[2:], rules))
        document = _document(comment, len(data) + 1)
        row = ParsedLine(label, (begin, len(tokens[1][0]) - len("qid:")), document, features)
    if (nul := content.find(b"\0")) >= 0:
        raise LineError("NUL byte in a comment; the file is not text", nul + 1)
    return row


def _label(token: bytes, column: int) -> float:
    text = token.decode("latin-1")
    allowed = "labels are numbers from 0 up"
    if _NAN.fullmatch(text) or _INFINITE.fullmatch(text):
        raise LineError(f"label {quote(token)}; {allowed}", column)
    value = exact_float32(text)
    if value is None:
        what = "" if b":" not in token else f"; {_FORM}"
        raise LineError(f"label {quote(token)} is not a number{what or '; ' + allowed}", column)
    if text[0] == "-" and re.search("[1-9]", re.split("[eE]", text)[0]):
        raise LineError(f"negative label {quote(token)}; {allowed}", column)
    if np.isinf(value):
        raise LineError(f"label {quote(token)} is too large for a float32", column)
    return abs(float(value))


def _query(tokens: list[tuple[bytes, int]]) -> int:
    """Check the query id; returns the column where it begins, after ``qid:``."""
    if len(tokens) == 1:
        raise LineError(f"the line ends after the label; {_FORM}", tokens[0][1])
    token, column = tokens[1]
    if not token.startswith(b"qid:"):
        for later, later_column in tokens[2:]:
            if later.startswith(b"qid:"):
                message = f"query id {quote(later)} after features; it belongs after the label"
                raise LineError(message, later_column)
        raise LineError(f"no query id: found {quote(token)} where 'qid:ID' belongs", column)
    name = token.removeprefix(b"qid:")
    if not name:
        raise LineError(f"empty query id; {_FORM}", column)
    if _CONTROL.search(name):
        raise LineError(f"query id {quote(name)} holds a control character", column)
    _check_text(name, column, "query id")
    return column + len("qid:")


def _check_text(name: bytes, column: int, what: str) -> None:
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        raise LineError(f"{what} {quote(name)} is not UTF-8", column) from None


def _document(comment: bytes, begin: int) -> tuple[int, int]:
    match = _DOCID.match(comment) or _FIRST_WORD.match(comment)
    if match is None or b"\0" in comment:
        return begin, 0
    _check_text(match.group(1), begin + match.start(1) + 1, "document id")
    return begin + match.start(1), len(match.group(1))


def _features(tokens: list[tuple[bytes, int]], rules: LineRules) -> Iterator[tuple[int, float]]:
    previous = 0
    for token, column in tokens:
        name, colon, text = token.partition(b":")
        if not colon:
            raise LineError(f"{quote(token)} is not a feature; features read index:value", column)
        if name == b"qid":
            raise LineError(f"second query id {quote(token)}; a line has one", column)
        index = _index(name, column, previous, rules)
        yield index, _value(text, column + len(name) + 1, index, rules)
        previous = index


def _index(name: bytes, column: int, previous: int, rules: LineRules) -> int:
    if re.fullmatch(rb"[0-9]+", name) is None:
        message = f"feature index {quote(name)} is not a whole number; indices start at 1"
        raise LineError(message, column)
    digits = name.lstrip(b"0")
    if not digits:
        raise LineError("feature index 0; indices start at 1", column)
    if len(digits) > len(str(LARGEST_INDEX)) or int(digits) > LARGEST_INDEX:
        raise LineError(f"feature index {quote(digits)} is too large", column)
    index = int(digits)
    if index == previous:
        raise LineError(f"feature index {index} twice; a line names each index once", column)
    if index < previous:
        raise LineError(f"feature index {index} after {previous}; indices must rise", column)
    if rules.n_features is not None and index > rules.n_features:
        limit = Parameter("n_features", rules.n_features)
        raise LineError(Message(f"feature index {index} above ", limit), column)
    return index


def _value(token: bytes, column: int, index: int, rules: LineRules) -> float:
    text = token.decode("latin-1")
    if not text:
        raise LineError(f"feature {index} has no value after the colon", column)
    if _NAN.fullmatch(text):
        if np.isnan(rules.absent):
            return float("nan")
        remedy = (Parameter("missing", "nan"), " allows missing values")
        raise LineError(Message(f"feature {index} is {quote(token)}; ", *remedy), column)
    if _INFINITE.fullmatch(text):
        raise LineError(f"feature {index} is {quote(token)}; values must be finite", column)
    value = exact_float32(text)
    if value is None:
        raise LineError(f"value {quote(token)} of feature {index} is not a number", column)
    if np.isinf(value):
        message = f"value {quote(token)} of feature {index} is beyond float32 (3.4028235e38)"
        raise LineError(message, column)
    return float(value)
