"""Progress of work in two passes as one."""

from __future__ import annotations

from collections.abc import Callable


class Halves:
    """The first pass goes to the middle, the second one from there to the end.

    Parameters
    ----------
    progress
        Called with the work done and the work in all, which is twice that of the first pass; None:
        nobody is told.
    """

    def __init__(self, progress: Callable[[int, int], object] | None) -> None:
        self.progress, self.total = progress, 1

    def first(self, done: int, total: int) -> None:
        """Tell of the first pass, in units of its own."""
        self.total = total
        if self.progress is not None:
            self.progress(done, 2 * total)

    def second(self, done: int, total: int) -> None:
        """Tell of the second pass, in units of its own."""
        if self.progress is not None:
            self.progress(self.total + self.total * done // total, 2 * self.total)
