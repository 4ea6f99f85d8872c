"""Parse JSON bodies directly into an array, without a Python object per number.

A body of 100 documents with 136 features has 13,600 numbers. A general parser makes an object of each, under the
interpreter's lock, before NumPy can use them. Here compiled code reads the text once and writes float32 numbers
directly to their positions, with the lock released: 1.6 times the requests per second of msgspec
(``benchmarks/serving.py``). It handles well-formed bodies only and gives up on anything else: unusual escapes in names,
unknown or repeated names, wrong lengths, broken JSON. :mod:`plackett.serving.server.requests` then parses the body
again and finds the reason.

Clients name features in the same order in every document, so the feature after the last one is tried first, and the
hash table of names is seldom needed. Every text ends in :data:`END`, so no loop reads beyond it.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numba import uint64
from numpy.typing import NDArray

from plackett.base import decimals
from plackett.base.kernels import compiled
from plackett.base.ragged import Features, Offsets, offsets_from_sizes
from plackett.serving.server.schemas import Absent, Id, RequestIds, Top
from plackett.serving.server.settings import Limits

_START, _PRIME = 0xCBF29CE484222325, 0x100000001B3  # of the hash FNV-1a, 64 bits
_QUOTE, _BACKSLASH = 34, 92


@dataclass(frozen=True, eq=False)
class Lists:
    """Lists of documents in the order of the request."""

    features: Features
    """float32, one row per document; NaN is missing, nothing is infinite."""
    offsets: Offsets
    ids: tuple[list[Id] | None, ...]
    """The client's ids of the documents of each list, if any."""
    top: int | None = None
    """How many documents of each list the order contains."""
    is_single: bool = True
    """The request had one list, not a batch of one."""

    @property
    def n_lists(self) -> int:
        """Number of lists."""
        return len(self.offsets) - 1

    @property
    def n_docs(self) -> int:
        """Number of documents of all lists."""
        return int(self.offsets[-1])


class NameTable(NamedTuple):
    """Names for compiled code, in both spellings of JSON: with non-ASCII letters unchanged, and escaped."""

    text: NDArray[np.uint8]
    """All spellings, concatenated: first the unescaped ones of all features, then the escaped ones."""
    offsets: NDArray[np.int64]
    """Where each spelling begins, and finally the end of all."""
    slots: NDArray[np.int64]
    """The hash table: a spelling or -1 per slot; its size is a power of two, and at least half of it is free."""


def make_name_table(names: tuple[str, ...]) -> NameTable:
    """Lay the names out for :func:`find_name`."""
    plain = [json.dumps(name, ensure_ascii=False)[1:-1].encode("utf-8", errors="surrogatepass") for name in names]
    escaped = [json.dumps(name)[1:-1].encode() for name in names]
    # An empty spelling never matches.
    spellings = plain + [b"" if one == other else one for one, other in zip(escaped, plain, strict=True)]
    offsets = np.cumsum([0, *(len(spelling) for spelling in spellings)])
    slots = np.full(1 << (2 * len(spellings)).bit_length(), -1, np.int64)
    text = np.frombuffer(b"".join(spellings) or b"\0", np.uint8)
    table = NameTable(text, offsets.astype(np.int64), slots)
    for j, spelling in enumerate(spellings):
        if spelling:
            slots[_find_slot(table, text, offsets[j], offsets[j + 1])] = j
    return table


@compiled
def _is_word(text, start, end, word):  # type: ignore[no-untyped-def]
    if end - start != len(word):
        return False
    for i in range(len(word)):  # noqa: SIM110 - Numba does not support all()
        if text[start + i] != word[i]:
            return False
    return True


@compiled
def _is_name(names, j, text, start, end):  # type: ignore[no-untyped-def]
    return _is_word(text, start, end, names.text[names.offsets[j] : names.offsets[j + 1]])


@compiled
def _find_slot(names, text, start, end):  # type: ignore[no-untyped-def]
    """The slot of a spelling, or the free one where it belongs."""
    state = uint64(_START)
    for i in range(start, end):
        state = (state ^ uint64(text[i])) * uint64(_PRIME)
    mask = uint64(len(names.slots) - 1)
    at = state & mask
    while names.slots[at] >= 0 and not _is_name(names, names.slots[at], text, start, end):
        at = (at + uint64(1)) & mask
    return at


@compiled
def find_name(names, text, start, end, guess):  # type: ignore[no-untyped-def]
    """The number of the spelling from ``start`` to ``end``, or -1."""
    if start == end:
        return -1
    if guess < len(names.offsets) - 1 and _is_name(names, guess, text, start, end):
        return guess
    return names.slots[_find_slot(names, text, start, end)]


GIVE_UP = -1
"""Returned instead of a position: another parser must decide."""

END = b'\0""""""""' + bytes(39)
"""Follows every text: no digit, a quote within the next word, and space to read ahead."""

_TAB, _NEWLINE, _RETURN, _SPACE = 9, 10, 13, 32
_COMMA, _MINUS, _POINT, _ZERO, _NINE, _CLOSE_LIST = 44, 45, 46, 48, 57, 93
_N, _U, _L, _E = 110, 117, 108, 101
_LOWER = 32  # set in small letters
_WORD = 8  # bytes, and digits, looked at together
_ROOM = 10**11  # below it, eight more digits stay below 2**64
_TENS = np.array([10**n for n in range(_WORD + 1)], dtype=np.uint64)


@compiled
def skip(text, at):  # type: ignore[no-untyped-def]
    """Skip white space."""
    while text[at] <= _SPACE and (
        text[at] == _SPACE or text[at] == _NEWLINE or text[at] == _RETURN or text[at] == _TAB
    ):
        at += 1
    return at


@compiled
def _is_digit(byte):  # type: ignore[no-untyped-def]
    return _ZERO <= byte <= _NINE


@compiled
def parse_json_number(text, at):  # type: ignore[no-untyped-def]
    """Read a number or null: its float32 and its end."""
    if text[at] == _N:
        null = text[at + 1] == _U and text[at + 2] == _L and text[at + 3] == _L
        return np.float32(np.nan), (at + 4 if null else GIVE_UP)
    negative = text[at] == _MINUS
    first = at + 1 if negative else at
    word = decimals.word_at(text, first)
    count = decimals.digits_ahead(word)
    # Numbers of JSON begin with a digit and have no leading zeros.
    if count == 0 or (count > 1 and text[first] == _ZERO):
        return np.float32(0.0), GIVE_UP
    if count == _WORD:
        return _read_long_number(text, at, first)
    mantissa, end = decimals.digits_value(word, count), first + count
    fraction = 0
    if text[end] == _POINT:
        end += 1
        count = _WORD
        while count == _WORD and mantissa < np.uint64(_ROOM):
            word = decimals.word_at(text, end)
            count = decimals.digits_ahead(word)
            if count > 0:
                mantissa = mantissa * _TENS[count] + decimals.digits_value(word, count)
                fraction, end = fraction + count, end + count
        if fraction == 0:
            return np.float32(0.0), GIVE_UP
    if _is_digit(text[end]) or text[end] | _LOWER == _E:
        return _read_long_number(text, at, first)
    value, known = decimals.nearest_float32(mantissa, -fraction)
    return (-value if negative else value), (end if known else GIVE_UP)


@compiled
def _read_long_number(text, at, first):  # type: ignore[no-untyped-def]
    value, end = decimals.parse_float32(text, at)
    for i in range(first, end):
        if text[i] == _POINT and not _is_digit(text[i + 1]):  # not valid in JSON
            return value, GIVE_UP
    return value, end


@compiled
def read_vector(text, at, row):  # type: ignore[no-untyped-def]
    """Read the numbers of a document, starting after its bracket; returns the end."""
    for j in range(len(row)):
        value, at = parse_json_number(text, skip(text, at))
        if at < 0:
            return GIVE_UP
        row[j] = value
        at = skip(text, at)
        if text[at] != (_COMMA if j + 1 < len(row) else _CLOSE_LIST):
            return GIVE_UP
        at += 1
    return at


NO_ROOM = -2
"""Returned instead of a position: the target needs more rows."""

_COLON, _OPEN_LIST, _OPEN, _CLOSE = 58, 91, 123, 125
_DOCUMENTS, _LISTS = np.frombuffer(b"documents", np.uint8), np.frombuffer(b"lists", np.uint8)


class BodyRules(NamedTuple):
    """How a body is read."""

    names: NameTable
    complete: bool
    """Every document must have every feature."""
    absent: np.float32
    """Value of features that a document leaves out."""


class ScanArrays(NamedTuple):
    """Arrays that a scan fills."""

    features: Features
    seen: NDArray[np.int64]
    """For each feature the last row that had it, from 1."""
    sizes: NDArray[np.int64]
    """Documents of each list."""
    spans: NDArray[np.int64]
    """For values that are not read here: their list or -1, and the begin and end of key and value."""
    counts: NDArray[np.int64]
    """Rows, lists and spans so far, and whether the lists came as a batch."""


@compiled
def _end_of_text(text, at, length):  # type: ignore[no-untyped-def]
    """Position of the quote that ends the text after ``at``."""
    at = decimals.find_either(text, at, _QUOTE, _BACKSLASH)
    while at < length and text[at] == _BACKSLASH:
        at = decimals.find_either(text, at + 2, _QUOTE, _BACKSLASH)
    return at


@compiled
def _read_key(text, at, length):  # type: ignore[no-untyped-def]
    """Begin and end of the name at ``at``, and where its value begins (-1 if there is none)."""
    if text[at] != _QUOTE:
        return at, at, GIVE_UP
    start = at + 1
    end = _end_of_text(text, start, length)
    if end >= length:
        return start, end, GIVE_UP
    at = skip(text, end + 1)
    if text[at] != _COLON:
        return start, end, GIVE_UP
    return start, end, skip(text, at + 1)


@compiled
def _read_named(text, at, length, row, stamp, seen, rules):  # type: ignore[no-untyped-def]
    """Read names and numbers of a document, starting after its brace; returns the end."""
    count, guess = 0, 0
    at = skip(text, at)
    more = text[at] != _CLOSE
    while more:
        start, end, at = _read_key(text, at, length)
        if at < 0:
            return GIVE_UP
        spelling = find_name(rules.names, text, start, end, guess)
        j = spelling if spelling < len(row) else spelling - len(row)
        if j < 0 or seen[j] == stamp:
            return GIVE_UP
        seen[j] = stamp
        row[j], at = parse_json_number(text, at)
        if at < 0:
            return GIVE_UP
        count, guess = count + 1, spelling + 1
        at = skip(text, at)
        more = text[at] == _COMMA
        if more:
            at = skip(text, at + 1)
    if text[at] != _CLOSE or (rules.complete and count < len(row)):
        return GIVE_UP
    return at + 1


@compiled
def _read_documents(text, at, length, target, rules):  # type: ignore[no-untyped-def]
    """Read an array of documents into the next rows; returns the end."""
    if text[at] != _OPEN_LIST or target.counts[1] == len(target.sizes):
        return GIVE_UP
    first = target.counts[0]
    more = True
    while more:
        at = skip(text, at + 1)
        i = target.counts[0]
        if i == len(target.features):
            return NO_ROOM
        row = target.features[i]
        if text[at] == _OPEN_LIST:
            at = read_vector(text, at + 1, row)
        elif text[at] == _OPEN:
            row[:] = rules.absent
            at = _read_named(text, at + 1, length, row, i + 1, target.seen, rules)
        else:
            at = GIVE_UP
        if at < 0:
            return at
        target.counts[0] += 1
        at = skip(text, at)
        more = text[at] == _COMMA
    if text[at] != _CLOSE_LIST:
        return GIVE_UP
    target.sizes[target.counts[1]] = target.counts[0] - first
    target.counts[1] += 1
    return at + 1


@compiled
def _end_of_value(text, at, length):  # type: ignore[no-untyped-def]
    """The end of a value that another parser will read; it need not be correct."""
    depth = 0
    while at < length:
        c = text[at]
        if c == _QUOTE:
            at = _end_of_text(text, at + 1, length)
            if depth == 0:
                return at + 1
        elif c == _OPEN_LIST or c == _OPEN:  # noqa: SIM109 - Numba would make a tuple
            depth += 1
        elif c == _CLOSE_LIST or c == _CLOSE:  # noqa: SIM109
            if depth <= 1:
                return at + depth
            depth -= 1
        elif c == _COMMA and depth == 0:
            return at
        at += 1
    return GIVE_UP


@compiled
def _read_members(text, at, length, target, rules, inside):  # type: ignore[no-untyped-def]
    """Read an object that has documents; at the top (``inside`` is -1) it may have lists.

    Returns the end and, at the top, where a batch of lists begins (0 if there is none).
    """
    if text[at] != _OPEN:
        return GIVE_UP, 0
    had, batch = False, 0
    more = True
    while more:
        start, end, at = _read_key(text, skip(text, at + 1), length)
        if at < 0:
            return GIVE_UP, 0
        documents = _is_word(text, start, end, _DOCUMENTS)
        lists = inside < 0 and _is_word(text, start, end, _LISTS)
        if had and (documents or lists):
            return GIVE_UP, 0
        had = had or documents or lists
        if documents:
            at = _read_documents(text, at, length, target, rules)
        else:
            value, at = at, _end_of_value(text, at, length)
            if lists:
                batch = value
            elif target.counts[2] == len(target.spans):
                return GIVE_UP, 0
            else:
                span = target.spans[target.counts[2]]
                span[0], span[1], span[2], span[3], span[4] = inside, start, end, value, at
                target.counts[2] += 1
        if at < 0:
            return at, 0
        at = skip(text, at)
        more = text[at] == _COMMA
    if text[at] != _CLOSE or not had:
        return GIVE_UP, 0
    return at + 1, batch


@compiled
def _read_batch(text, at, length, target, rules):  # type: ignore[no-untyped-def]
    """Read an array of lists; returns the end."""
    if text[at] != _OPEN_LIST:
        return GIVE_UP
    more = True
    while more:
        begin = skip(text, at + 1)
        at, _ = _read_members(text, begin, length, target, rules, target.counts[1])
        if at < 0:
            return at
        at = skip(text, at)
        more = text[at] == _COMMA
    return at + 1 if text[at] == _CLOSE_LIST else GIVE_UP


@compiled
def scan(text, length, target, rules):  # type: ignore[no-untyped-def]
    """Read a whole body of ``length`` bytes into the target; returns its length, or a code for the failure."""
    end, batch = _read_members(text, skip(text, 0), length, target, rules, -1)
    if end < 0:
        return end
    if batch > 0:
        target.counts[3] = 1
        at = _read_batch(text, batch, length, target, rules)
        if at < 0:
            return at
    return length if skip(text, end) == length else GIVE_UP


_ABSENT = re.compile(rb'"absent"\s*:\s*"(refuse|missing|zero)"')
_FILL = {"refuse": np.float32(np.nan), "missing": np.float32(np.nan), "zero": np.float32(0.0)}
_SPARE_ROWS = 16


def scan_body(body: bytes, names: NameTable, limits: Limits) -> Lists | None:
    """Read a JSON body; None if another parser must decide."""
    match = _ABSENT.search(body)
    absent = "refuse" if match is None else match.group(1).decode()
    rules = BodyRules(names, absent == "refuse", _FILL[absent])
    text = np.frombuffer(body + END, np.uint8)
    # A number and its comma take at least two bytes: this is enough rows unless documents omit features.
    n_features = len(names.offsets) // 2
    n_rows = len(body) // (2 * n_features) + _SPARE_ROWS
    most = limits.lists * limits.documents
    while True:
        n_rows = min(n_rows, most + 1)
        target = ScanArrays(
            features=np.empty((n_rows, n_features), np.float32),
            seen=np.zeros(n_features, np.int64),
            sizes=np.zeros(limits.lists, np.int64),
            spans=np.zeros((2 * limits.lists + 8, 5), np.int64),
            counts=np.zeros(4, np.int64),
        )
        end = scan(text, len(body), target, rules)
        if end != NO_ROOM or n_rows > most:
            break
        n_rows *= 4
    return _collect(body, target, absent, limits) if end == len(body) else None


_TYPES: dict[bytes, Any] = {b"ids": RequestIds | None, b"top": Top | None, b"absent": Absent}


def _collect(body: bytes, target: ScanArrays, absent: str, limits: Limits) -> Lists | None:
    """The result of a scan, with the members that it left to another parser; None if one is wrong."""
    n_docs, n_lists, n_spans, is_batch = target.counts.tolist()
    sizes = target.sizes[:n_lists]
    rest: dict[tuple[int, bytes], Any] = {}
    try:
        for inside, start, end, value, stop in target.spans[:n_spans].tolist():
            name = body[start:end]
            rest[inside, name] = msgspec.json.decode(body[value:stop], type=_TYPES[name])
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    is_repeated = len(rest) < n_spans
    top, told = rest.pop((-1, b"top"), None), rest.pop((-1, b"absent"), "refuse")
    ids = [rest.pop((q if is_batch else -1, b"ids"), None) for q in range(n_lists)]
    if rest or is_repeated or told != absent or int(sizes.max()) > limits.documents:
        return None
    if any(of_list is not None and len(of_list) != n for of_list, n in zip(ids, sizes, strict=True)):
        return None
    return Lists(target.features[:n_docs], offsets_from_sizes(sizes), tuple(ids), top, is_single=not is_batch)
