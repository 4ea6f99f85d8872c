"""Ranges as people write them: ``0.01..0.3:log``, ``8..64``, ``relu,elu``, ``[[64,32],[128]]``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from plackett.base.errors import UsageError
from plackett.models.ranker import Ranker
from plackett.models.recipes.search_spaces import Choice, Dimension, Real, Whole, setting

_HOW = "a range such as 0.01..0.3:log or 8..64, or a choice such as relu,elu or [[64,32],[128,64]]"


def as_space(
    ranker: Ranker, known: Mapping[str, Dimension], given: Mapping[str, Dimension | str]
) -> dict[str, Dimension]:
    """The known space with some dimensions replaced or added.

    Parameters
    ----------
    ranker
        Whose parameters they are; a name it does not know is refused.
    known
        The recipe's own space.
    given
        Dimensions, or their spelling.
    """
    space = dict(known)
    for name, what in given.items():
        now = setting(ranker, name)
        space[name] = dimension(name, what, known.get(name), now) if isinstance(what, str) else what
    if not space:
        raise UsageError("there is nothing to search: the space is empty.")
    return space


def dimension(name: str, text: str, known: Dimension | None = None, now: Any = None) -> Dimension:
    """Read a dimension; ``known`` and ``now`` say whether numbers are whole.

    >>> dimension("learning_rate", "0.01..0.3:log")
    Real(low=0.01, high=0.3, log=True)
    >>> dimension("activation", "relu,elu")
    Choice(options=('relu', 'elu'))
    """
    body, _, scale = text.strip().partition(":")
    low, dots, high = body.partition("..")
    if not dots:
        return Choice(_options(name, text))
    ends = [_number(low), _number(high)]
    if scale.strip() not in ("", "log", "linear") or None in ends:
        raise UsageError(f"{name}: {text!r} is no range; give {_HOW}.")
    whole = isinstance(known, Whole) or (
        not isinstance(known, Real)
        and not isinstance(now, float)
        and all(isinstance(end, int) for end in ends)
    )
    if whole and not all(isinstance(end, int) for end in ends):
        raise UsageError(f"{name} is a whole number, and so are the ends of its range: {text!r}.")
    kind = Whole if whole else Real
    return kind(ends[0], ends[1], scale.strip() == "log")  # type: ignore[arg-type] # checked above


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            return kind(text.strip())
        except ValueError:
            continue
    return None


def _options(name: str, text: str) -> tuple[Any, ...]:
    for each in (text, f"[{text}]"):
        try:
            found = json.loads(each)
        except ValueError:
            continue
        if isinstance(found, list):
            return tuple(tuple(o) if isinstance(o, list) else o for o in found)
    options = tuple(option.strip() for option in text.split(","))
    if not all(options):
        raise UsageError(f"{name}: {text!r} is no choice; give {_HOW}.")
    return options
