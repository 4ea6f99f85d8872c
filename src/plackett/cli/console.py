"""Where the commands write: results to standard output, everything else to standard error.

Times for people.

Warnings and errors of the library in the words of the command line.
"""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from plackett.base.errors import ConvergenceWarning, DataWarning
from plackett.base.files import to_json

if TYPE_CHECKING:
    from plackett.experiments.forecast import Forecast


OUT = Console()
ERR = Console(stderr=True)


def print_json(payload: Any) -> None:
    """Write one JSON document to standard output; NaN becomes null."""
    sys.stdout.write(to_json(payload, indent=2, ascii_only=True) + "\n")


@contextmanager
def byte_progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for reading and writing: yields a function of bytes done and bytes in all."""
    with _bar(DownloadColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def step_progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for work in steps: yields a function of what is done, steps done and steps in all."""
    with _bar(MofNCompleteColumn(), TimeElapsedColumn()) as bar:
        task = bar.add_task("", total=None)
        yield lambda text, done, total: bar.update(
            task, description=text, completed=done, total=total
        )


def _bar(*columns: ProgressColumn) -> Progress:
    # Bars are for people: nothing is drawn into files and pipes, and nothing stays on the screen.
    return Progress(
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        *columns,
        console=ERR,
        transient=True,
        disable=not ERR.is_terminal,
    )


_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> duration(45), duration(600), duration(9000), duration(400_000)
    ('45 s', '10 min', '2.5 h', '4.6 days')
    """
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    if seconds < 2 * _DAY:
        return f"{seconds / _HOUR:.1f} h"
    return f"{seconds / _DAY:.1f} days"


def ahead_in_words(ahead: Forecast) -> str:
    """What is finished already, and how long the rest will take; begins with a semicolon."""
    text = f"; {ahead.finished} are finished already" if ahead.finished else ""
    if ahead.finished < ahead.trials:
        text += f"; expected time: about {duration(ahead.seconds)}, less where models stop early"
    return text


def with_rest(
    progress: Callable[[str, int, int], None], *, clock: Callable[[], float] = time.monotonic
) -> Callable[[str, int, int], None]:
    """Progress that also says how long the rest will take, at the pace of what was done so far."""
    first: list[tuple[float, int]] = []

    def tell(text: str, done: int, total: int) -> None:
        if not first:
            first.append((clock(), done))
        start, before = first[0]
        if before < done < total:
            rest = (clock() - start) / (done - before) * (total - done)
            text = f"{text} · about {duration(rest)} left"
        progress(text, done, total)

    return tell


# What a message of the library calls by its Python name, the command line calls by an option.
_SPOKEN = (
    (re.compile(r"missing=(['\"])nan\1"), "--missing nan"),
    (re.compile(r"\bn_features="), "--features "),
    (re.compile(r"\bstrict=True"), "--strict"),
    (re.compile(r'missing="(never|zero)"'), r"--missing \1"),
    (re.compile(r"\bfeature_names="), "--names "),
    (re.compile(r"\bform="), "--form "),
    (re.compile(r"\b(label|query|deepest|iterations|clip)=(?=[\s.,;:)]|$)"), r"--\1"),
    (re.compile(r"\bRaise max_iterations\b"), "Raise it (--set max_iterations=...)"),
    (re.compile(r'\(transforms=\("standard",\)\)'), "(--set 'transforms=[\"standard\"]')"),
)


def spoken(text: str) -> str:
    """A message with the options of the command line for the arguments of Python.

    >>> spoken("there is no column 'y'; choose with label=.")
    "there is no column 'y'; choose with --label."
    """
    for pattern, words in _SPOKEN:
        text = pattern.sub(words, text)
    return text


def show_warning(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
    """Print a warning of ours; those of libraries are for developers."""
    if issubclass(category, (DataWarning, ConvergenceWarning)):
        text = escape(spoken(str(message)))
        ERR.print(f"[yellow]warning:[/] {text}", highlight=False, soft_wrap=True)


@contextmanager
def solvers_counted() -> Iterator[None]:
    """Solvers that stop early in many trials are warned of once, at the end, with their number."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", DataWarning)
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            yield
        finally:
            stopped = [each for each in seen if issubclass(each.category, ConvergenceWarning)]
            others = [each for each in seen if each not in stopped]
    for each in others:
        show_warning(each.message, each.category)
    if stopped:
        more = len(stopped) - 1
        text = f" The same in {more} more {'fit' if more == 1 else 'fits'}." if more else ""
        show_warning(f"{stopped[0].message}{text}", ConvergenceWarning)
