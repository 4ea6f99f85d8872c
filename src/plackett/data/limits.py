"""Limits on what a file may ask of the machine: a small or an endless input must not take it all.

=================  ==============================================================================
max_features       largest feature index of LETOR text; default: in proportion to the text
max_line_bytes     longest line of text; default 64 MiB
max_expansion      bytes of text per compressed byte, beyond the first 256 MiB; default 200
=================  ==============================================================================

Pipes and devices have no size and may never end, so only regular files are opened by name; standard
input is read where the caller gives ``-``.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from plackett.base.errors import DataError, Message, Parameter, UsageError
from plackett.base.files import require_regular
from plackett.base.memory import available_memory, format_bytes

STANDARD_INPUT = "-"
DEFAULT_LINE_BYTES = 64 << 20
DEFAULT_EXPANSION = 200
_FREE_BYTES = 256 << 20  # of decompressed text, whatever the size of the file
_FREE_FEATURES = 1 << 16  # whatever the size of the text
_FREE_MATRIX_BYTES = 1 << 30
_MATRIX_BYTES_PER_BYTE = 1000  # of text: values are about 10 bytes, so 1 in 250 is not zero


@dataclass(frozen=True)
class Limits:
    """What a text may ask for; None stands for the default."""

    max_features: int | None = None
    max_line_bytes: int | None = None
    max_expansion: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and value < 1:
                raise UsageError(Message(Parameter(name), f" must be positive, got {value}."))

    @property
    def line_bytes(self) -> int:
        """Longest line of text."""
        return DEFAULT_LINE_BYTES if self.max_line_bytes is None else self.max_line_bytes

    def check_line(self, length: int, path: str, *, start: int) -> None:
        """Refuse a line of this length, or more, that begins at the byte ``start``."""
        if length > self.line_bytes:
            allow = Parameter("max_line_bytes", 2 * self.line_bytes)
            raise DataError(
                Message(
                    f"the line from byte {start:,} is longer than {self.line_bytes:,} bytes; if it "
                    "is right, allow it with ",
                    allow,
                ),
                path=path,
            )

    def check_expansion(self, text: int, compressed: int, path: str) -> None:
        """Refuse a file whose decompressed text is out of proportion to it."""
        ratio = DEFAULT_EXPANSION if self.max_expansion is None else self.max_expansion
        if text > max(_FREE_BYTES, ratio * compressed):
            actual = -(-text // max(compressed, 1))
            raise DataError(
                Message(
                    f"{format_bytes(compressed)} of compressed data hold more than "
                    f"{format_bytes(text)}; if that is right, allow it with ",
                    Parameter("max_expansion", max(2 * ratio, actual)),
                ),
                path=path,
            )

    def excess_width(self, rows: int, width: int, text_bytes: int) -> Message | None:
        """Why a matrix of this shape is refused for a text of this size; None if it is not."""
        needed = 4 * rows * width
        if self.max_features is not None:
            if width <= self.max_features:
                return None
            return Message("is above ", Parameter("max_features", self.max_features))
        wide = width > max(_FREE_FEATURES, text_bytes)
        empty = needed > max(_FREE_MATRIX_BYTES, _MATRIX_BYTES_PER_BYTE * text_bytes)
        if not (wide or empty):
            return None
        return Message(
            f"is out of proportion to {format_bytes(text_bytes)} of text: {rows:,} rows of "
            f"{width:,} features would take {format_bytes(needed)} of memory; if it is right, "
            "allow it with ",
            Parameter("max_features", width),
            ", or give a SciPy sparse matrix to Dataset.from_arrays",
        )


DEFAULT_LIMITS = Limits()


def open_binary(path: str | os.PathLike[str], limits: Limits) -> LimitedFile:
    """Open a regular file, or standard input (``-``), decompressed if it ends in .gz or .xz."""
    name = os.fspath(path)
    if name == STANDARD_INPUT:
        return LimitedFile(sys.stdin.buffer, name, limits)
    require_regular(Path(name))
    source = open(name, "rb")  # noqa: SIM115 - the LimitedFile closes it
    return LimitedFile(source, name, limits)


class LimitedFile(io.RawIOBase):
    """The bytes of a file, decompressed; an error once they are out of proportion to the file."""

    def __init__(self, source: BinaryIO, path: str, limits: Limits) -> None:
        self._source, self._path, self._limits = source, path, limits
        suffix = os.path.splitext(path)[1].lower()
        self._text: Any = source
        if suffix == ".gz":
            self._text = gzip.GzipFile(fileobj=source, mode="rb")
        elif suffix == ".xz":
            self._text = lzma.LZMAFile(source)  # noqa: SIM115
        self._done = 0

    @property
    def source_bytes(self) -> int:
        """How many bytes of the file are read; as many as of the text where it has no position."""
        return self._source.tell() if self._source.seekable() else self._done

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer."""
        count = int(self._text.readinto(buffer))
        self._done += count
        if self._text is not self._source:
            self._limits.check_expansion(self._done, self.source_bytes, self._path)
        return count

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._text is not self._source:
            self._text.close()
        if not self.closed and self._path != STANDARD_INPUT:
            self._source.close()
        super().close()


def check_memory(rows: int, width: int, path: str) -> None:
    """Refuse a dense matrix of float32 that the free memory cannot hold."""
    needed, free = 4 * rows * width, available_memory()
    if needed > free:
        raise DataError(
            Message(
                f"{rows:,} rows of {width:,} features would take {format_bytes(needed)} of memory, "
                f"and {format_bytes(free)} is free; leave them on disk with ",
                Parameter("stream", True),
            ),
            path=path,
        )
