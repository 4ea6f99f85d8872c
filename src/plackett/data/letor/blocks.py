"""Text of plain, gzip and xz files and of standard input, cut at line ends.

A *block* is small enough for memory; it is a list of *pieces* of whole lines, each parsed by one thread and followed by
:data:`~plackett.base.decimals.PADDING` readable bytes. A plain file is mapped, and only its last line or two are
copied.
"""

import errno
import lzma
import mmap
import os
import stat
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plackett.base.decimals import PADDING, find_byte
from plackett.base.errors import DataError
from plackett.base.files import require_regular
from plackett.data.files import DEFAULT_LIMITS, STANDARD_INPUT, LimitedFile, ReadLimits, open_binary

PIECE_BYTES = 4 << 20
_PIECES, _LEAST_PIECE = 16, 1 << 18  # number of pieces of a small file, so that threads share it evenly
STREAM_BYTES = 64 << 20
_BOM = b"\xef\xbb\xbf"
_ZEROS = bytes(PADDING)
_COMPRESSED = {".gz": "gzip", ".xz": "xz"}


@dataclass(frozen=True)
class Piece:
    """Whole lines: the bytes of ``text`` from ``start`` to ``stop``."""

    text: NDArray[np.uint8]
    start: int
    stop: int
    done: int
    """Bytes of the file that are done when the piece is parsed."""

    def line(self, begin: int) -> bytes:
        """Line that begins at ``begin``, with its newline."""
        return self.text[begin : find_byte(self.text, begin, ord("\n")) + 1].tobytes()

    def lines_before(self, at: int) -> int:
        """Count the lines that end before ``at``."""
        return int(np.count_nonzero(self.text[self.start : at] == ord("\n")))


@dataclass(frozen=True)
class TextFile:
    """A text file that can be read block by block."""

    path: str
    size: int
    suffix: str
    regular: bool
    limits: ReadLimits

    def blocks(self, block_bytes: int | None = None) -> Iterator[list[Piece]]:
        """Blocks of about ``block_bytes``; None: a plain file is one block."""
        if self.regular and self.suffix not in _COMPRESSED:
            return _map_blocks(self, block_bytes or max(self.size, 1))
        return _prefetch(_read_blocks(self, block_bytes or STREAM_BYTES))


def open_text(path: str | os.PathLike[str], limits: ReadLimits = DEFAULT_LIMITS) -> TextFile:
    """Find a file; an error says why it cannot be read. ``-`` is standard input."""
    name = os.fspath(path)
    if name == STANDARD_INPUT:
        return TextFile("-", 0, "", regular=False, limits=limits)
    try:
        status = os.stat(name)
        if stat.S_ISDIR(status.st_mode):
            raise DataError("is a directory; give the name of a file", path=name)
        require_regular(Path(name))
        if not os.access(name, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=name) from error
    suffix = os.path.splitext(name)[1].lower()
    return TextFile(name, status.st_size, suffix, regular=True, limits=limits)


def _as_text(buffer: bytes | mmap.mmap) -> NDArray[np.uint8]:
    text = np.frombuffer(buffer, dtype=np.uint8)
    text.flags.writeable = False  # one type for all files, so kernels are compiled once
    return text


def _cut_pieces(buffer: bytes | mmap.mmap, start: int, stop: int, file: TextFile) -> Iterator[tuple[int, int]]:
    """Spans of at most about PIECE_BYTES from ``start`` to ``stop``, which are line ends."""
    size = min(max((stop - start) // _PIECES, _LEAST_PIECE), PIECE_BYTES)
    while start < stop:
        newline = buffer.find(b"\n", start + size - 1, stop)
        end = stop if newline < 0 else newline + 1
        last = start + size  # only the last line of a piece is longer than this
        file.limits.check_line(end - last, file.path, start=last)
        yield start, end
        start = end


def _map_blocks(file: TextFile, block_bytes: int) -> Iterator[list[Piece]]:
    if file.size == 0:
        return
    with open(file.path, "rb") as content:
        buffer = mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ)
    text = _as_text(buffer)
    at = len(_BOM) if buffer[: len(_BOM)] == _BOM else 0
    cut = max(buffer.rfind(b"\n", 0, max(len(buffer) - PADDING, 0)) + 1, at)
    file.limits.check_line(len(buffer) - cut, file.path, start=cut)
    last = _as_text(buffer[cut:] + b"\n" + _ZEROS)
    tail = Piece(last, 0, len(last) - PADDING, len(buffer))
    while True:
        newline = buffer.find(b"\n", at + block_bytes - 1, cut)
        stop = cut if newline < 0 else newline + 1
        spans = _cut_pieces(buffer, at, stop, file)
        pieces = [Piece(text, start, end, end) for start, end in spans]
        if stop == cut:
            yield [*pieces, tail]
            return
        yield pieces
        at = stop


def _read_blocks(text_file: TextFile, block_bytes: int) -> Iterator[list[Piece]]:
    rest = b""
    first = True
    before = 0  # bytes of text in earlier blocks
    with open_binary(text_file.path, text_file.limits) as file:
        while True:
            chunk = _read(file, block_bytes, text_file)
            if first:
                chunk, first = chunk.removeprefix(_BOM), False
            cut = chunk.rfind(b"\n") + 1
            if chunk and cut == 0:
                rest += chunk
                text_file.limits.check_line(len(rest), text_file.path, start=before)
                continue
            data = rest + chunk[:cut] if chunk else rest + b"\n"
            buffer = data + _ZEROS
            text = _as_text(buffer)
            spans = list(_cut_pieces(buffer, 0, len(data), text_file))
            done = file.source_bytes if text_file.regular else 0
            yield [Piece(text, a, b, done) for a, b in spans]
            if not chunk:
                return
            before += len(data)
            rest = chunk[cut:]


def _read(file: LimitedFile, size: int, text_file: TextFile) -> bytes:
    """Read ``size`` bytes, fewer only at the end of the file."""
    parts = []
    try:
        while size > 0 and (part := file.read(size)):
            parts.append(part)
            size -= len(part)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        kind = _COMPRESSED.get(text_file.suffix)
        problem = "cannot be read" if kind is None else f"corrupt or truncated {kind} file"
        raise DataError(f"{problem}: {error}", path=text_file.path) from error
    return b"".join(parts)


def _prefetch(blocks: Iterator[list[Piece]]) -> Iterator[list[Piece]]:
    """Read the next block in another thread while the current one is parsed."""
    with ThreadPoolExecutor(1) as helper:
        future = helper.submit(next, blocks, None)
        while (block := future.result()) is not None:
            future = helper.submit(next, blocks, None)
            yield block
