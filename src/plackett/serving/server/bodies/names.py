"""Names of features, laid out so that compiled code finds a feature by the bytes of its name.

An open-addressing hash table; but clients name features in the same order in every document, so
the feature behind the last one is looked at first and the table is seldom needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from plackett.base.kernels import compiled

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
