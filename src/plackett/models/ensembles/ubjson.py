"""Universal Binary JSON, as far as XGBoost writes it (draft 12 of its specification).

A value is a one-byte marker and its contents, numbers with the high byte first. Lengths are numbers
of the same kind. Arrays of one type, ``[$d#...``, become NumPy arrays without a copy; a length
beyond the end of the data is refused before anything is allocated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plackett.base.errors import DataError

# Markers of numbers and their types, the high byte first.
_NUMBERS: dict[int, np.dtype[Any]] = {
    ord("i"): np.dtype(">i1"),
    ord("U"): np.dtype(">u1"),
    ord("I"): np.dtype(">i2"),
    ord("l"): np.dtype(">i4"),
    ord("L"): np.dtype(">i8"),
    ord("d"): np.dtype(">f4"),
    ord("D"): np.dtype(">f8"),
}
_CONSTANTS = {ord("T"): True, ord("F"): False, ord("Z"): None}
_DEEPEST = 32  # XGBoost's models nest eight levels deep


class _Reader:
    """Position in the data; every method reads one thing and moves on."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise DataError(f"the binary model is cut off or damaged at byte {self.at}.")
        self.at += size
        return self.data[self.at - size : self.at]

    def marker(self) -> int:
        return self.take(1)[0]

    def follows(self, marker: str) -> bool:
        """Whether this marker comes next; if so, step over it."""
        found = self.data[self.at : self.at + 1] == marker.encode()
        self.at += found
        return found

    def number(self, marker: int) -> int | float:
        if marker not in _NUMBERS:
            raise DataError(f"the binary model is damaged at byte {self.at}: no number there.")
        kind = _NUMBERS[marker]
        found: int | float = np.frombuffer(self.take(kind.itemsize), kind)[0].item()
        return found

    def length(self) -> int:
        found = self.number(self.marker())
        if not isinstance(found, int):
            raise DataError(f"the binary model is damaged at byte {self.at}: no length there.")
        return found

    def text(self) -> str:
        return self.take(self.length()).decode("utf-8", errors="replace")

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise DataError(f"the binary model is nested more than {_DEEPEST} levels deep.")
        marker = self.marker()
        if marker == ord("{"):
            return self.object(depth)
        if marker == ord("["):
            return self.array(depth)
        if marker == ord("S"):
            return self.text()
        return _CONSTANTS[marker] if marker in _CONSTANTS else self.number(marker)

    def object(self, depth: int) -> dict[str, Any]:
        found = {}
        while not self.follows("}"):
            key = self.text()
            found[key] = self.value(depth + 1)
        return found

    def array(self, depth: int) -> Any:
        if self.follows("$"):
            kind = _NUMBERS.get(self.marker())
            if kind is None or not self.follows("#"):
                raise DataError(f"the binary model is damaged at byte {self.at}: no array there.")
            return np.frombuffer(self.take(self.length() * kind.itemsize), kind)
        if self.follows("#"):
            count = self.length()
            if count > len(self.data) - self.at:
                raise DataError(f"the binary model is cut off at byte {self.at}.")
            return [self.value(depth + 1) for _ in range(count)]
        found = []
        while not self.follows("]"):
            found.append(self.value(depth + 1))
        return found


def decode(data: bytes) -> Any:
    """The value that UBJSON data stand for; typed arrays become NumPy arrays."""
    return _Reader(data).value(0)
