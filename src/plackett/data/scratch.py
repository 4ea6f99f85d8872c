"""Features of unknown width, appended to a file block by block and gathered in any order."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from plackett.base.ragged import Features, Rows


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
