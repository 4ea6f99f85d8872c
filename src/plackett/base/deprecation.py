"""Old names of parameters, which keep working with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

RENAMED = {"optimiser": "optimizer"}
"""Old names and the names that replace them."""


def rename_deprecated(parameters: Mapping[str, Any], *, warn: bool = True) -> dict[str, Any]:
    """Replace old parameter names, also behind ``__``, by the current ones.

    >>> rename_deprecated({"ranker__optimiser": "adam", "seed": 1}, warn=False)
    {'ranker__optimizer': 'adam', 'seed': 1}
    """
    renamed = {}
    for name, value in parameters.items():
        head, separator, last = name.rpartition("__")
        current = head + separator + RENAMED.get(last, last)
        if warn and current != name:
            warn_renamed(name, current, stacklevel=4)
        renamed[current] = value
    return renamed


def warn_renamed(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Warn that the parameter ``old`` is now called ``new``."""
    message = f"the parameter {old!r} is deprecated; use {new!r}."
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)
