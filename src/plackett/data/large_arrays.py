"""Features larger than memory: arrays mapped from files, gone through block by block.

A data set larger than memory is a :class:`~plackett.data.dataset.Dataset` whose features are mapped
from a file; labels, offsets and keys are small. Two rules keep it out of memory:

- Who goes through features does it by :func:`walk`, which hands pages back after each block. They
  stay in the system's cache while there is room, but no longer count as the process's own.
- What is made from them and is as large as they are, is a file as well: :func:`empty` gives an
  array in a scratch file that has no name, so that a killed process leaves nothing behind.

Both do nothing special for arrays in memory, and for mapped ones up to :data:`SMALL` bytes.

Features of unknown width, appended to a file block by block and gathered in any order.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

import numpy as np
from numba import njit, prange
from numpy.typing import DTypeLike, NDArray

from plackett.base.errors import DataError
from plackett.base.ragged import Features, Rows

SMALL = 256 << 20
"""Bytes of mapped features up to which they are treated like any others."""
BLOCK_BYTES = 32 << 20
"""Features that are looked at together."""
SCRATCH = "PLACKETT_SCRATCH"
"""Environment variable: the folder for scratch files."""


def is_large(features: Any) -> TypeGuard[NDArray[Any]]:
    """Whether features are mapped from a file and too large to be taken into memory."""
    return (
        isinstance(features, np.ndarray)
        and features.nbytes > SMALL
        and _mapping(features) is not None
    )


def iter_blocks(features: NDArray[Any], *, multiple: int = 1) -> Iterator[slice]:
    """Rows block by block, each begun at a multiple of ``multiple``; one block in memory."""
    if not is_large(features):
        yield slice(0, len(features))
        return
    step = rows_per_block(features[0].nbytes, multiple=multiple)
    for start in range(0, len(features), step):
        yield slice(start, min(start + step, len(features)))
        release_pages(features)


def rows_per_block(row_bytes: int, *, multiple: int = 1) -> int:
    """How many rows of so many bytes a block has."""
    return max(multiple, BLOCK_BYTES // max(1, row_bytes) // multiple * multiple)


def release_pages(features: Any) -> None:
    """Hand the pages of large features back to the system; they are read again when needed."""
    if sys.platform == "linux" and is_large(features):
        mapping = _mapping(features)
        assert mapping is not None
        mapping.madvise(mmap.MADV_DONTNEED)


def empty(like: Any, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """An array to be filled: in a scratch file if ``like`` is large and it would be too."""
    if is_large(like) and np.dtype(dtype).itemsize * int(np.prod(shape)) > SMALL:
        return scratch_array(_folder(like), shape, dtype)
    return np.empty(shape, dtype)


def scratch_array(folder: Path, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array in a file without a name, in ``folder`` or where there is leave to write.

    The file is gone when the last array over it is, or the process.
    """
    n_bytes = np.dtype(dtype).itemsize * int(np.prod(shape))
    if n_bytes == 0:
        return np.empty(shape, dtype)  # there are no maps of nothing
    for place in _places(folder):
        try:
            handle, name = tempfile.mkstemp(dir=place, prefix=".plackett-", suffix=".scratch")
        except OSError:
            continue
        os.close(handle)
        with Path(name).open("r+b") as file:
            Path(name).unlink()
            _reserve(file.fileno(), n_bytes, place)
            return _mapped(file, shape, dtype, n_bytes)
    raise DataError(
        f"there is no folder to write a scratch file of {n_bytes / 1e9:.1f} GB to; set the "
        f"environment variable {SCRATCH} to one."
    )


def _places(folder: Path) -> list[Path]:
    """Where the user says; else beside the data, where there was room for them; else for all."""
    chosen = os.environ.get(SCRATCH)
    return [Path(chosen)] if chosen else [folder, Path(tempfile.gettempdir())]


def _reserve(descriptor: int, n_bytes: int, place: Path) -> None:
    """Take the room now: a write to a mapped file on a full disk would kill the process."""
    try:
        if sys.platform == "linux":
            os.posix_fallocate(descriptor, 0, max(1, n_bytes))
        else:
            os.ftruncate(descriptor, max(1, n_bytes))
    except OSError as error:
        raise DataError(
            f"no room for a scratch file of {n_bytes / 1e9:.1f} GB: {error.strerror}; make room, "
            f"or set the environment variable {SCRATCH} to another folder.",
            path=str(place),
        ) from error


def _mapped(file: BinaryIO, shape: tuple[int, ...], dtype: DTypeLike, n_bytes: int) -> NDArray[Any]:
    try:
        return np.asarray(np.memmap(file, dtype, "r+", shape=shape))
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise
        raise DataError(
            f"a scratch file of {n_bytes / 1e9:.1f} GB cannot be mapped: a limit of addresses "
            "(ulimit -v) counts files on disk too. Raise it, and limit memory by ulimit -d or by a "
            "control group instead."
        ) from error


def _mapping(array: NDArray[Any]) -> mmap.mmap | None:
    owner = _owner(array)
    found = None if owner is None else owner.base
    return found if isinstance(found, mmap.mmap) else None


def _owner(array: NDArray[Any]) -> np.memmap[Any, Any] | None:
    """The mapped array that this one is a view of, if any.

    Not one whose changes are kept in memory only (mode "c"): with its pages they would be lost.
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap) and isinstance(base.base, mmap.mmap):
            return base if base.mode != "c" else None
        base = base.base
    return None


def _folder(array: NDArray[Any]) -> Path:
    owner = _owner(array)
    name = None if owner is None else owner.filename
    folder = Path(tempfile.gettempdir()) if name is None else Path(name).parent
    # The file may have been in a folder that is gone.
    return next(place for place in (folder, *folder.parents) if place.is_dir())


class Scratch:
    """A file of float32 rows; blocks may have different widths.

    Parameters
    ----------
    path
        Where; the file is removed when the scratch is closed.
    absent
        What a row narrower than the widest has in its last columns.
    """

    def __init__(self, path: Path, absent: float) -> None:
        self.path, self.absent = path, absent
        self.width = 0
        self._file = path.open("w+b")
        self._blocks: list[tuple[int, int]] = []  # rows and width of each
        self._map: mmap.mmap | None = None
        self._starts, self._widths = np.empty(0, np.int64), np.empty(0, np.int64)

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        self._map = None  # arrays may still refer to it; it closes with the last of them
        self._file.close()
        self.path.unlink(missing_ok=True)

    def append(self, features: Features) -> None:
        """Add rows at the end."""
        self._file.write(np.ascontiguousarray(features).reshape(-1).data)
        self._blocks.append(features.shape)
        self.width = max(self.width, features.shape[1])

    def gather(self, rows: Rows) -> Features:
        """Copy rows, all as wide as the widest; no rows can be added after this."""
        if self._map is None:
            self._open()
        assert self._map is not None
        out = np.empty((len(rows), self.width), np.float32)
        flat: NDArray[np.float32] = np.frombuffer(self._map, np.float32)
        _gather(flat, self._starts[rows], self._widths[rows], np.float32(self.absent), out)
        if sys.platform == "linux":
            # What was read stays in the system's cache, but no longer counts as ours.
            self._map.madvise(mmap.MADV_DONTNEED)
        return out

    def _open(self) -> None:
        self._file.flush()
        self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        heights = [height for height, _ in self._blocks]
        self._widths = np.repeat([width for _, width in self._blocks], heights)
        self._starts = np.cumsum(self._widths) - self._widths


@njit(cache=True, nogil=True, parallel=True)
def _gather(flat, starts, widths, absent, out):  # type: ignore[no-untyped-def]
    for row in prange(len(starts)):
        width = widths[row]
        out[row, :width] = flat[starts[row] : starts[row] + width]
        out[row, width:] = absent
