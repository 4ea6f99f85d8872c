"""Kernels on several threads, without ``parallel=True``, which takes three to four times as long to compile.

:func:`run_parallel` calls a kernel, which releases the interpreter lock, for parts of its items on several Python
threads. A call costs about 50 microseconds, so kernels on small batches keep their parallel loop.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import Any

import numba

from plackett.base.errors import UsageError

_PARTS = 4  # per thread, so that threads finish at about the same time

_executor: ThreadPoolExecutor


def _open_executor() -> None:
    """Start without threads, also in a forked process, where the threads of the parent do not exist."""
    global _executor
    _executor = ThreadPoolExecutor(numba.config.NUMBA_NUM_THREADS, "plackett-kernels")


_open_executor()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_executor)


def run_parallel(kernel: Callable[..., Any], n: int, *arguments: Any, least: int = 1) -> None:
    """Call ``kernel(first, last, *arguments)`` so that 0 to n is covered once.

    Items write to different parts of the arguments. Each thread gets at least ``least`` items.
    """
    threads = min(numba.get_num_threads(), n // least)
    if threads < 2:
        kernel(0, n, *arguments)
        return
    parts = min(threads * _PARTS, n // least)
    numbers = count()  # numbers of the parts, which this thread and its helpers take in turn

    def take_parts() -> None:
        while (part := next(numbers)) < parts:
            kernel(n * part // parts, n * (part + 1) // parts, *arguments)

    helpers: list[Future[None]] = []
    try:
        while len(helpers) < threads - 1:
            helpers.append(_executor.submit(take_parts))
    except RuntimeError as refusal:
        # After the main thread has ended, the executor is shut down, and a user's thread continues without helpers.
        if "shutdown" not in str(refusal):
            raise
    try:
        take_parts()
    finally:  # a helper that has not begun finds no part left
        errors = [helper.exception() for helper in helpers if not helper.cancel()]
    for error in filter(None, errors):
        raise error


@contextmanager
def kernel_threads(count: int | None) -> Iterator[None]:
    """Limit parallel kernels to ``count`` threads inside the block; None: no limit."""
    if count is None:
        yield
        return
    if count < 1:
        raise UsageError(f"threads must be at least 1, or None for all, got {count}.")

    before = numba.get_num_threads()
    numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
    try:
        yield
    finally:
        numba.set_num_threads(before)
