"""Comments, and the document ids that LETOR keeps in them.

LETOR 3 and 4 write ``#docid = GX000-00-0000000 inc = 1 prob = 0.02``; others write the id alone.
"""

from __future__ import annotations

from numba import uint64

from plackett.base.decimals import find_any, word_at
from plackett.base.kernels import compiled

_NUL, _NEWLINE, _RETURN, _SPACE, _HASH, _EQUALS, _DELETE = 0, 10, 13, 32, 35, 61, 127
_DOCID, _FIVE_BYTES = int.from_bytes(b"docid", "little"), 0xFFFFFFFFFF


@compiled
def is_control(byte):  # type: ignore[no-untyped-def]
    """Whether a byte is one that no id may hold."""
    return byte < _SPACE or byte == _DELETE


@compiled
def _skip_spaces(text, at):  # type: ignore[no-untyped-def]
    # Any control character but the end of the line parts words here; a comment is free text.
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
    """Begin and end of the document id in the comment at ``at``, which are equal without one."""
    if text[at] != _HASH:
        return at, at
    begin = _skip_spaces(text, at + 1)
    if word_at(text, begin) & uint64(_FIVE_BYTES) == uint64(_DOCID):
        after = _skip_spaces(text, begin + 5)
        if text[after] == _EQUALS:
            first = _skip_spaces(text, after + 1)
            if text[first] != _NEWLINE:
                return first, _skip_word(text, first)
    return begin, _skip_word(text, begin)


@compiled
def line_end(text, at):  # type: ignore[no-untyped-def]
    """Position of the newline from ``at``, or -1 if a NUL or a lone CR comes first."""
    end = find_any(text, at, _NEWLINE, _RETURN, _NUL)
    end += text[end] == _RETURN and text[end + 1] == _NEWLINE
    return end if text[end] == _NEWLINE else -1
