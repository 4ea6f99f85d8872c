"""Features larger than memory: arrays mapped from files and processed block by block.

A data set larger than memory is a :class:`~plackett.data.dataset.Dataset` whose features are mapped
from a file; labels, offsets and keys are small. Two rules keep it out of memory:

- Code that reads all features uses :func:`iter_blocks`, which releases pages after each block. The
  pages stay in the system's cache while there is space, but no longer count as memory of the
  process.
- An array that is computed from them and is as large as they are is in a file as well:
  :func:`allocate` returns an array in a scratch file that has no name, so that a killed process
  leaves nothing behind.

Both treat arrays in memory, and mapped ones of up to :data:`LARGE_BYTES`, as usual.

Such a data set opens in milliseconds because its features are not read. The checksums of their blocks are
checked when a model, a description or a writer first needs them, once per open file: CRC-32 of
16 MiB at a time, in several threads, at the speed of the disk.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard
from weakref import WeakKeyDictionary

import numpy as np
from numba import get_num_threads
from numpy.typing import DTypeLike, NDArray

from plackett.base.errors import DataError
from plackett.base.kernels import compiled
from plackett.base.ragged import Features, Rows
from plackett.base.threads import run_parallel

LARGE_BYTES = 256 << 20
"""Mapped arrays above this size are not read into memory as a whole."""
BLOCK_BYTES = 32 << 20
"""Size of a block of features."""
SCRATCH_VARIABLE = "PLACKETT_SCRATCH"
"""Environment variable: the folder for scratch files."""


def is_large(features: Any) -> TypeGuard[NDArray[Any]]:
    """Whether features are mapped from a file and too large to be read into memory."""
    return isinstance(features, np.ndarray) and features.nbytes > LARGE_BYTES and find_mmap(features) is not None


def iter_blocks(features: NDArray[Any], *, multiple: int = 1) -> Iterator[slice]:
    """Yield slices of rows that cover the array; each starts at a multiple of ``multiple``.

    An array in memory is one block. Of a large one, only one block is in memory at a time.
    """
    if not is_large(features):
        yield slice(0, len(features))
        return
    step = rows_per_block(features[0].nbytes, multiple=multiple)
    for start in range(0, len(features), step):
        yield slice(start, min(start + step, len(features)))
        release_pages(features)


def rows_per_block(row_bytes: int, *, multiple: int = 1) -> int:
    """Number of rows in a block, given the bytes of a row; a multiple of ``multiple``."""
    return max(multiple, BLOCK_BYTES // max(1, row_bytes) // multiple * multiple)


def release_pages(features: Any) -> None:
    """Return the pages of large features to the system; they are read again when needed."""
    if sys.platform == "linux" and is_large(features):
        mapping = find_mmap(features)
        assert mapping is not None
        mapping.madvise(mmap.MADV_DONTNEED)


def allocate(like: Any, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """An uninitialized array: in a scratch file if ``like`` is large and it would be too."""
    if is_large(like) and np.dtype(dtype).itemsize * int(np.prod(shape)) > LARGE_BYTES:
        return scratch_array(_folder_of(like), shape, dtype)
    return np.empty(shape, dtype)


def scratch_array(folder: Path, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array in a file without a name, in ``folder`` if it is writable.

    The file is deleted with the last array that maps it, or with the process.
    """
    n_bytes = np.dtype(dtype).itemsize * int(np.prod(shape))
    if n_bytes == 0:
        return np.empty(shape, dtype)  # an empty file cannot be mapped
    for parent in _scratch_folders(folder):
        try:
            handle, name = tempfile.mkstemp(dir=parent, prefix=".plackett-", suffix=".scratch")
        except OSError:
            continue
        os.close(handle)
        with Path(name).open("r+b") as file:
            Path(name).unlink()
            _reserve_space(file.fileno(), n_bytes, parent)
            return _map_file(file, shape, dtype, n_bytes)
    raise DataError(
        f"there is no writable folder for a scratch file of {n_bytes / 1e9:.1f} GB; set the "
        f"environment variable {SCRATCH_VARIABLE} to one."
    )


def _scratch_folders(folder: Path) -> list[Path]:
    """The user's choice; else beside the data, whose disk had space for them; else a default."""
    chosen = os.environ.get(SCRATCH_VARIABLE)
    return [Path(chosen)] if chosen else [folder, Path(tempfile.gettempdir())]


def _reserve_space(descriptor: int, n_bytes: int, folder: Path) -> None:
    """Reserve disk space now: a write to a mapped file on a full disk would kill the process."""
    try:
        if sys.platform == "linux":
            os.posix_fallocate(descriptor, 0, max(1, n_bytes))
        else:
            os.ftruncate(descriptor, max(1, n_bytes))
    except OSError as error:
        raise DataError(
            f"no space for a scratch file of {n_bytes / 1e9:.1f} GB: {error.strerror}; free some, "
            f"or set the environment variable {SCRATCH_VARIABLE} to another folder.",
            path=str(folder),
        ) from error


def _map_file(file: BinaryIO, shape: tuple[int, ...], dtype: DTypeLike, n_bytes: int) -> NDArray[Any]:
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


def find_mmap(array: NDArray[Any]) -> mmap.mmap | None:
    """The map of a file that an array is a view of, if any."""
    owner = _find_memmap(array)
    base = None if owner is None else owner.base
    return base if isinstance(base, mmap.mmap) else None


def _find_memmap(array: NDArray[Any]) -> np.memmap[Any, Any] | None:
    """The mapped array that this one is a view of, if any.

    Not one of mode "c", whose changes are in memory only: releasing its pages would lose them.
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap) and isinstance(base.base, mmap.mmap):
            return base if base.mode != "c" else None
        base = base.base
    return None


def _folder_of(array: NDArray[Any]) -> Path:
    owner = _find_memmap(array)
    name = None if owner is None else owner.filename
    folder = Path(tempfile.gettempdir()) if name is None else Path(name).parent
    # The folder of the file may have been deleted.
    return next(parent for parent in (folder, *folder.parents) if parent.is_dir())


class RowSpool:
    """A file of float32 rows, appended block by block and read back in any order.

    It is removed when the spool is closed; where something failed, with its folder. ``absent`` fills the last columns
    of rows that are narrower than the widest.
    """

    def __init__(self, path: Path, absent: float) -> None:
        self.path, self.absent = path, absent
        self.width = 0
        self._file = path.open("w+b")
        self._shapes: list[tuple[int, int]] = []  # of each block
        self._mmap: mmap.mmap | None = None
        self._starts, self._widths = np.empty(0, np.int64), np.empty(0, np.int64)

    def __enter__(self) -> RowSpool:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._mmap = None  # arrays may still refer to it; it closes with the last of them
        self._file.close()
        if kind is None:  # else its size says how much a full disk could not hold
            self.path.unlink(missing_ok=True)

    def append(self, features: Features) -> None:
        """Add rows at the end."""
        self._file.write(np.ascontiguousarray(features).reshape(-1).data)
        self._shapes.append(features.shape)
        self.width = max(self.width, features.shape[1])

    def gather(self, rows: Rows) -> Features:
        """Copy rows, all as wide as the widest; no rows can be added after this."""
        if self._mmap is None:
            self._open()
        assert self._mmap is not None
        out = np.empty((len(rows), self.width), np.float32)
        flat: NDArray[np.float32] = np.frombuffer(self._mmap, np.float32)
        starts, widths = self._starts[rows], self._widths[rows]
        run_parallel(_gather, len(starts), flat, starts, widths, np.float32(self.absent), out)
        if sys.platform == "linux":
            self._mmap.madvise(mmap.MADV_DONTNEED)  # see release_pages
        return out

    def _open(self) -> None:
        self._file.flush()
        self._mmap = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        heights = [height for height, _ in self._shapes]
        self._widths = np.repeat([width for _, width in self._shapes], heights)
        self._starts = np.cumsum(self._widths) - self._widths


@compiled
def _gather(first, last, flat, starts, widths, absent, out):  # type: ignore[no-untyped-def]
    for row in range(first, last):
        width = widths[row]
        for column in range(width):
            out[row, column] = flat[starts[row] + column]
        out[row, width:] = absent


CHECKSUM_BYTES = 16 << 20


@dataclass(frozen=True)
class _Check:
    """What the values of a mapped file must satisfy."""

    path: Path
    sums: Sequence[int] | None
    """None for a file without checksums: its values must be finite."""
    allow_nan: bool


_unchecked: WeakKeyDictionary[mmap.mmap, _Check] = WeakKeyDictionary()
_lock = threading.Lock()


def sum_blocks(path: Path) -> list[int]:
    """The CRC-32 of each block of a file."""
    sums = []
    with path.open("rb") as file:
        while block := file.read(CHECKSUM_BYTES):
            sums.append(zlib.crc32(block))
    return sums


def expect(array: NDArray[Any], path: Path, sums: Sequence[int] | None, *, allow_nan: bool) -> None:
    """Check a mapped array before it is first used: see :func:`check_before_use`."""
    mapping = find_mmap(array)
    if mapping is not None:
        _unchecked[mapping] = _Check(path, sums, allow_nan)


def check_before_use(array: Any, progress: Callable[[int, int], object] | None = None) -> bool:
    """Check an array if it is mapped from a data set on disk and not checked yet.

    Returns whether there are checksums; without them, only NaN and infinities are found. An array
    in memory, or one that was checked, costs nothing.
    """
    mapping = find_mmap(array) if isinstance(array, np.ndarray) else None
    with _lock:
        check = None if mapping is None else _unchecked.get(mapping)
        if mapping is None or check is None:
            return True
        if check.sums is None:
            _check_finite(array, check)
        else:
            _check_sums(mapping, check.sums, check.path, progress)
        del _unchecked[mapping]
        release_pages(array)
        return check.sums is not None


def _check_sums(
    mapping: mmap.mmap, sums: Sequence[int], path: Path, progress: Callable[[int, int], object] | None
) -> None:
    content = memoryview(mapping)
    starts = range(0, len(content), CHECKSUM_BYTES)
    with ThreadPoolExecutor(get_num_threads()) as executor:
        # A few blocks at a time, so that pages of a large file can be given back.
        for group in range(0, len(starts), 8):
            chosen = starts[group : group + 8]
            blocks = [content[start : start + CHECKSUM_BYTES] for start in chosen]
            for start, actual in zip(chosen, executor.map(zlib.crc32, blocks), strict=True):
                if actual != sums[start // CHECKSUM_BYTES]:
                    end = min(start + CHECKSUM_BYTES, len(content))
                    raise DataError(
                        f"bytes {start:,} to {end:,} are not what was written: their checksum "
                        "differs; the data set is damaged: write it again",
                        path=str(path),
                    )
            if progress is not None:
                progress(min(chosen[-1] + CHECKSUM_BYTES, len(content)), len(content))
            if len(content) > 8 * CHECKSUM_BYTES and hasattr(mmap, "MADV_DONTNEED"):
                mapping.madvise(mmap.MADV_DONTNEED)


def _check_finite(array: NDArray[Any], check: _Check) -> None:
    if array.dtype.kind != "f":
        return
    step = max(1, CHECKSUM_BYTES // max(1, array[:1].nbytes))
    for start in range(0, len(array), step):
        block = array[start : start + step]
        wrong = np.isinf(block) if check.allow_nan else ~np.isfinite(block)
        if wrong.any():
            row, column = (int(i) for i in np.argwhere(wrong)[0])
            raise DataError(
                f"row {start + row}, feature {column + 1} is {block[row, column]}; the data set "
                "is damaged: write it again",
                path=str(check.path),
            )
