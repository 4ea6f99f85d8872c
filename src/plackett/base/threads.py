"""Kernels on several threads, without ``parallel=True``.

Numba compiles a kernel with a parallel loop three to four times as long as the same loop without.
Where a kernel works on items that do not depend on each other, :func:`run_parallel` calls it for
parts of the items on several Python threads; kernels release the interpreter lock. A call costs
about 50 microseconds, so kernels on small batches keep their parallel loop.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from queue import SimpleQueue
from typing import Any

import numba

from plackett.base.errors import UsageError

_PARTS = 4  # per thread, so that threads finish at about the same time


class _Task:
    """Parts of one kernel call, which the caller and any number of helpers take in turn."""

    def __init__(self, call: Callable[[int, int], Any], n: int, parts: int) -> None:
        self._call, self._n, self._parts = call, n, parts
        self._numbers = count()
        self._lock = threading.Lock()
        self._is_open, self._n_helpers = True, 0
        self._errors: SimpleQueue[BaseException | None] = SimpleQueue()

    def run(self) -> None:
        """Work on parts until none is left, then wait for helpers that are still at work."""
        self._take_parts()
        with self._lock:
            self._is_open = False  # a helper that wakes up now has nothing to do
        errors = [self._errors.get() for _ in range(self._n_helpers + 1)]
        for error in errors:
            if error is not None:
                raise error

    def help(self) -> None:
        with self._lock:
            if not self._is_open:
                return
            self._n_helpers += 1
        self._take_parts()

    def _take_parts(self) -> None:
        error: BaseException | None = None
        try:
            while (part := next(self._numbers)) < self._parts:
                n, parts = self._n, self._parts
                self._call(n * part // parts, n * (part + 1) // parts)
        except BaseException as raised:
            error = raised
        self._errors.put(error)


_tasks: SimpleQueue[_Task] = SimpleQueue()
_helpers: list[threading.Thread] = []
_lock = threading.Lock()


def _help() -> None:
    while True:
        _tasks.get().help()


def _forget_helpers() -> None:
    """In a forked process: threads are gone, and tasks are the parent's."""
    global _tasks, _lock
    _helpers.clear()
    _tasks, _lock = SimpleQueue(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)


def run_parallel(kernel: Callable[..., Any], n: int, *arguments: Any, least: int = 1) -> None:
    """Call ``kernel(first, last, *arguments)`` so that 0 to n is covered once.

    Items write to different places of the arguments; ``least`` items are worth a thread.
    """
    threads = min(numba.get_num_threads(), n // least)
    if threads < 2:
        kernel(0, n, *arguments)
        return
    with _lock:
        while len(_helpers) < threads - 1:
            _helpers.append(threading.Thread(target=_help, daemon=True, name="plackett-kernels"))
            _helpers[-1].start()
    parts = min(threads * _PARTS, n // least)
    task = _Task(lambda first, last: kernel(first, last, *arguments), n, parts)
    for _ in range(threads - 1):
        _tasks.put(task)
    task.run()


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
