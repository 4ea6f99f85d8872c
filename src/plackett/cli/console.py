"""Output of the commands: results go to standard output, everything else to standard error.

Progress bars, durations, warnings, and messages of the library in the terms of the command line.
"""

from __future__ import annotations

import json
import logging
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.errors import LiveError
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

from plackett.base.compilation_notice import TEXT
from plackett.base.errors import (
    ConvergenceWarning,
    DataWarning,
    Message,
    Parameter,
    Setting,
    message_of,
)
from plackett.base.files import to_json

if TYPE_CHECKING:
    from plackett.experiments.forecast import Forecast
    from plackett.experiments.plan import Plan
    from plackett.experiments.store import RunStore


OUT = Console()
ERR = Console(stderr=True)


def print_json(payload: Any) -> None:
    """Write one JSON document to standard output; NaN becomes null."""
    sys.stdout.write(to_json(payload, indent=2, ascii_only=True) + "\n")


@contextmanager
def byte_progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar for reading or writing; yields ``update(bytes_done, bytes_total)``."""
    with _bar(DownloadColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def step_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar for work in steps; yields ``update(text, steps_done, steps_total)``."""
    with _bar(MofNCompleteColumn(), TimeElapsedColumn()) as bar:
        task = bar.add_task("", total=None)
        yield lambda text, done, total: bar.update(
            task, description=text, completed=done, total=total
        )


@contextmanager
def compilation_notice(count: int) -> Iterator[None]:
    """Say that kernels are compiled: a line that is replaced, or one line in files and pipes."""
    if not ERR.is_terminal:
        if count == 1:
            ERR.print(f"{TEXT} (plackett warmup does it ahead of time)", highlight=False)
        yield
        return
    status = ERR.status(f"{TEXT} ({count} so far)")
    try:
        status.start()
    except LiveError:  # older versions of rich draw one thing at a time
        yield
        return
    try:
        yield
    finally:
        status.stop()


def _bar(*columns: ProgressColumn) -> Progress:
    # Nothing is drawn into files and pipes, and the bar vanishes when the work is done.
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
    """Format a time in a suitable unit.

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


def describe_forecast(ahead: Forecast) -> str:
    """Say what is finished and how long the rest will take; the text starts with a semicolon."""
    text = f"; {ahead.finished} are finished already" if ahead.finished else ""
    if ahead.finished < ahead.trials:
        text += f"; expected time: about {duration(ahead.seconds)}, less where models stop early"
    return text


def describe_kept(store: RunStore, place: str, plans: Sequence[Plan]) -> str:
    """Say how many trials are finished, after Ctrl-C, and how to go on."""
    trials = {trial.identity.digest: trial for plan in plans for trial in plan.trials}
    done = len(store.finished(trial.identity for trial in trials.values()))
    return f"{done} of {len(trials)} trials are kept in {place}: the same command runs the others."


def with_time_left(
    progress: Callable[[str, int, int], None], *, clock: Callable[[], float] = time.monotonic
) -> Callable[[str, int, int], None]:
    """Add the expected time left, at the pace so far, to a progress callback."""
    first: list[tuple[float, int]] = []

    def report(text: str, done: int, total: int) -> None:
        if not first:
            first.append((clock(), done))
        start, before = first[0]
        if before < done < total:
            rest = (clock() - start) / (done - before) * (total - done)
            text = f"{text} · about {duration(rest)} left"
        progress(text, done, total)

    return report


_OPTIONS = {"feature_names": "--names", "folder": "--data"}
"""Options whose names differ from those of the parameters that they stand for."""
_NO_OPTION = {"document_ids", "module"}
"""Parameters that no option stands for."""


def use_option_names(text: str) -> str:
    """Show the parameters that a message names as options.

    >>> use_option_names(Message("there is no column 'y'; choose with ", Parameter("label"), "."))
    "there is no column 'y'; choose with --label."
    """
    if not isinstance(text, Message):
        return text
    return "".join(part if isinstance(part, str) else _option(part) for part in text.parts)


def _option(parameter: Parameter) -> str:
    name, value = parameter.name, parameter.value
    if isinstance(parameter, Setting):
        return "--set " + (f"{name}=..." if value is None else shlex.quote(_assign(name, value)))
    if name in _NO_OPTION:
        return str(parameter)
    option = _OPTIONS.get(name, f"--{name.replace('_', '-')}")
    return option if value is None or value is True else f"{option} {value}"


def _assign(name: str, value: Any) -> str:
    return f"{name}={value if isinstance(value, str) else json.dumps(value)}"


class _ConsoleHandler(logging.Handler):
    """Prints what plackett logs, such as the columns that a reader took, on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        ERR.print(escape(record.getMessage()), style="dim", highlight=False, soft_wrap=True)


def show_log() -> None:
    """Print what plackett logs."""
    logger = logging.getLogger("plackett")
    if not any(isinstance(handler, _ConsoleHandler) for handler in logger.handlers):
        logger.addHandler(_ConsoleHandler())
    logger.setLevel(logging.INFO)


def show_warning(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
    """Print a warning of plackett; hide those of libraries, which are for developers."""
    if issubclass(category, (DataWarning, ConvergenceWarning)):
        text = escape(use_option_names(message_of(message)))
        ERR.print(f"[yellow]warning:[/] {text}", highlight=False, soft_wrap=True)


class Interrupted(Exception):  # noqa: N818 - Ctrl-C is not an error
    """Ctrl-C; the text says what was kept and how to go on."""


@contextmanager
def explain_interrupt(describe: Callable[[], str]) -> Iterator[None]:
    """On Ctrl-C, let ``describe`` say what was kept and how to go on."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(describe()) from error


@contextmanager
def count_convergence_warnings() -> Iterator[None]:
    """Print the first convergence warning of many trials once, with the number of the others."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", DataWarning)
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            yield
        finally:
            convergence = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
            others = [w for w in caught if w not in convergence]
    for warning in others:
        show_warning(warning.message, warning.category)
    if convergence:
        more = len(convergence) - 1
        text = f" The same in {more} more {'fit' if more == 1 else 'fits'}." if more else ""
        show_warning(Message(message_of(convergence[0].message), text), ConvergenceWarning)
