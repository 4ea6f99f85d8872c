"""Warnings and errors of the library in the words of the command line."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.markup import escape

from plackett.base.errors import ConvergenceWarning, DataWarning
from plackett.cli.console import ERR

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
