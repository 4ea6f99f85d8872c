"""Where the commands write: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
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

OUT = Console()
ERR = Console(stderr=True)


def print_json(payload: Any) -> None:
    """One JSON document on standard output; NaN becomes null, which JSON has no word for."""
    sys.stdout.write(json.dumps(_plain(payload), indent=2, allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


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
