"""The compiled parser: lines of text to rows of arrays.

:func:`survey` counts rows and features, so that arrays are allocated once; it reads only the last token of each line,
because indices are ascending. :func:`parse_rows` reads short decimals and ASCII. :func:`parse_any_rows` continues where
it stops; for most files it is not needed and not compiled. Lines that neither can read are left to
:mod:`plackett.data.letor.errors`, which has all messages.

Document ids are in comments: LETOR 3 and 4 write ``#docid = GX000-00-0000000 inc = 1 prob = 0.02``, others only the
id.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import float32, int64, uint32, uint64
from numpy.typing import NDArray

from plackett.base import decimals
from plackett.base.kernels import compiled
from plackett.base.ragged import Ids, Offsets

_NUL, _TAB, _NEWLINE, _RETURN, _SPACE, _DELETE = 0, 9, 10, 13, 32, 127
_HASH, _COLON, _EQUALS, _PLUS, _MINUS, _ZERO, _NINE = 35, 58, 61, 43, 45, 48, 57
_DOCID, _FIVE_BYTES = int.from_bytes(b"docid", "little"), 0xFFFFFFFFFF
_QID, _FOUR_BYTES = int.from_bytes(b"qid:", "little"), 0xFFFFFFFF
_NAN, _THREE_BYTES, _TO_LOWER = int.from_bytes(b"nan", "little"), 0xFFFFFF, 0x202020
_LARGEST = np.iinfo(np.int64).max
_KNOWN_COLUMNS = 1 << 16  # columns whose index is compared as a word

LONGEST = 256
"""An array of strings uses the length of the longest for all; longer ids are stored as objects."""
_DECODED = 2000  # strings that are decoded together, so that temporary arrays stay small
LARGEST_INDEX = 9 * 10**17 - 1
"""Larger indices are replaced with this number plus one; ten times that still fits in an int64."""


@compiled
def _skip_spaces(text, at):  # type: ignore[no-untyped-def]
    # In a comment, any control character but the end of the line separates words.
    while text[at] <= _SPACE and text[at] != _NEWLINE:
        at += 1
    return at


@compiled
def _skip_word(text, at):  # type: ignore[no-untyped-def]
    while text[at] > _SPACE:
        at += 1
    return at


@compiled
def document_id(text, at):  # type: ignore[no-untyped-def]
    """Begin and end of the document id in the comment at ``at``; they are equal if it has none."""
    if text[at] != _HASH:
        return at, at
    begin = _skip_spaces(text, at + 1)
    if decimals.word_at(text, begin) & uint64(_FIVE_BYTES) == uint64(_DOCID):
        after = _skip_spaces(text, begin + 5)
        if text[after] == _EQUALS:
            first = _skip_spaces(text, after + 1)
            if text[first] != _NEWLINE:
                return first, _skip_word(text, first)
    return begin, _skip_word(text, begin)


@compiled
def line_end(text, at):  # type: ignore[no-untyped-def]
    """Position of the newline from ``at``, or -1 if a NUL or a lone CR comes first."""
    end = decimals.find_any(text, at, _NEWLINE, _RETURN, _NUL)
    end += text[end] == _RETURN and text[end + 1] == _NEWLINE
    return end if text[end] == _NEWLINE else -1


@compiled
def parse_integer(text, at, end):  # type: ignore[no-untyped-def]
    """Value of an id that is an integer in Python's notation, and whether it is one."""
    negative = text[at] == _MINUS
    first = at + int64(negative)
    count = end - first
    if count == 0 or count > 19 or (text[first] == _ZERO and (count > 1 or negative)):
        return int64(0), False
    value = uint64(0)
    for i in range(first, end):
        if not _ZERO <= text[i] <= _NINE:
            return int64(0), False
        value = value * uint64(10) + uint64(text[i] - _ZERO)
    fits = value <= uint64(_LARGEST) + uint64(negative)
    return (-int64(value) if negative else int64(value)), fits


@compiled
def _utf8_length(text, at):  # type: ignore[no-untyped-def]
    """Length of the UTF-8 sequence at ``at``; 0 if it is malformed."""
    lead = uint32(text[at])
    if lead < 0x80:
        return 1
    if lead < 0xC2 or lead > 0xF4:
        return 0
    length = 2 + int64(lead >= 0xE0) + int64(lead >= 0xF0)
    point = lead & uint32(0xFF >> (length + 1))
    for i in range(at + 1, at + length):
        if text[i] & 0xC0 != 0x80:
            return 0
        point = (point << uint32(6)) | uint32(text[i] & 0x3F)
    surrogate = 0xD800 <= point <= 0xDFFF
    overlong = point < (0x80 if length == 2 else 0x800 if length == 3 else 0x10000)
    return 0 if surrogate or overlong or point > 0x10FFFF else length


@compiled
def is_utf8(text, at, end):  # type: ignore[no-untyped-def]
    """Whether the bytes from ``at`` to ``end`` are UTF-8."""
    while at < end:
        length = _utf8_length(text, at)
        at += length
        if length == 0:
            return False
    return at == end


def decode_strings(text: NDArray[np.uint8], spans: Offsets) -> Ids:
    """Array of the strings at these spans (begin and length) of checked UTF-8."""
    if int(spans[:, 1].max(initial=1)) > LONGEST:
        view = memoryview(text.data)
        strings = [str(view[begin : begin + n], "utf-8") for begin, n in spans.tolist()]
        return np.array(strings, dtype=object if max(map(len, strings)) > LONGEST else np.str_)
    starts = range(0, max(len(spans), 1), _DECODED)
    return np.concatenate([_decode(text, spans[start : start + _DECODED]) for start in starts])


def _decode(text: NDArray[np.uint8], spans: Offsets) -> Ids:
    begins, sizes = spans[:, :1], spans[:, 1:]
    size = int(sizes.max(initial=1))
    inside = np.arange(size) < sizes
    codes = np.where(inside, text[np.where(inside, begins + np.arange(size), 0)], np.uint8(0))
    if codes.max(initial=0) < 128:
        return codes.astype(np.uint32).view(f"U{size}")[:, 0]
    return np.strings.decode(codes.view(f"S{size}")[:, 0], "utf-8")


class Survey(NamedTuple):
    """Counts of one piece of text."""

    lines: int
    rows: int
    """Lines that are neither blank nor only a comment."""
    width: int
    """Largest feature index."""
    widest: int
    """Line of that index, counted from 0."""


@compiled
def index_at(text, at):  # type: ignore[no-untyped-def]
    """Feature index at ``at``, 0 if there is none, and the position of its value."""
    index = int64(0)
    while _ZERO <= text[at] <= _NINE:
        index = min(index * 10 + int64(text[at] - _ZERO), int64(LARGEST_INDEX + 1))
        at += 1
    return (index if text[at] == _COLON else int64(0)), at + 1


@compiled
def survey(text, at, stop):  # type: ignore[no-untyped-def]
    """Count lines and rows from ``at`` to ``stop``; also the width and the line that has it."""
    lines = rows = width = widest = 0
    while at < stop:
        end = decimals.find_either(text, at, _NEWLINE, _HASH)
        newline = end if text[end] == _NEWLINE else decimals.find_byte(text, end, _NEWLINE)
        while end > at and text[end - 1] in (_SPACE, _TAB, _RETURN):
            end -= 1
        if end > at:
            rows += 1
            while end > at and text[end - 1] != _SPACE and text[end - 1] != _TAB:  # to the begin of the last token
                end -= 1
            index, _ = index_at(text, end)
            if index > width:
                width, widest = index, lines
        lines += 1
        at = newline + 1
    return lines, rows, width, widest


def encode_indices(width: int) -> tuple[np.ndarray, Offsets]:
    """The texts ``1:``, ``2:`` ... as 64-bit words, and the number of bytes of each."""
    texts = [b"%d:" % (column + 1) for column in range(min(width, _KNOWN_COLUMNS))]
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
    value, end = decimals.parse_short_float32(text, at)
    if end < 0 or text[end] | 32 == 101:
        value, end = decimals.parse_float32(text, at)
        if end < 0 and allow_nan:
            at += text[at] == _PLUS or text[at] == _MINUS
            word = (decimals.word_at(text, at) | uint64(_TO_LOWER)) & uint64(_THREE_BYTES)
            if word == uint64(_NAN):
                return float32(np.nan), at + 3
    return value, end


@compiled
def _short_value(text, at, _allow_nan):  # type: ignore[no-untyped-def]
    return decimals.parse_short_float32(text, at)


@compiled
def _is_ascii(text, at, end):  # type: ignore[no-untyped-def]
    while at < end and text[at] < 128:
        at += 1
    return at >= end


@compiled
def _label(text, at):  # type: ignore[no-untyped-def]
    """Label at ``at``, and its end or -1."""
    mantissa, exponent, negative, end = decimals.parse_decimal(text, at)
    label, known = decimals.nearest_float32(mantissa, exponent)
    if not known or (negative and mantissa != 0):
        return label, -1
    return label, end


@compiled
def _short_label(text, at):  # type: ignore[no-untyped-def]
    label, end = decimals.parse_short_float32(text, at)
    return label, (-1 if text[at] == _MINUS else end)


def _make_parser(label_at: Any, value_at: Any, is_text: Any) -> Any:
    """A kernel that parses lines with these functions for labels, values and the text of ids."""

    @compiled
    def query_at(text, at):  # type: ignore[no-untyped-def]
        """Begin and end of the query id after ``qid:`` at ``at``; the end is -1 if there is none."""
        if decimals.word_at(text, at) & uint64(_FOUR_BYTES) != uint64(_QID):
            return at, -1
        begin = end = at + 4
        while not ends_token(text, end):
            if text[end] < _SPACE or text[end] == _DELETE:  # a control character
                return begin, -1
            end += 1
        if end == begin or not is_text(text, begin, end):
            return begin, -1
        return begin, end

    @compiled
    def fill_row(text, at, row, words, sizes, limit, absent):  # type: ignore[no-untyped-def]
        """Read the features of one line into its row.

        Returns where the data of the line ends (-1 if this parser cannot read it) and whether the row
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
                if (decimals.word_at(text, at) ^ words[column]) << uint64(64 - 8 * size) == 0:
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
                value, at = value_at(text, at, allow_nan)
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
    def parse(text, at, stop, row, out, settings):  # type: ignore[no-untyped-def]
        features, labels, queries, query_spans, document_spans = out
        words, sizes, limit, absent = settings
        full = integers = True
        while at < stop:
            begin = at
            at = skip_blanks(text, at)
            taken = not ends_data(text, at)
            if taken:
                label, at = label_at(text, at)
                if at < 0 or not (text[at] == _SPACE or text[at] == _TAB):
                    return begin, row, full, integers
                first, last = query_at(text, skip_blanks(text, at))
                if last < 0:
                    return begin, row, full, integers
                at = last + (text[last] == _SPACE)
                at, whole = fill_row(text, at, features[row], words, sizes, limit, absent)
                if at < 0:
                    return begin, row, full, integers
                labels[row] = label
                query_spans[row, 0], query_spans[row, 1] = first, last - first
                queries[row], known = parse_integer(text, first, last)
                first, last = document_id(text, at)
                document_spans[row, 0], document_spans[row, 1] = first, last - first
            at = line_end(text, at)
            if at < 0 or (taken and not is_text(text, first, last)):
                return begin, row, full, integers
            if taken:
                full, integers, row = full and whole, integers and known, row + 1
            at += 1
        return at, row, full, integers

    return parse


parse_rows = _make_parser(_short_label, _short_value, _is_ascii)
"""Parse the lines from ``at`` to ``stop`` into the rows from ``row``.

Returns where it stopped (``stop``, or the begin of a line that it cannot parse), the next row,
whether all rows so far were full, and whether all query ids were integers.
"""
parse_any_rows = _make_parser(_label, _value, is_utf8)
"""Like :func:`parse_rows`, also for long decimals, exponents, NaN and ids in UTF-8."""
