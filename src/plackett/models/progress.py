"""What a fit tells while it runs: callbacks that may stop it, a status line, learning curves.

A callback gets a :class:`FitStep` after each step that is measured. If it returns True or raises
:class:`StopFit`, the fit ends as if it had reached its last step: the best model so far is kept.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from plackett.base.errors import DataError, UsageError

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with a status text, the steps done, and the maximum number of steps."""

Curves = dict[str, dict[str, list[float]]]
"""Part of the data ("train", "validation") -> loss or metric -> its mean after each step."""


class StopFit(Exception):  # noqa: N818 - an order, not an error
    """Raised by a callback to end a fit and keep the best model so far."""


@dataclass(frozen=True)
class FitStep:
    """A step of a fit, as callbacks see it."""

    step: int
    """Number of steps done: trees, rounds, epochs, or penalties of a linear model."""
    total: int
    """The maximum number of steps."""
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    """Part of the data ("train", "validation") -> metric -> its mean after this step."""


Callback: TypeAlias = Callable[[FitStep], Any]
"""Called after each step; True, or a raised StopFit, ends the fit."""


def latest(curves: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, dict[str, float]]:
    """The last value of each curve."""
    return {
        part: {name: values[-1] for name, values in by_name.items() if values}
        for part, by_name in curves.items()
    }


def tell(callbacks: Sequence[Callback], step: FitStep) -> bool:
    """Call all callbacks; return whether one of them wants the fit to stop."""
    stop = False
    for callback in callbacks:
        try:
            stop |= callback(step) is True
        except StopFit:
            stop = True
    return stop


def no_progress(text: str, done: int, total: int) -> None:
    """No-op progress callback."""


@contextmanager
def show_progress(verbose: bool | int | None, progress: Progress | None) -> Iterator[Progress]:
    """The progress callback to use: the given one, or one that prints.

    Parameters
    ----------
    verbose
        None: a status line in an interactive session or a notebook, nothing elsewhere. True: also
        elsewhere. A number above 1: one line of text each so many steps. False or 0: nothing.
    progress
        What the caller wants to be called instead; None: nothing.
    """
    if verbose is not None and (not isinstance(verbose, (bool, int)) or verbose < 0):
        raise UsageError(
            f"verbose must be True, False, None or a number of steps, got {verbose!r}."
        )
    if verbose is None:
        verbose = _is_interactive()
    if progress is not None or not verbose:
        yield progress or no_progress
        return
    stream = sys.stdout if _in_notebook() else sys.stderr
    redraws = verbose == 1 and (_in_notebook() or stream.isatty())
    status = StatusLine(stream) if redraws else LogLines(stream, 0 if verbose == 1 else verbose)
    try:
        yield status
    finally:
        status.close()


def _is_interactive() -> bool:
    return _in_notebook() or (hasattr(sys, "ps1") and sys.stderr.isatty())


def _in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class StatusLine:
    """One line that is written over after each step."""

    _SECONDS = 0.1  # between two redraws
    _BAR = 20

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0
        self._next = 0.0
        self._text = ""

    def __call__(self, text: str, done: int, total: int) -> None:
        filled = self._BAR * done // max(total, 1)
        bar = "█" * filled + "░" * (self._BAR - filled)
        self._text = f"{bar} {done}/{total} {text}"
        if time.monotonic() >= self._next:
            self._draw()
            self._next = time.monotonic() + self._SECONDS

    def close(self) -> None:
        """Draw the last step and end the line."""
        if self._text:
            self._draw()
            self._stream.write("\n")
            self._stream.flush()

    def _draw(self) -> None:
        self._stream.write("\r" + self._text.ljust(self._width))
        self._stream.flush()
        self._width = len(self._text)


class LogLines:
    """A line of text each ``every`` steps; 0: ten lines in all."""

    def __init__(self, stream: TextIO, every: int) -> None:
        self._stream = stream
        self._every = every
        self._latest: tuple[str, int] | None = None
        self._printed = 0

    def __call__(self, text: str, done: int, total: int) -> None:
        self._latest = (f"[{done}/{total}] {text}\n", done)
        if done % (self._every or max(total // 10, 1)) == 0:
            self._print()

    def close(self) -> None:
        """Print the last step."""
        if self._latest is not None and self._latest[1] != self._printed:
            self._print()

    def _print(self) -> None:
        assert self._latest is not None
        text, self._printed = self._latest
        self._stream.write(text)
        self._stream.flush()


_CURVES_FILE = "curves.json"
_MAX_CURVE_BYTES = 64 << 20


def write_curves(curves: Curves, folder: Path) -> None:
    """Write learning curves into the folder of a model."""
    # JSON has no NaN, which the loss of an objective without a value is.
    finite = {
        part: {
            name: values
            for name, values in by_name.items()
            if all(-1e308 < value < 1e308 for value in values)
        }
        for part, by_name in curves.items()
    }
    (folder / _CURVES_FILE).write_text(json.dumps(finite), encoding="utf-8")


def read_curves(folder: Path) -> Curves:
    """Learning curves from a folder whose files may be damaged; none if there is no file."""
    path = folder / _CURVES_FILE
    if not path.is_file():
        return {}
    if path.stat().st_size > _MAX_CURVE_BYTES:
        raise DataError(f"is larger than {_MAX_CURVE_BYTES >> 20} MB", path=str(path))
    try:
        curves = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (ValueError, RecursionError) as error:
        raise DataError("is not JSON", path=str(path)) from error
    if not isinstance(curves, dict) or not all(_is_part(part) for part in curves.values()):
        raise DataError("must hold numbers by part and metric", path=str(path))
    return curves


def _is_part(part: Any) -> bool:
    return isinstance(part, dict) and all(
        isinstance(values, list) and all(isinstance(v, (int, float)) for v in values)
        for values in part.values()
    )
