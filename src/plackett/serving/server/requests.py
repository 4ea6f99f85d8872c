"""Bodies of requests: JSON or bytes in, features of lists out, or the reason why not.

What a request asks for: lists of documents, ready to be scored.

Names of features, laid out so that compiled code finds a feature by the bytes of its name.

An open-addressing hash table; but clients name features in the same order in every document, so
the feature behind the last one is looked at first and the table is seldom needed.

JSON bodies read slowly, with a reason for everything that is refused.

Numbers of JSON as compiled code reads them: one document's values into one row.

JSON bodies straight into an array, without a Python object per number.

A body of 100 documents with 136 features holds 13,600 numbers; a general parser makes an object of
each, under the interpreter's lock, before NumPy can take them. Here compiled code walks over the
text once and writes float32 where they belong, with the lock released. It knows only what
well-formed bodies need, and gives up on anything else: escapes in names, unknown or repeated names,
wrong lengths, broken JSON. :mod:`.careful` then reads the body again, slowly, and finds the reason.
What both accept they read alike, which a test checks with random bodies.

The text ends in :data:`~plackett.serving.server.requests.END`, so no loop runs out of it.

JSON bodies: the fast reader where it can, the careful one where it must.

Features as bytes: float32, little-endian, document after document.

A tenth of JSON's work for client and server. The sizes of the lists stand in a header.
"""

from __future__ import annotations

import json
import re
import struct
import threading
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from plackett.base.decimals import (
    digits_ahead,
    digits_value,
    exact_float32,
    find_either,
    nearest_float32,
    parse_float32,
    word_at,
)
from plackett.base.kernels import compiled
from plackett.base.ragged import Features, Offsets, offsets_from_sizes
from plackett.serving.server.settings import Limits, Refusal

Id: TypeAlias = str | int
Ids: TypeAlias = list[Id]


@dataclass(frozen=True, eq=False)
class Lists:
    """Lists of documents in the order of the request."""

    features: Features
    """float32, one row per document; NaN is missing, nothing is infinite."""
    offsets: Offsets
    ids: tuple[Ids | None, ...]
    """What the client calls the documents of each list, if it does."""
    top: int | None = None
    """How many documents of each list the order shall have."""
    single: bool = True
    """One list was asked for as such, not as a batch of one."""

    @property
    def n_lists(self) -> int:
        """Number of lists."""
        return len(self.offsets) - 1

    @property
    def n_docs(self) -> int:
        """Number of documents of all lists."""
        return int(self.offsets[-1])


_START, _PRIME = 0xCBF29CE484222325, 0x100000001B3  # of the hash FNV-1a, 64 bits
_LAST_CONTROL, _QUOTE, _BACKSLASH = 0x1F, 0x22, 0x5C


class NameTable(NamedTuple):
    """Names as compiled code reads them."""

    text: NDArray[np.uint8]
    """All names, UTF-8, one behind the other."""
    ends: NDArray[np.int64]
    """Where the name of each feature begins, and last the end of all."""
    slots: NDArray[np.int64]
    """The table: a feature or -1; a power of two many, at least half of them free."""


class FeatureNames:
    """The names of a model's features.

    Parameters
    ----------
    names
        One per feature, all different.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.places = {name: j for j, name in enumerate(names)}
        encoded = [_plain(name) for name in names]
        ends = np.cumsum([0, *(len(each) for each in encoded)])
        slots = np.full(1 << (2 * len(names)).bit_length(), -1, np.int64)
        for j, each in enumerate(encoded):
            if each:
                slots[_free_slot(slots, each)] = j
        text = np.frombuffer(b"".join(encoded) or b"\0", np.uint8)
        self.table = NameTable(text, ends.astype(np.int64), slots)

    def __len__(self) -> int:
        return len(self.names)


def _plain(name: str) -> bytes:
    """The name as it stands in JSON; empty if it needs escapes or is empty, so it never matches."""
    encoded = name.encode("utf-8", errors="surrogatepass")
    odd = any(c <= _LAST_CONTROL or c in (_QUOTE, _BACKSLASH) for c in encoded)
    return b"" if odd else encoded


def _free_slot(slots: NDArray[np.int64], name: bytes) -> int:
    state = _START
    for byte in name:
        state = ((state ^ byte) * _PRIME) & 0xFFFFFFFFFFFFFFFF
    at = state & (len(slots) - 1)
    while slots[at] >= 0:
        at = (at + 1) & (len(slots) - 1)
    return at


@compiled
def _is_name(names, j, text, start, end):  # type: ignore[no-untyped-def]
    begin = names.ends[j]
    if names.ends[j + 1] - begin != end - start:
        return False
    for i in range(end - start):  # noqa: SIM110 - Numba knows no all()
        if names.text[begin + i] != text[start + i]:
            return False
    return True


@compiled
def find_name(names, text, start, end, guess):  # type: ignore[no-untyped-def]
    """The feature whose name stands from ``start`` to ``end``, or -1."""
    if start == end:
        return -1
    if guess < len(names.ends) - 1 and _is_name(names, guess, text, start, end):
        return guess
    state = uint64(_START)
    for i in range(start, end):
        state = (state ^ uint64(text[i])) * uint64(_PRIME)
    mask = uint64(len(names.slots) - 1)
    at = state & mask
    while names.slots[at] >= 0:
        if _is_name(names, names.slots[at], text, start, end):
            return names.slots[at]
        at = (at + uint64(1)) & mask
    return -1


BAD_REQUEST, TOO_LARGE, UNPROCESSABLE = 400, 413, 422
ABSENT = ("refuse", "missing", "zero")
_TOP_KEYS = ("documents", "lists", "ids", "top", "absent")
_LIST_KEYS = ("documents", "ids")
_SHOWN = 5  # names in a message
_LONGEST_NAME = 60  # characters of a name in a message
_INTEGER_DIGITS = 20  # more than any whole number of 64 bits has, with its sign
_LARGEST_ID = (1 << 63) - 1
_PLAIN = {int, float, type(None)}
_NORMAL = float(np.finfo(np.float32).tiny)
_BELOW_SINGLE, _MIDPOINT = (1 << 29) - 1, 1 << 28  # float64 has 29 bits more than float32


def read_carefully(body: bytes, names: FeatureNames, limits: Limits) -> Lists:
    """The lists of a JSON body, or a :class:`Refusal`."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refusal(BAD_REQUEST, f"the body is not UTF-8: byte {error.start}.") from error
    try:
        return _lists(_parsed(text, exact=False), names, limits, exact=False)
    except _Doubt:
        return _lists(_parsed(text, exact=True), names, limits, exact=True)


def _lists(data: Any, names: FeatureNames, limits: Limits, *, exact: bool) -> Lists:
    if not isinstance(data, dict):
        _refuse(f'the body must be an object with "documents" or "lists", got {_kind(data)}.')
    _check_keys(data, _TOP_KEYS, "the body")
    if ("documents" in data) == ("lists" in data):
        _refuse('the body must have either "documents" (one list) or "lists" (a batch).')
    absent = data.get("absent", "refuse")
    if absent not in ABSENT:
        _refuse(f'"absent" must be one of {", ".join(ABSENT)}.')
    single = "documents" in data
    if not single and "ids" in data:
        _refuse('in a batch, "ids" stand in each list.')
    groups = (
        [({k: data[k] for k in _LIST_KEYS if k in data}, "")] if single else _careful_batch(data)
    )
    if len(groups) > limits.lists:
        raise Refusal(TOO_LARGE, f"{len(groups)} lists; a batch may have {limits.lists}.")
    top = data.get("top")
    check_top(top)
    parts, ids = [], []
    for group, place in groups:
        documents = _documents_of(group, place, limits)
        parts.append(_matrix(documents, names, absent, place, exact=exact))
        ids.append(check_ids(group.get("ids"), len(documents), place))
    sizes = np.array([len(part) for part in parts])
    return Lists(np.concatenate(parts), offsets_from_sizes(sizes), tuple(ids), top, single=single)


def check_ids(ids: Any, n_docs: int, place: str) -> Ids | None:
    """Ids of a list, if any: one text or whole number for each document."""
    if ids is None:
        return None
    if not isinstance(ids, list) or len(ids) != n_docs:
        got = f"{len(ids)}" if isinstance(ids, list) else _kind(ids)
        _refuse(f'{place}"ids" must be an array of {n_docs}, one for each document, got {got}.')
    for i, each in enumerate(ids):
        if isinstance(each, bool) or not isinstance(each, (str, int)):
            _refuse(f"{place}ids[{i}] must be a text or a whole number, got {_kind(each)}.")
        if isinstance(each, int) and not -_LARGEST_ID <= each <= _LARGEST_ID:
            _refuse(f"{place}ids[{i}] does not fit in 64 bits; send it as a text.")
        if isinstance(each, str) and not _encodable(each):
            _refuse(f"{place}ids[{i}] has half a surrogate pair, which no text has.")
    return ids


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def check_top(top: Any) -> None:
    """How many documents the order shall have: a whole number, or nothing."""
    if top is not None and (type(top) is not int or top < 1):
        _refuse(f'"top" must be a whole number from 1, got {_kind(top)}.')


class _Doubt(Exception):  # noqa: N818 - not an error: another way is tried
    """A number that must be rounded once, from its text."""


def _parsed(text: str, *, exact: bool) -> Any:
    """Plain data of a text; if ``exact``, numbers are those of float32."""
    hooks: dict[str, Any] = {"parse_float": _single, "parse_int": _whole} if exact else {}
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant, **hooks)
    except json.JSONDecodeError as error:
        raise Refusal(BAD_REQUEST, f"the body is not JSON: {error}.") from error
    except RecursionError as error:
        raise Refusal(BAD_REQUEST, "the body is not JSON: nested too deeply.") from error
    except ValueError as error:  # Python makes no whole numbers of thousands of digits
        raise _Doubt from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        had: set[str] = set()
        twice = next(name for name, _ in pairs if name in had or had.add(name))  # type: ignore[func-returns-value]
        _refuse(f"the name {_quoted(twice)} occurs twice in an object.")
    return found


def _single(text: str) -> float:
    """The float32 nearest to a decimal, as the fast reader has it, infinite beyond float32."""
    value = float(text)
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    if bits & _BELOW_SINGLE == _MIDPOINT or 0 < abs(value) < _NORMAL:
        exact = exact_float32(text)  # rounding twice would not be rounding
        return value if exact is None else float(exact)
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _whole(text: str) -> int | float:
    # Longer ones are features, if anything; and int() takes time quadratic in their length.
    return int(text) if len(text) <= _INTEGER_DIGITS else _single(text)


def _constant(name: str) -> NoReturn:
    raise Refusal(BAD_REQUEST, f"{name} is not JSON; a missing feature is null.")


def _careful_batch(data: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    lists = data["lists"]
    if not isinstance(lists, list) or not lists:
        _refuse(f'"lists" must be an array of at least one list, got {_kind(lists)}.')
    found = []
    for k, group in enumerate(lists):
        if not isinstance(group, dict):
            _refuse(f'lists[{k}] must be an object with "documents", got {_kind(group)}.')
        _check_keys(group, _LIST_KEYS, f"lists[{k}]")
        found.append((group, f"lists[{k}]."))
    return found


def _documents_of(group: dict[str, Any], place: str, limits: Limits) -> list[Any]:
    documents = group.get("documents")
    if not isinstance(documents, list) or not documents:
        _refuse(f'{place}"documents" must be an array of at least one, got {_kind(documents)}.')
    if len(documents) > limits.documents:
        raise Refusal(
            TOO_LARGE,
            f"{place}documents: {len(documents)}; a list may have {limits.documents}.",
        )
    return documents


def _matrix(
    documents: list[Any], names: FeatureNames, absent: str, place: str, *, exact: bool
) -> Features:
    fill = 0.0 if absent == "zero" else np.nan
    out = np.full((len(documents), len(names)), fill, np.float32)
    for i, document in enumerate(documents):
        where = f"{place}documents[{i}]"
        if isinstance(document, list):
            if len(document) != len(names):
                _refuse(f"{where} has {len(document)} features; the model has {len(names)}.")
            out[i] = _values(document, names.names, where, exact=exact)
        elif isinstance(document, dict):
            _check_names(document, names, absent, where)
            columns = [names.places[name] for name in document]
            values = list(document.values())
            out[i, columns] = _values(values, tuple(document), where, exact=exact)
        else:
            _refuse(
                f"{where} must be an array of numbers or an object with the names of features, "
                f"got {_kind(document)}."
            )
    return out


def _values(values: list[Any], names: tuple[str, ...], where: str, *, exact: bool) -> Features:
    """Numbers as float32; ``names`` are those of their features."""
    if not set(map(type, values)) <= _PLAIN:
        j = next(j for j, value in enumerate(values) if type(value) not in _PLAIN)
        what = f"expected a number or null, got {_kind(values[j])}"
        _refuse(f"{where}, feature {_quoted(names[j])}: {what}.")
    wide = np.array([_rounded(value) for value in values]) if exact else _float64(values)
    with np.errstate(over="ignore"):
        single = wide.astype(np.float32)
    if np.isinf(single).any():
        name = _quoted(names[int(np.isinf(single).argmax())])
        _refuse(f"{where}, feature {name}: the number is beyond float32 (3.4e38).")
    return single


def _float64(values: list[Any]) -> NDArray[np.float64]:
    """Numbers as they were parsed; :class:`_Doubt` where rounding twice would not be rounding."""
    try:
        wide = np.array(values, np.float64)
    except OverflowError as error:
        raise _Doubt from error
    middle = wide.view(np.uint64) & np.uint64(_BELOW_SINGLE) == _MIDPOINT
    if (middle | ((wide != 0) & (np.abs(wide) < _NORMAL))).any():
        raise _Doubt
    return wide


def _rounded(value: float | None) -> float:
    """A number of the exact parser, as float32; whole numbers are still to be rounded."""
    if value is None:
        return np.nan
    return _single(str(value)) if isinstance(value, int) else value


def _check_names(document: dict[str, Any], names: FeatureNames, absent: str, where: str) -> None:
    unknown = [name for name in document if name not in names.places]
    if unknown:
        _refuse(f"{where}: the model has no feature {_some(unknown)}.")
    if absent == "refuse" and len(document) < len(names):
        lacking = [name for name in names.names if name not in document]
        _refuse(
            f"{where} lacks {_some(lacking)}; give every feature (null is missing), or say how to "
            'read those that are left out: "absent": "missing" or "zero".'
        )


def _check_keys(data: dict[str, Any], known: tuple[str, ...], what: str) -> None:
    for key in data:
        if key not in known:
            _refuse(f"{what} must not have {_quoted(key)}; it may have {', '.join(known)}.")


def _some(names: list[str]) -> str:
    shown = ", ".join(_quoted(name) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _quoted(name: str) -> str:
    cut = name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "..."
    return ascii(cut)


def _kind(value: Any) -> str:
    """What a value is, without saying what it holds."""
    if value is None:
        return "null"
    for kind, word in ((bool, "a boolean"), (int, "a number"), (float, "a number")):
        if isinstance(value, kind):
            return word
    if isinstance(value, str):
        return "a text"
    if isinstance(value, list):
        return "an array" if value else "an empty array"
    return "an object"


def _refuse(detail: str) -> NoReturn:
    raise Refusal(UNPROCESSABLE, detail)


GIVE_UP = -1
"""Instead of a position: let the careful reader decide."""

END = b'\0""""""""' + bytes(39)
"""Behind every text: no digit, a quote within the next word, and room to read ahead."""

_TAB, _NEWLINE, _RETURN, _SPACE = 9, 10, 13, 32
_COMMA, _MINUS, _POINT, _ZERO, _NINE, _CLOSE_LIST = 44, 45, 46, 48, 57, 93
_N, _U, _L, _E = 110, 117, 108, 101
_LOWER = 32  # set in small letters
_WORD = 8  # bytes, and digits, looked at together
_ROOM = 10**11  # below it, eight more digits stay below 2**64
_TENS = np.array([10**n for n in range(_WORD + 1)], dtype=np.uint64)


@compiled
def skip(text, at):  # type: ignore[no-untyped-def]
    """Go over blanks."""
    while text[at] <= _SPACE and (
        text[at] == _SPACE or text[at] == _NEWLINE or text[at] == _RETURN or text[at] == _TAB
    ):
        at += 1
    return at


@compiled
def _is_digit(byte):  # type: ignore[no-untyped-def]
    return _ZERO <= byte <= _NINE


@compiled
def read_value(text, at):  # type: ignore[no-untyped-def]
    """Read a number or null: its float32 and its end."""
    if text[at] == _N:
        null = text[at + 1] == _U and text[at + 2] == _L and text[at + 3] == _L
        return np.float32(np.nan), (at + 4 if null else GIVE_UP)
    negative = text[at] == _MINUS
    first = at + 1 if negative else at
    word = word_at(text, first)
    count = digits_ahead(word)
    # Numbers of JSON begin with a digit and have no leading zeros.
    if count == 0 or (count > 1 and text[first] == _ZERO):
        return np.float32(0.0), GIVE_UP
    if count == _WORD:
        return _long_number(text, at, first)
    mantissa, end = digits_value(word, count), first + count
    fraction = 0
    if text[end] == _POINT:
        end += 1
        count = _WORD
        while count == _WORD and mantissa < np.uint64(_ROOM):
            word = word_at(text, end)
            count = digits_ahead(word)
            if count > 0:
                mantissa = mantissa * _TENS[count] + digits_value(word, count)
                fraction, end = fraction + count, end + count
        if fraction == 0:
            return np.float32(0.0), GIVE_UP
    if _is_digit(text[end]) or text[end] | _LOWER == _E:
        return _long_number(text, at, first)
    value, known = nearest_float32(mantissa, -fraction)
    return (-value if negative else value), (end if known else GIVE_UP)


@compiled
def _long_number(text, at, first):  # type: ignore[no-untyped-def]
    """Read a number with many digits or an exponent."""
    value, end = parse_float32(text, at)
    for i in range(first, end):
        if text[i] == _POINT and not _is_digit(text[i + 1]):  # which JSON has not
            return value, GIVE_UP
    return value, end


@compiled
def read_vector(text, at, row):  # type: ignore[no-untyped-def]
    """Read the numbers of a document from behind its bracket; gives the end."""
    for j in range(len(row)):
        value, at = read_value(text, skip(text, at))
        if at < 0:
            return GIVE_UP
        row[j] = value
        at = skip(text, at)
        if text[at] != (_COMMA if j + 1 < len(row) else _CLOSE_LIST):
            return GIVE_UP
        at += 1
    return at


NO_ROOM = -2
"""Instead of a position: more rows are needed."""

_QUOTE, _COMMA, _COLON = 34, 44, 58
_OPEN_LIST, _BACKSLASH, _CLOSE_LIST, _OPEN, _CLOSE = 91, 92, 93, 123, 125


class Rules(NamedTuple):
    """How a body is read."""

    names: NameTable
    complete: bool
    """Every document must have every feature."""
    absent: np.float32
    """What stands for features that a document lacks."""
    documents: NDArray[np.uint8]
    lists: NDArray[np.uint8]
    """The names of these members, in bytes."""


class Target(NamedTuple):
    """Where a scan writes to; all of it is the caller's."""

    features: Features
    seen: NDArray[np.int64]
    """For each feature the row that had it last, from 1."""
    sizes: NDArray[np.int64]
    """Documents of each list."""
    spans: NDArray[np.int64]
    """Of values that are not read here: their list or -1, begin and end of key and value."""
    counts: NDArray[np.int64]
    """Rows, lists and spans so far, and whether the lists came as a batch."""


def empty_target(names: NameTable, n_rows: int, n_lists: int) -> Target:
    """Room for so many documents and lists."""
    n_features = len(names.ends) - 1
    return Target(
        features=np.empty((n_rows, n_features), np.float32),
        seen=np.zeros(n_features, np.int64),
        sizes=np.zeros(n_lists, np.int64),
        spans=np.zeros((2 * n_lists + 8, 5), np.int64),
        counts=np.zeros(4, np.int64),
    )


@compiled
def _key(text, at, length):  # type: ignore[no-untyped-def]
    """Begin and end of the name at ``at``, and where its value begins (-1 if there is none)."""
    if text[at] != _QUOTE:
        return at, at, GIVE_UP
    start = at + 1
    end = find_either(text, start, _QUOTE, _BACKSLASH)
    if end >= length or text[end] == _BACKSLASH:
        return start, end, GIVE_UP
    at = skip(text, end + 1)
    if text[at] != _COLON:
        return start, end, GIVE_UP
    return start, end, skip(text, at + 1)


@compiled
def _named(text, at, length, row, stamp, seen, rules):  # type: ignore[no-untyped-def]
    """Read names and numbers of a document from behind its brace; gives the end."""
    count, guess = 0, 0
    at = skip(text, at)
    more = text[at] != _CLOSE
    while more:
        start, end, at = _key(text, at, length)
        if at < 0:
            return GIVE_UP
        j = find_name(rules.names, text, start, end, guess)
        if j < 0 or seen[j] == stamp:
            return GIVE_UP
        seen[j] = stamp
        row[j], at = read_value(text, at)
        if at < 0:
            return GIVE_UP
        count, guess = count + 1, j + 1
        at = skip(text, at)
        more = text[at] == _COMMA
        if more:
            at = skip(text, at + 1)
    if text[at] != _CLOSE or (rules.complete and count < len(row)):
        return GIVE_UP
    return at + 1


@compiled
def _documents(text, at, length, target, rules):  # type: ignore[no-untyped-def]
    """Read an array of documents into the next rows; gives the end."""
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
            at = _named(text, at + 1, length, row, i + 1, target.seen, rules)
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
    """Where a value ends that another parser will read; it need not be right."""
    depth = 0
    while at < length:
        c = text[at]
        if c == _QUOTE:
            at = find_either(text, at + 1, _QUOTE, _BACKSLASH)
            while at < length and text[at] == _BACKSLASH:
                at = find_either(text, at + 2, _QUOTE, _BACKSLASH)
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
def _is_word(text, start, end, word):  # type: ignore[no-untyped-def]
    if end - start != len(word):
        return False
    for i in range(len(word)):  # noqa: SIM110 - Numba knows no all()
        if text[start + i] != word[i]:
            return False
    return True


@compiled
def _members(text, at, length, target, rules, inside):  # type: ignore[no-untyped-def]
    """Read an object that has documents; at the top (``inside`` is -1) it may have lists.

    Returns the end and, at the top, where a batch of lists begins (0 if there is none).
    """
    if text[at] != _OPEN:
        return GIVE_UP, 0
    had, batch = False, 0
    more = True
    while more:
        start, end, at = _key(text, skip(text, at + 1), length)
        if at < 0:
            return GIVE_UP, 0
        documents = _is_word(text, start, end, rules.documents)
        lists = inside < 0 and _is_word(text, start, end, rules.lists)
        if had and (documents or lists):
            return GIVE_UP, 0
        had = had or documents or lists
        if documents:
            at = _documents(text, at, length, target, rules)
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
def _batch(text, at, length, target, rules):  # type: ignore[no-untyped-def]
    """Read an array of lists; gives the end."""
    if text[at] != _OPEN_LIST:
        return GIVE_UP
    more = True
    while more:
        begin = skip(text, at + 1)
        at, _ = _members(text, begin, length, target, rules, target.counts[1])
        if at < 0:
            return at
        at = skip(text, at)
        more = text[at] == _COMMA
    return at + 1 if text[at] == _CLOSE_LIST else GIVE_UP


@compiled
def scan(text, length, target, rules):  # type: ignore[no-untyped-def]
    """Read a whole body of ``length`` bytes into the target; gives its length, or why not."""
    end, batch = _members(text, skip(text, 0), length, target, rules, -1)
    if end < 0:
        return end
    if batch > 0:
        target.counts[3] = 1
        at = _batch(text, batch, length, target, rules)
        if at < 0:
            return at
    return length if skip(text, end) == length else GIVE_UP


_ABSENT = re.compile(rb'"absent"\s*:\s*"(refuse|missing|zero)"')
_FILL = {"refuse": np.float32(np.nan), "missing": np.float32(np.nan), "zero": np.float32(0.0)}
_DOCUMENTS = np.frombuffer(b"documents", np.uint8)
_LISTS = np.frombuffer(b"lists", np.uint8)
_SPARE_ROWS = 16

# A general parser makes objects of 30 bytes and more out of two bytes of text: one body at a time.
_CAREFUL = threading.Lock()


def read_json(body: bytes, names: FeatureNames, limits: Limits) -> Lists:
    """The lists of a JSON body; raises :class:`Refusal` with the reason."""
    found = read_fast(body, names, limits)
    if found is not None:
        return found
    with _CAREFUL:
        return read_carefully(body, names, limits)


def read_fast(body: bytes, names: FeatureNames, limits: Limits) -> Lists | None:
    """The lists of a body; None where the careful reader must decide."""
    absent = _ABSENT.search(body)
    mode = "refuse" if absent is None else absent.group(1).decode()
    rules = Rules(names.table, mode == "refuse", _FILL[mode], _DOCUMENTS, _LISTS)
    text = np.frombuffer(body + END, np.uint8)
    # A number and its comma take two bytes: enough rows unless documents leave features out.
    n_rows = len(body) // (2 * len(names)) + _SPARE_ROWS
    most = limits.lists * limits.documents
    while True:
        n_rows = min(n_rows, most + 1)
        target = empty_target(names.table, n_rows, limits.lists)
        end = scan(text, len(body), target, rules)
        if end != NO_ROOM or n_rows > most:
            break
        n_rows *= 4
    return _taken(body, target, mode, limits) if end == len(body) else None


def _taken(body: bytes, target: Target, mode: str, limits: Limits) -> Lists | None:
    """What the scan has found, with the members that it left to others."""
    n_docs, n_lists, n_spans, batch = target.counts.tolist()
    sizes = target.sizes[:n_lists]
    rest = _rest(body, target.spans[:n_spans].tolist())
    if rest is None or int(sizes.max()) > limits.documents:
        return None
    top, told = rest.pop((-1, b"top"), None), rest.pop((-1, b"absent"), "refuse")
    ids = [rest.pop((q if batch else -1, b"ids"), None) for q in range(n_lists)]
    if rest or told != mode:
        return None
    try:
        for q, each in enumerate(ids):
            check_ids(each, int(sizes[q]), "")
        check_top(top)
    except Refusal:
        return None
    return Lists(
        target.features[:n_docs], offsets_from_sizes(sizes), tuple(ids), top, single=not batch
    )


def _rest(body: bytes, spans: list[list[int]]) -> dict[tuple[int, bytes], Any] | None:
    """Values by list and name; None if a name comes twice or a value is not JSON."""
    import orjson

    found: dict[tuple[int, bytes], Any] = {}
    for inside, start, end, value, stop in spans:
        try:
            found[inside, body[start:end]] = orjson.loads(body[value:stop])
        except orjson.JSONDecodeError:
            return None
    return found if len(found) == len(spans) else None


def warm_up(names: FeatureNames) -> None:
    """Compile or load the reader, so that the first request does not wait for it."""
    read_fast(b'{"lists":[{"documents":[[0.5]]}]}', names, Limits())


SIZES = "x-list-sizes"
"""The header with the number of documents of each list; without it all are one list."""
_SIZES = re.compile(r"[1-9]\d{0,8}(, ?[1-9]\d{0,8})*", re.ASCII)


def read_raw(body: bytes, sizes: str | None, names: FeatureNames, limits: Limits) -> Lists:
    """The lists of a body of float32; raises :class:`Refusal` with the reason."""
    width = 4 * len(names)
    if not body or len(body) % width:
        raise Refusal(
            BAD_REQUEST,
            f"the body has {len(body)} bytes; documents of {len(names)} features in float32 take "
            f"{width} bytes each.",
        )
    features = np.frombuffer(body, "<f4").reshape(-1, len(names)).astype(np.float32, copy=False)
    counts = _counts(sizes, len(features))
    if len(counts) > limits.lists:
        raise Refusal(TOO_LARGE, f"{len(counts)} lists; a batch may have {limits.lists}.")
    if max(counts) > limits.documents:
        raise Refusal(TOO_LARGE, f"{max(counts)} documents; a list may have {limits.documents}.")
    if np.isinf(features).any():
        i, j = np.argwhere(np.isinf(features))[0]
        raise Refusal(
            UNPROCESSABLE,
            f"document {i}, feature {names.names[j]!a}: the number is infinite.",
        )
    ids = (None,) * len(counts)
    return Lists(features, offsets_from_sizes(np.array(counts)), ids, single=sizes is None)


def _counts(sizes: str | None, n_docs: int) -> list[int]:
    if sizes is None:
        return [n_docs]
    if not _SIZES.fullmatch(sizes):
        raise Refusal(BAD_REQUEST, f"{SIZES} must be numbers from 1, separated by commas.")
    counts = [int(word) for word in sizes.split(",")]
    if sum(counts) != n_docs:
        raise Refusal(
            BAD_REQUEST, f"{SIZES} sum to {sum(counts)}; the body has {n_docs} documents."
        )
    return counts


__all__ = [
    "FeatureNames",
    "Lists",
    "read_json",
    "read_raw",
    "warm_up",
]
