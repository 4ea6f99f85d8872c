"""Features larger than memory: arrays mapped from files and processed block by block.

Code that reads all features uses :func:`iter_blocks`, which returns the pages of each block to the system. Results of
the same size go to a scratch file without a name (:func:`allocate`). Both treat arrays in memory, and mapped ones of up
to :data:`LARGE_BYTES`, as usual. Checksums of mapped features (CRC-32 of 16 MiB at a time) are checked only before the
first use of the features, so that a data set opens in milliseconds.
"""

import errno
import mmap
import os
import shutil
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard
from weakref import WeakKeyDictionary

import numpy as np
from numba import get_num_threads
from numpy.typing import DTypeLike, NDArray

from plackett.base.errors import DataError
from plackett.base.memory import format_bytes

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

    An array in memory is one block. For a large array, only one block is in memory at a time.
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
    if not is_large(like) or np.dtype(dtype).itemsize * int(np.prod(shape)) <= LARGE_BYTES:
        return np.empty(shape, dtype)
    owner = _find_memmap(like)
    name = None if owner is None else owner.filename
    folder = Path(tempfile.gettempdir()) if name is None else Path(name).parent
    # The folder of the file may have been deleted.
    return scratch_array(next(parent for parent in (folder, *folder.parents) if parent.is_dir()), shape, dtype)


def scratch_array(folder: Path, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array in a file without a name, in ``folder`` if it is writable.

    The file is deleted with the last array that maps it, or with the process.
    """
    n_bytes = np.dtype(dtype).itemsize * int(np.prod(shape))
    if n_bytes == 0:
        return np.empty(shape, dtype)  # an empty file cannot be mapped
    with open_scratch(folder, n_bytes) as file:
        # Reserve space now: a write to a mapped file on a full disk would kill the process.
        with explain_write_error(file, n_bytes):
            if sys.platform == "linux":
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:
                os.ftruncate(file.fileno(), n_bytes)
        return map_scratch(file, shape, dtype)


def open_scratch(folder: Path, n_bytes: int | None = None) -> BinaryIO:
    """Open a file without a name, in ``folder`` if it is writable; ``n_bytes`` is for the error."""
    # The user's choice; else next to the data, whose disk had space for them; else a default.
    chosen = os.environ.get(SCRATCH_VARIABLE)
    for parent in [Path(chosen)] if chosen else [folder, Path(tempfile.gettempdir())]:
        try:
            handle, name = tempfile.mkstemp(dir=parent, prefix=".plackett-", suffix=".scratch")
        except OSError:
            continue
        os.close(handle)
        file = Path(name).open("r+b")  # noqa: SIM115 - the caller closes it
        Path(name).unlink()
        return file
    size = "" if n_bytes is None else f" of {format_bytes(n_bytes)}"
    raise DataError(
        f"there is no writable folder for a scratch file{size}; set the environment variable {SCRATCH_VARIABLE} to one."
    )


@contextmanager
def explain_write_error(file: BinaryIO, n_bytes: int | None = None) -> Iterator[None]:
    """Make errors of writing a scratch file, such as a full disk, say how large it is, and what to do."""
    try:
        yield
    except OSError as error:
        folder = Path(file.name).parent
        size = (
            f"more than {format_bytes(os.fstat(file.fileno()).st_size)}" if n_bytes is None else format_bytes(n_bytes)
        )
        free = format_bytes(shutil.disk_usage(folder).free)
        raise DataError(
            f"a scratch file of {size} cannot be written: {error.strerror}; {free} is free. Free some space, "
            f"or set the environment variable {SCRATCH_VARIABLE} to another folder.",
            path=str(folder),
        ) from error


def map_scratch(file: BinaryIO, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Map a scratch file as an array."""
    try:
        return np.asarray(np.memmap(file, dtype, "r+", shape=shape))
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise
        n_bytes = np.dtype(dtype).itemsize * int(np.prod(shape))
        raise DataError(
            f"a scratch file of {format_bytes(n_bytes)} cannot be mapped: a limit of addresses (ulimit -v) counts "
            "files on disk too. Raise it, and limit memory by ulimit -d or by a control group instead."
        ) from error


def find_mmap(array: NDArray[Any]) -> mmap.mmap | None:
    """The map of a file that an array is a view of, if any."""
    owner = _find_memmap(array)
    base = None if owner is None else owner.base
    return base if isinstance(base, mmap.mmap) else None


def _find_memmap(array: NDArray[Any]) -> np.memmap[Any, Any] | None:
    """The mapped array that this one is a view of, if any.

    Arrays of mode "c" are excluded: their changes are only in memory, and releasing pages would lose them.
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap) and isinstance(base.base, mmap.mmap):
            return base if base.mode != "c" else None
        base = base.base
    return None


CHECKSUM_BYTES = 16 << 20


@dataclass(frozen=True)
class _Check:
    """The conditions on the values of a mapped file."""

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


def check_on_first_use(array: NDArray[Any], path: Path, sums: Sequence[int] | None, *, allow_nan: bool) -> None:
    """Register a mapped array, so that :func:`check_before_use` checks it once."""
    mapping = find_mmap(array)
    if mapping is not None:
        _unchecked[mapping] = _Check(path, sums, allow_nan)


def check_before_use(array: Any, progress: Callable[[int, int], object] | None = None) -> bool:
    """Check an array if it is mapped from a data set on disk and not checked yet.

    Returns False if the array was checked without checksums, which finds only NaN and infinities. The call is free for
    an array in memory or one that was already checked, and returns True.
    """
    mapping = find_mmap(array) if isinstance(array, np.ndarray) else None
    with _lock:
        check = None if mapping is None else _unchecked.get(mapping)
        if mapping is None or check is None:
            return True
        if check.sums is None:
            position = find_not_finite(array, allow_nan=check.allow_nan)
            if position is not None:
                raise DataError(
                    f"row {position[0]}, feature {position[1] + 1} is {array[position]}; the data set "
                    "is damaged: write it again",
                    path=str(check.path),
                )
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


def find_not_finite(values: NDArray[np.float32], *, allow_nan: bool) -> tuple[int, int] | None:
    """Row and column of the first infinite value, or NaN unless it is allowed; None if there is none."""
    step = rows_per_block(values[:1].nbytes)
    for start in range(0, len(values), step):
        block = values[start : start + step]
        with np.errstate(invalid="ignore"):  # inf - inf
            total = np.sum(block, dtype=np.float64)
        if not np.isfinite(total):  # it is finite only if all values are
            wrong = np.isinf(block) if allow_nan else ~np.isfinite(block)
            if wrong.any():
                row, column = np.argwhere(wrong)[0]
                return start + int(row), int(column)
        release_pages(values)
    return None
