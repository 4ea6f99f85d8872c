"""Output of the commands: results go to standard output, everything else to standard error.

This module has progress bars, durations, tables and warnings, and names options in the library's messages.
"""

from __future__ import annotations

import json
import logging
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import zip_longest
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
    from plackett.experiments.plan import Forecast, Plan
    from plackett.experiments.results import Entry, Leaderboard
    from plackett.experiments.store import RunStore
    from plackett.experiments.tables import TextTable

OUT = Console(highlight=False)
ERR = Console(stderr=True, highlight=False)


def print_text(text: str, *, style: str | None = None) -> None:
    """Write lines to standard output unchanged: without markup or line breaks."""
    OUT.print(text, style=style, markup=False, soft_wrap=True)


def print_json(payload: Any) -> None:
    """Write one JSON document to standard output; NaN becomes null."""
    sys.stdout.write(to_json(payload, indent=2, ascii_only=True) + "\n")


def print_facts(facts: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """Print the result of a command: JSON for programs, or a line for people."""
    print_json(facts) if as_json else print_text(text)


def make_table(*columns: str, left: int = 1, **options: Any) -> Table:
    """Start a table whose columns after the first ``left`` ones are numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, **options)
    for i, name in enumerate(columns):
        table.add_column(name, justify="right" if i >= left else "left", no_wrap=i == 0 or i >= left)
    return table


def this_command() -> str:
    """The command that is running, as it can be typed again."""
    return shlex.join(["plackett", *sys.argv[1:]])


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
    """Show that kernels are being compiled: a line that is overwritten, or one line in files and pipes."""
    if not ERR.is_terminal:
        if count == 1:
            ERR.print(f"{TEXT} (plackett warmup does it ahead of time)")
        yield
        return
    with ExitStack() as stack:
        with suppress(LiveError):  # older versions of rich draw one thing at a time
            stack.enter_context(ERR.status(f"{TEXT} ({count} so far)"))
        yield


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


def duration(seconds: float) -> str:
    """Format a time in a suitable unit.

    >>> duration(45), duration(600), duration(9000), duration(400_000)
    ('45 s', '10 min', '2.5 h', '4.6 days')
    """
    if seconds < 120:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86_400:.1f} days"


@contextmanager
def trial_progress(
    plans: Sequence[Plan], store: str, parallelism: Mapping[str, Any], text: str
) -> Iterator[tuple[RunStore, Callable[[str, int, int], None]]]:
    """Open the store and print how many trials will run; yields the store and ``update`` of a progress bar."""
    from plackett.experiments.plan import forecast
    from plackett.experiments.store import RunStore

    with RunStore(store) as runs:
        ahead = forecast(*plans, store=runs, **parallelism)
        ERR.print(f"{ahead.trials} trials{text}{describe_forecast(ahead)}", soft_wrap=True)
        kept = explain_interrupt(lambda: _describe_kept(runs, store, plans))
        with kept, count_convergence_warnings(), step_progress() as progress:
            yield runs, progress


def describe_forecast(ahead: Forecast) -> str:
    """Say what is finished and how long the rest will take; the text starts with a semicolon."""
    text = f"; {ahead.finished} are finished already" if ahead.finished else ""
    if ahead.finished < ahead.trials:
        text += f"; expected time: about {duration(ahead.seconds)}, less if models stop early"
    return text


def _describe_kept(store: RunStore, store_url: str, plans: Sequence[Plan]) -> str:
    """Say, after Ctrl-C, how many trials are finished and how to continue."""
    trials = {trial.identity.digest: trial for plan in plans for trial in plan.trials}
    done = len(store.finished(trial.identity for trial in trials.values()))
    return f"{done} of {len(trials)} trials are kept in {store_url}: the same command runs the others."


def with_time_left(
    progress: Callable[[str, int, int], None], *, clock: Callable[[], float] = time.monotonic
) -> Callable[[str, int, int], None]:
    """Add the expected time left, at the pace so far, to a progress callback."""
    start, before = clock(), -1

    def report(text: str, done: int, total: int) -> None:
        nonlocal start, before
        if before < 0:
            start, before = clock(), done
        if before < done < total:
            rest = (clock() - start) / (done - before) * (total - done)
            text = f"{text} · about {duration(rest)} left"
        progress(text, done, total)

    return report


_OPTIONS = {"feature_names": "--names", "folder": "--data"}
"""Options whose names differ from those of the parameters that they stand for."""
_NO_OPTION = {"document_ids", "module"}


def use_option_names(text: str) -> str:
    """Replace the parameters in a message with the names of the options.

    >>> use_option_names(Message("there is no column 'y'; choose with ", Parameter("label"), "."))
    "there is no column 'y'; choose with --label."
    """
    if not isinstance(text, Message):
        return text
    return "".join(part if isinstance(part, str) else _option(part) for part in text.parts)


def _option(parameter: Parameter) -> str:
    name, value = parameter.name, parameter.value
    if isinstance(parameter, Setting):
        text = value if isinstance(value, str) else json.dumps(value)
        return "--set " + (f"{name}=..." if value is None else shlex.quote(f"{name}={text}"))
    if name in _NO_OPTION:
        return str(parameter)
    option = _OPTIONS.get(name, f"--{name.replace('_', '-')}")
    return option if value is None or value is True else f"{option} {value}"


class _ConsoleHandler(logging.Handler):
    """Prints log messages of plackett, such as the columns that a reader selected, on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        ERR.print(escape(record.getMessage()), style="dim", soft_wrap=True)


def show_log() -> None:
    """Print the log messages of plackett."""
    logger = logging.getLogger("plackett")
    if not any(isinstance(handler, _ConsoleHandler) for handler in logger.handlers):
        logger.addHandler(_ConsoleHandler())
    logger.setLevel(logging.INFO)


def show_warning(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
    """Print a warning of plackett; hide warnings of libraries, which address developers."""
    if issubclass(category, (DataWarning, ConvergenceWarning)):
        text = escape(use_option_names(message_of(message)))
        ERR.print(f"[yellow]warning:[/] {text}", soft_wrap=True)


class Interrupted(Exception):  # noqa: N818 - Ctrl-C is not an error
    """Ctrl-C; the text says what was kept and how to continue."""


@contextmanager
def explain_interrupt(describe: Callable[[], str]) -> Iterator[None]:
    """On Ctrl-C, let ``describe`` say what was kept and how to continue."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(describe()) from error


@contextmanager
def count_convergence_warnings() -> Iterator[None]:
    """Print only the first convergence warning of many trials, with the number of the others."""
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("default", DataWarning)
            warnings.simplefilter("always", ConvergenceWarning)
            yield
    finally:  # also if a trial fails or the user interrupts
        convergence = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
        for warning in caught:
            if warning not in convergence:
                show_warning(warning.message, warning.category)
        if convergence:
            more = len(convergence) - 1
            text = f" The same in {more} more {'fit' if more == 1 else 'fits'}." if more else ""
            show_warning(Message(message_of(convergence[0].message), text), ConvergenceWarning)


_MARKS = {"better": "[green]▲[/]", "worse": "[red]▼[/]", "": " "}


def board_table(board: Leaderboard) -> Table:
    """Show means, marks of significance, the p-value of the primary metric and training time."""
    # Five metrics fit in a terminal of 80 columns.
    table = make_table("system", *(f"{metric} " for metric in board.metrics), "p", "s", collapse_padding=True)
    best = {m: max(entry.means[m] for entry in board.entries) for m in board.metrics}
    for entry in board.entries:
        cells = [_cell(board, entry, m, best[m]) for m in board.metrics]
        p = entry.adjusted.get(board.primary)
        text = "(base)" if p is None else "<0.0001" if p < 1e-4 else f"{p:.4f}"
        table.add_row(entry.name, *cells, text, f"{entry.seconds:.0f}" if entry.seconds else "")
    return table


def _cell(board: Leaderboard, entry: Entry, metric: str, best: float) -> str:
    text = f"{entry.means[metric]:.4f}".lstrip("0")
    if entry.means[metric] == best:
        text = f"[bold]{text}[/]"
    return text + _MARKS[board.verdict(entry, metric)]


_BAR_WIDTH = 40


def bar_table(title: str, values: Mapping[str, float], *, as_counts: bool = False) -> Table:
    """Show shares with bars, or counts with their shares of the total."""
    table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    for _ in range(1 + as_counts):
        table.add_column(justify="right", no_wrap=True)
    table.add_column()
    top = max(values.values(), default=1) or 1
    total = sum(values.values()) or 1 if as_counts else 1
    for name, value in values.items():
        length = max(round(_BAR_WIDTH * value / top), 1 if value else 0)
        counts = [f"{value:,}"] if as_counts else []
        table.add_row(escape(name), *counts, f"{'█' * length} {value / total:.1%}")
    return table


def print_tables(tables: Sequence[TextTable]) -> None:
    """Print tables with captions and the paper's rows dimmed; a note shared by several tables is printed once."""
    for text, following in zip_longest(tables, tables[1:]):
        OUT.print(text.caption, markup=False, style="bold")
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for i, name in enumerate(text.columns):
            table.add_column(escape(name), justify="right" if i else "left", no_wrap=i == 0)
        for row in text.rows:
            is_paper = row.kind == "paper"
            cells = ("  paper" if is_paper else row.cells[0], *row.cells[1:])
            table.add_row(*map(escape, cells), style="dim" if is_paper else None)
        OUT.print(table)
        if text.note and (following is None or following.note != text.note):
            OUT.print(text.note, markup=False, style="dim")
