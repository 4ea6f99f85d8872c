"""JSON bodies straight into an array, without a Python object per number.

A body of 100 documents with 136 features holds 13,600 numbers; a general parser makes an object of
each, under the interpreter's lock, before NumPy can take them. Here compiled code walks over the
text once and writes float32 where they belong, with the lock released. It knows only what
well-formed bodies need, and gives up on anything else: escapes in names, unknown or repeated names,
wrong lengths, broken JSON. :mod:`.careful` then reads the body again, slowly, and finds the reason.
What both accept they read alike, which a test checks with random bodies.

The text ends in :data:`~plackett.serving.server.bodies.values.END`, so no loop runs out of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plackett.base.decimals import find_either
from plackett.base.kernels import compiled
from plackett.base.ragged import Features
from plackett.serving.server.bodies.names import NameTable, find_name
from plackett.serving.server.bodies.values import GIVE_UP, read_value, read_vector, skip

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
