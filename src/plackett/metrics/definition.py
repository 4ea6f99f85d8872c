"""What a metric is made of: a function of one list and a description of its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numba import float64, int64
from numpy.typing import NDArray

from plackett.base.kernels import FLOATS, LABELS, ListFunction, readonly
from plackett.metrics.settings import Option, Settings

RANKS = readonly(int64)

NO_CUTOFF = 2**62
"""Cut-off of a metric without one: larger than any list."""

SIGNATURE = float64(LABELS, RANKS, LABELS, LABELS, int64, FLOATS, FLOATS)
"""Of every list function: ``(ranked, ends, ideal, labels, cutoff, discounts, params) -> value``.

ranked
    Labels of the retrieved documents, best score first, at least down to the cut-off.
ends
    Empty, or the rank (from 0, exclusive) at which each document's group of equal scores ends.
    Then ``ranked`` is complete and the function gives the expectation over all orders of the
    groups. Without it each document is its own group, so one formula serves both.
ideal
    Labels in falling order, at least down to the cut-off if the metric asks for it, else empty.
labels
    All labels of the list.
cutoff
    At least 1; ``NO_CUTOFF`` if the metric has none.
discounts, params
    What the metric's definition makes of the settings.
value
    NaN if the list has no relevant document.
"""


def ones(settings: Settings, n: int) -> NDArray[np.float64]:  # noqa: ARG001 - one interface for all
    """Discounts of a metric that has none."""
    return np.ones(n)


def no_params(settings: Settings) -> tuple[float, ...]:  # noqa: ARG001 - one interface for all
    """Parameters of a metric that has none."""
    return ()


def threshold_only(settings: Settings) -> tuple[float, ...]:
    """Parameters of a metric that sees only relevant and irrelevant documents."""
    return (settings.threshold,)


@dataclass(frozen=True)
class Definition:
    """A metric before its cut-off and convention are chosen."""

    name: str
    function: ListFunction
    options: tuple[str, ...]
    """Names of the options it looks at."""
    params: Callable[[Settings], tuple[float, ...]] = no_params
    """Numbers for the list function."""
    discounts: Callable[[Settings, int], NDArray[np.float64]] = ones
    """Discounts of the ranks 1 to n."""
    defaults: Mapping[str, Option] = field(default_factory=dict)
    """Where it differs from the defaults of :class:`Settings`."""
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Allowed words of options that mean something else for each metric."""
    has_cutoff: bool = True
    uses_ideal: bool = False
    """Whether the list function reads ``ideal``."""
    uses_groups: bool = False
    """Whether it always needs ``ends``, and documents that were not retrieved as the last group."""
    largest_label: Callable[[Settings], float] | None = None
    """Labels above it have no meaning under these settings and are refused."""


RELEVANCE = ("short", "ties", "seed", "rounding", "empty", "threshold")
"""Options of metrics that see only relevant and irrelevant documents."""
