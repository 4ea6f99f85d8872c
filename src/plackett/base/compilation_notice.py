"""Tells the user that kernels are being compiled; it counts them without a total, which is not known in advance.

It imports nothing heavy, so that the command line can replace the notice with its own before Numba is imported.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

TEXT = "compiling kernels, once after installation"
Notice = Callable[[int], AbstractContextManager[None]]
"""Called with the number of kernels so far; the context lasts as long as one is compiled."""


@contextmanager
def print_once(count: int) -> Iterator[None]:
    """Print one line, in a terminal or notebook only."""
    if count == 1 and (sys.stderr.isatty() or "ipykernel" in sys.modules):
        print(f"plackett: {TEXT} (plackett warmup does it ahead of time)", file=sys.stderr)
    yield


_notice: Notice = print_once
_count = 0


def set_notice(notice: Notice) -> None:
    """Replace the notice of this process."""
    global _notice
    _notice = notice


@contextmanager
def compiling() -> Iterator[None]:
    """Show the notice while a kernel is compiled."""
    global _count
    _count += 1
    with _notice(_count):
        yield
