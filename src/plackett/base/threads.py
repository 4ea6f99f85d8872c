"""How many threads compiled kernels use, set in one place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from plackett.base.errors import UsageError


@contextmanager
def kernel_threads(count: int | None) -> Iterator[None]:
    """Let parallel kernels use at most ``count`` threads inside the block; None: all there are."""
    if count is None:
        yield
        return
    if count < 1:
        raise UsageError(f"threads must be at least 1, or None for all, got {count}.")
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
    try:
        yield
    finally:
        numba.set_num_threads(before)
