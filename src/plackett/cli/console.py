"""Output of the commands: results go to standard output, everything else to standard error.

Progress bars, durations, tables, warnings, and messages of the library in the terms of the command line.
"""

from __future__ import annotations

import json
import logging
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich import box, progress as bars
from rich.console import Console
from rich.errors import LiveError
from rich.markup import escape
from rich.table import Table

from plackett.base.compilation_notice import TEXT
from plackett.base.errors import ConvergenceWarning, DataWarning, Message, Parameter, Setting, message_of
from plackett.base.files import to_json

if TYPE_CHECKING:
    from plackett.experiments.papers import Claim
    from plackett.experiments.plan import Forecast, Plan
    from plackett.experiments.results import Entry, Leaderboard
    from plackett.experiments.store import RunStore
    from plackett.experiments.tables import TextTable


OUT = Console(highlight=False)
ERR = Console(stderr=True, highlight=False)


def print_text(text: str, *, style: str | None = None) -> None:
    """Write lines to standard output as they are: without markup, and never broken."""
    OUT.print(text, style=style, markup=False, soft_wrap=True)


def print_json(payload: Any) -> None:
    """Write one JSON document to standard output; NaN becomes null."""
    sys.stdout.write(to_json(payload, indent=2, ascii_only=True) + "\n")


@contextmanager
def byte_progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar for reading or writing; yields ``update(bytes_done, bytes_total)``."""
    with _bar(bars.DownloadColumn(), bars.TimeRemainingColumn()) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def step_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar for work in steps; yields ``update(text, steps_done, steps_total)``."""
    with _bar(bars.MofNCompleteColumn(), bars.TimeElapsedColumn()) as bar:
        task = bar.add_task("", total=None)
        yield lambda text, done, total: bar.update(task, description=text, completed=done, total=total)


@contextmanager
def compilation_notice(count: int) -> Iterator[None]:
    """Say that kernels are compiled: a line that is replaced, or one line in files and pipes."""
    if not ERR.is_terminal:
        if count == 1:
            ERR.print(f"{TEXT} (plackett warmup does it ahead of time)")
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


def _bar(*columns: bars.ProgressColumn) -> bars.Progress:
    # Nothing is drawn into files and pipes, and the bar vanishes when the work is done.
    return bars.Progress(
        bars.TextColumn("[progress.description]{task.description}"),
        bars.BarColumn(),
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
        ERR.print(escape(record.getMessage()), style="dim", soft_wrap=True)


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
        ERR.print(f"[yellow]warning:[/] {text}", soft_wrap=True)


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


_MARKS = {"better": "[green]▲[/]", "worse": "[red]▼[/]", "": " "}


def board_table(board: Leaderboard) -> Table:
    """Show means, marks of significance, the p-value of the primary metric and training time."""
    # Five metrics fit in a terminal of 80 columns.
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("system", no_wrap=True)
    for metric in board.metrics:
        table.add_column(f"{metric} ", justify="right", no_wrap=True)
    table.add_column("p", justify="right", no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    best = {m: max(entry.means[m] for entry in board.entries) for m in board.metrics}
    for entry in board.entries:
        is_baseline = entry.name == board.baseline
        cells = [_cell(board, entry, m, best[m]) for m in board.metrics]
        p = "(base)" if is_baseline else _p_value(entry.adjusted[board.primary])
        seconds = f"{entry.seconds:.0f}" if entry.seconds else ""
        table.add_row(entry.name, *cells, p, seconds)
    return table


def _cell(board: Leaderboard, entry: Entry, metric: str, best: float) -> str:
    text = f"{entry.means[metric]:.4f}".lstrip("0")
    if entry.means[metric] == best:
        text = f"[bold]{text}[/]"
    return text + _MARKS[board.verdict(entry, metric)]


def _p_value(p: float) -> str:
    return "<0.0001" if p < 1e-4 else f"{p:.4f}"


_BAR_WIDTH = 40


def count_table(title: str, counts: Mapping[str, int]) -> Table:
    """Show counts with bars."""
    table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    table.add_column(justify="right")
    table.add_column(justify="right")
    table.add_column()
    top = max(counts.values(), default=1) or 1
    total = sum(counts.values()) or 1
    for name, count in counts.items():
        length = max(round(_BAR_WIDTH * count / top), 1 if count else 0)
        table.add_row(name, f"{count:,}", f"{'█' * length} {count / total:.1%}")
    return table


_VERDICT_COLORS = {"yes": "green", "no": "red", "undecided": "dim", "not tested": "dim"}


def print_tables(tables: Sequence[TextTable]) -> None:
    """Print tables with their captions; a note that several tables share is printed once."""
    for i, table in enumerate(tables):
        OUT.print(table.caption, markup=False, style="bold")
        OUT.print(text_table(table))
        if table.note and (i + 1 == len(tables) or tables[i + 1].note != table.note):
            OUT.print(table.note, markup=False, style="dim")


def text_table(text: TextTable) -> Table:
    """Convert a table of an experiment; rows with a paper's numbers are dimmed."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for i, name in enumerate(text.columns):
        table.add_column(escape(name), justify="right" if i else "left", no_wrap=i == 0)
    for row in text.rows:
        first = "  paper" if row.kind == "paper" else row.cells[0]
        cells = (escape(cell) for cell in (first, *row.cells[1:]))
        table.add_row(*cells, style="dim" if row.kind == "paper" else None)
    return table


def claims_table(claims: Sequence[Claim]) -> Table:
    """Show what a paper claims and whether our numbers agree."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in ("the paper says", "here", "p", "holds"):
        table.add_column(name)
    for claim in claims:
        verdict = f"[{_VERDICT_COLORS[claim.verdict]}]{claim.verdict}[/]"
        table.add_row(escape(claim.text), escape(claim.here), claim.p_text, verdict)
    return table
