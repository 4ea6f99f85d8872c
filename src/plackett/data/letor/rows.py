"""The compiled parser: lines of text to rows of arrays.

It takes every line that is right and says no more of one that is not than that it is not its
own: it stops there, and :mod:`.careful` either takes the line (a decimal that needs exact
arithmetic) or names the error. So there is no error code here, and one place for all messages.
"""

from __future__ import annotations

import numpy as np
from numba import float32, uint64

from plackett.base.decimals import decimal, nearest, number, short_number, word_at
from plackett.base.kernels import compiled
from plackett.base.ragged import Offsets
from plackett.data.letor.comments import document_id, is_control, line_end
from plackett.data.letor.ids import integer, is_utf8
from plackett.data.letor.survey import index_at

_TAB, _NEWLINE, _RETURN, _SPACE, _HASH, _COLON = 9, 10, 13, 32, 35, 58
_PLUS, _MINUS, _ZERO = 43, 45, 48
_QID, _FOUR_BYTES = int.from_bytes(b"qid:", "little"), 0xFFFFFFFF
_NAN, _THREE_BYTES, _TO_LOWER = int.from_bytes(b"nan", "little"), 0xFFFFFF, 0x202020
_TABLE = 1 << 16  # columns whose spelling is kept at hand


def spellings(width: int) -> tuple[np.ndarray, Offsets]:
    """Return ``1:``, ``2:`` ... as words, and the number of bytes of each."""
    texts = [b"%d:" % (column + 1) for column in range(min(width, _TABLE))]
    words = np.array([int.from_bytes(text, "little") for text in texts], dtype=np.uint64)
    return words, np.array([len(text) for text in texts], dtype=np.int64)


@compiled
def skip_blanks(text, at):  # type: ignore[no-untyped-def]
    """First position from ``at`` that holds neither a space nor a tab."""
    while text[at] == _SPACE or text[at] == _TAB:
        at += 1
    return at


@compiled
def ends_data(text, at):  # type: ignore[no-untyped-def]
    """Whether a comment or the end of the line begins at ``at``."""
    byte = text[at]
    return byte in (_HASH, _NEWLINE) or (byte == _RETURN and text[at + 1] == _NEWLINE)


@compiled
def ends_token(text, at):  # type: ignore[no-untyped-def]
    """Whether a token may end before ``at``."""
    return text[at] == _SPACE or text[at] == _TAB or ends_data(text, at)


@compiled
def _value(text, at, allow_nan):  # type: ignore[no-untyped-def]
    """Value at ``at`` and its end, or -1."""
    value, end = short_number(text, at)
    if end < 0 or text[end] | 32 == 101:
        value, end = number(text, at)
        if end < 0 and allow_nan:
            at += text[at] == _PLUS or text[at] == _MINUS
            word = (word_at(text, at) | uint64(_TO_LOWER)) & uint64(_THREE_BYTES)
            if word == uint64(_NAN):
                return float32(np.nan), at + 3
    return value, end


@compiled
def fill_row(text, at, row, words, sizes, limit, absent):  # type: ignore[no-untyped-def]
    """Read the features of one line into its row.

    Returns where the data of the line end (-1: not a line for this parser) and whether the row
    lists every index.
    """
    column, full = 0, True
    allow_nan = np.isnan(absent)
    known = len(words)
    width = len(row)
    while True:
        index = column + 1
        if column < known:
            size = sizes[column]
            if (word_at(text, at) ^ words[column]) << uint64(64 - 8 * size) == 0:
                at += size
            else:
                index = 0
        else:
            index = 0
        if index == 0:
            at = skip_blanks(text, at)
            if ends_data(text, at):
                break
            index, at = index_at(text, at)
            if index <= column or index > limit:
                return -1, False
            full &= index == column + 1
            for skipped in range(column, min(index - 1, width)):
                row[skipped] = absent
        byte = text[at] - _ZERO
        if text[at + 1] == _SPACE and 0 <= byte <= 9:
            value, at = float32(byte), at + 1
        else:
            value, at = _value(text, at, allow_nan)
            if at < 0 or not ends_token(text, at):
                return -1, False
        if index <= width:
            row[index - 1] = value
        column = index
        at += text[at] == _SPACE
    for skipped in range(column, width):
        row[skipped] = absent
    return at, full and column == width


@compiled
def _query(text, at):  # type: ignore[no-untyped-def]
    """Span of the query id behind ``qid:`` at ``at``; its end is -1 if there is none."""
    if word_at(text, at) & uint64(_FOUR_BYTES) != uint64(_QID):
        return at, -1
    begin = end = at + 4
    ascii_only = True
    while not ends_token(text, end):
        if is_control(text[end]):
            return begin, -1
        ascii_only &= text[end] < 128
        end += 1
    if end == begin or not (ascii_only or is_utf8(text, begin, end)):
        return begin, -1
    return begin, end


@compiled
def _head(text, at):  # type: ignore[no-untyped-def]
    """Label and span of the query id, whose end is -1 if either is not right."""
    mantissa, exponent, negative, end = decimal(text, at)
    label, known = nearest(mantissa, exponent)
    blank = end >= 0 and (text[end] == _SPACE or text[end] == _TAB)
    if not blank or not known or (negative and mantissa != 0):
        return label, at, -1
    begin, end = _query(text, skip_blanks(text, end))
    return label, begin, end


@compiled
def parse_rows(text, at, stop, row, out, settings):  # type: ignore[no-untyped-def]
    """Parse the lines from ``at`` to ``stop`` into the rows from ``row``.

    Returns where it stopped, ``stop`` or the begin of a line that is not its own; the next row;
    whether all rows so far were full; and whether all query ids were integers.
    """
    features, labels, queries, query_spans, document_spans = out
    words, sizes, limit, absent = settings
    full = integers = True
    while at < stop:
        begin = at
        at = skip_blanks(text, at)
        taken = not ends_data(text, at)
        if taken:
            label, first, last = _head(text, at)
            if last < 0:
                return begin, row, full, integers
            at = last + (text[last] == _SPACE)
            at, whole = fill_row(text, at, features[row], words, sizes, limit, absent)
            if at < 0:
                return begin, row, full, integers
            labels[row] = label
            query_spans[row, 0], query_spans[row, 1] = first, last - first
            queries[row], known = integer(text, first, last)
            first, last = document_id(text, at)
            document_spans[row, 0], document_spans[row, 1] = first, last - first
        at = line_end(text, at)
        if at < 0 or (taken and not is_utf8(text, first, last)):
            return begin, row, full, integers
        if taken:
            full, integers, row = full and whole, integers and known, row + 1
        at += 1
    return at, row, full, integers
