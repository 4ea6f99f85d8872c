"""Checksums of the blocks of a mapped file, checked before the first use of its values.

A data set larger than memory opens in milliseconds because its features are not read. They are
checked when a model, a description or a writer first needs them, once per open file: CRC-32 of
16 MiB at a time, in several threads, at the speed of the disk.
"""

from __future__ import annotations

import mmap
import threading
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.data.large_arrays import find_mmap, release_pages

BLOCK_BYTES = 16 << 20


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
        while block := file.read(BLOCK_BYTES):
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
    mapping: mmap.mmap,
    sums: Sequence[int],
    path: Path,
    progress: Callable[[int, int], object] | None,
) -> None:
    content = memoryview(mapping)
    starts = range(0, len(content), BLOCK_BYTES)
    with ThreadPoolExecutor(get_num_threads()) as executor:
        # A few blocks at a time, so that pages of a large file can be given back.
        for group in range(0, len(starts), 8):
            chosen = starts[group : group + 8]
            blocks = [content[start : start + BLOCK_BYTES] for start in chosen]
            for start, actual in zip(chosen, executor.map(zlib.crc32, blocks), strict=True):
                if actual != sums[start // BLOCK_BYTES]:
                    end = min(start + BLOCK_BYTES, len(content))
                    raise DataError(
                        f"bytes {start:,} to {end:,} are not what was written: their checksum "
                        "differs; the data set is damaged: write it again",
                        path=str(path),
                    )
            if progress is not None:
                progress(min(chosen[-1] + BLOCK_BYTES, len(content)), len(content))
            if len(content) > 8 * BLOCK_BYTES and hasattr(mmap, "MADV_DONTNEED"):
                mapping.madvise(mmap.MADV_DONTNEED)


def _check_finite(array: NDArray[Any], check: _Check) -> None:
    if array.dtype.kind != "f":
        return
    step = max(1, BLOCK_BYTES // max(1, array[:1].nbytes))
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
