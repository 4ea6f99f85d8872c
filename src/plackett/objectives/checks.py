"""Checks of the parameters of objectives: errors name the value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from plackett.base.errors import UsageError


def need_positive(objective: str, **parameters: float) -> None:
    """Refuse parameters that are not finite numbers above 0."""
    for name, value in parameters.items():
        if not (0 < value < math.inf):
            raise UsageError(f"{objective} needs a finite {name} > 0, got {name}={value!r}.")


def need_count(objective: str, **parameters: int | None) -> None:
    """Refuse parameters that are neither None (no limit) nor whole numbers from 1 on."""
    for name, value in parameters.items():
        if value is not None and (value < 1 or value != int(value)):
            raise UsageError(
                f"{objective} needs {name} to be a whole number >= 1, or None for no limit, got "
                f"{name}={value!r}."
            )


def need_choice(objective: str, choices: Sequence[str], **parameters: str) -> None:
    """Refuse parameters that are not among the choices."""
    for name, value in parameters.items():
        if value not in choices:
            raise UsageError(
                f"{objective} has no {name}={value!r}; there are: {', '.join(choices)}."
            )
