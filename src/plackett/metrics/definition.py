"""Definition of a metric: a function of one list, and the options that conventions set.

=============== ============================================== ====================================
option          values                                         meaning
=============== ============================================== ====================================
``gain``        ``exp2`` ``identity``                          gain of a label
``discount``    ``log2`` ``letor`` ``reciprocal``              discount of a rank
``short``       ``truncate`` ``zero``                          a list shorter than the cut-off is
                                                               cut off at its end, or scores 0
``ties``        ``stable`` ``expected`` ``pessimistic``        order of documents with equal scores
                ``optimistic`` ``random`` ``docid``
``seed``        integer                                        of ``ties=random``
``rounding``    ``none`` ``float32``                           precision to compare scores in
``empty``       ``drop`` ``0`` ``0.5`` ``1``                   value of a list without a relevant
                                                               document (``auc``: without a pair)
``grade``       ``list`` or a number                           ``err``: the top grade
``threshold``   number                                         relevant means label > threshold
``denominator`` ``map``: ``relevant`` ``cutoff`` ``found``;    what a sum is divided by
                ``precision``: ``cutoff`` ``list``
``persistence`` number between 0 and 1                         ``rbp``: probability to read on
``pairs``       ``binary`` ``graded``                          ``auc``: the pairs it counts
=============== ============================================== ====================================

**Tied documents share their gains.** If the documents at the ranks a+1 to b are tied, each of their
orders is as good as any other, and by linearity the expectation of a sum of discounted gains gives
each of these ranks the mean gain of the group (McSherry & Najork 2008, "Computing information
retrieval performance measures efficiently in the presence of tied scores", ECIR). A group of one
document gives the ordinary sum.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TypeAlias, get_args

import numpy as np
from numba import float64, int64
from numpy.typing import NDArray

from plackett.base.errors import UsageError, unknown_name
from plackett.base.gains import Discount, Gain, exp2_gain
from plackett.base.kernels import FLOATS, INTEGERS, LABELS, ListFunction, compiled

EXP2, IDENTITY, BINARY = 0.0, 1.0, 2.0
"""Kinds of gain, as passed to list functions in ``params``."""


@compiled
def group_end(ends, start):  # type: ignore[no-untyped-def]
    """Rank at which the group that begins at ``start`` ends."""
    return ends[start] if len(ends) > 0 else start + 1


@compiled
def gain_of(label, kind, level):  # type: ignore[no-untyped-def]
    """Gain of a label; ``level`` is the top label (EXP2) or the threshold (BINARY)."""
    if kind == EXP2:
        return exp2_gain(np.float64(label), level)
    if kind == IDENTITY:
        return np.float64(label)
    return 1.0 if label > level else 0.0


@compiled
def discounted_sum(ranked, ends, cutoff, discounts, kind, level):  # type: ignore[no-untyped-def]
    """Sum the discounted gains of the ranks down to the cut-off, in expectation."""
    depth = min(cutoff, len(ranked))
    total = 0.0
    if len(ends) == 0:
        for rank in range(depth):
            total += gain_of(ranked[rank], kind, level) * discounts[rank]
        return total
    start = 0
    while start < depth:
        stop = ends[start]
        gain = 0.0
        for rank in range(start, stop):
            gain += gain_of(ranked[rank], kind, level)
        weight = 0.0
        for rank in range(start, min(stop, depth)):
            weight += discounts[rank]
        # Multiply first, so that whole gains and weights give whole results.
        total += gain * weight / (stop - start)
        start = stop
    return total


@compiled
def count_relevant(labels, threshold):  # type: ignore[no-untyped-def]
    """Count the labels above the threshold."""
    count = 0
    for i in range(len(labels)):
        count += labels[i] > threshold
    return count


Option: TypeAlias = str | float | int
"""A value of an option, as a user writes it."""


@dataclass(frozen=True)
class MetricSettings:
    """All options of a metric; those it does not use keep their defaults."""

    gain: Gain = "exp2"
    discount: Discount = "log2"
    short: str = "truncate"
    ties: str = "stable"
    seed: int = 0
    rounding: str = "none"
    empty: str = "drop"
    grade: str | float = "list"
    threshold: float = 0.0
    denominator: str = "cutoff"
    persistence: float = 0.8
    pairs: str = "binary"


OPTIONS = tuple(field.name for field in fields(MetricSettings))

CHOICES = {
    "gain": get_args(Gain),
    "discount": get_args(Discount),
    "short": ("truncate", "zero"),
    "ties": ("stable", "expected", "pessimistic", "optimistic", "random", "docid"),
    "rounding": ("none", "float32"),
    "empty": ("drop", "0", "0.5", "1"),
    "pairs": ("binary", "graded"),
}


def read_option(name: str, value: Option, *, choices: tuple[str, ...] | None = None) -> Option:
    """Convert text or a number to the form in which :class:`MetricSettings` holds an option.

    ``choices`` are the allowed values, where they depend on the metric.
    """
    allowed = choices or CHOICES.get(name)
    if allowed is None:
        return "list" if name == "grade" and value == "list" else _number(name, value)
    text = write_option(value)
    if text not in allowed:
        raise unknown_name("value", text, allowed, of=f"option {name}")
    return text


def write_option(value: Option) -> str:
    """Format a value so that :func:`read_option` reads it back exactly.

    >>> write_option(4.0), write_option(0.5), write_option("drop")
    ('4', '0.5', 'drop')
    """
    if isinstance(value, str):
        return value
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(float(value))


_NUMBERS: dict[str, tuple[Callable[[float], bool], str]] = {
    "grade": (lambda number: number > 0, "'list' or a number above 0"),
    "threshold": (lambda number: number >= 0, "a number of at least 0"),
    "persistence": (lambda number: 0 < number < 1, "a number between 0 and 1"),
    "seed": (lambda number: number == int(number) and 0 <= number < 2**63, "an integer from 0 to 2**63 - 1"),
}
"""For each numeric option, a check of its value and a description of the allowed values."""


def _number(name: str, value: Option) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise UsageError(f"option {name!r} takes a finite number, got {value!r}.")
    is_allowed, words = _NUMBERS[name]
    exact = int(value) if name == "seed" and number == int(number) else number  # a float may not hold all digits
    if not is_allowed(exact):
        raise UsageError(f"option {name!r} takes {words}, got {value!r}.")
    return exact


NO_CUTOFF = 2**62
"""Cut-off of a metric without one: larger than any list."""

SIGNATURE = float64(LABELS, INTEGERS, LABELS, LABELS, int64, FLOATS, FLOATS)
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
    What the definition derives from the settings.
value
    NaN if the list has no relevant document.
"""


def ones(settings: MetricSettings, n: int) -> NDArray[np.float64]:  # noqa: ARG001 - one interface for all
    """Discounts of a metric that has none."""
    return np.ones(n)


def threshold_only(settings: MetricSettings) -> tuple[float, ...]:
    """Parameters of a metric of binary relevance."""
    return (settings.threshold,)


def threshold_and(option: str, choices: tuple[str, ...]) -> Callable[[MetricSettings], tuple[float, ...]]:
    """Parameters of a metric of binary relevance that also depends on the position of an option's value."""
    return lambda settings: (settings.threshold, float(choices.index(getattr(settings, option))))


@dataclass(frozen=True)
class Definition:
    """A metric before its cut-off and convention are chosen."""

    name: str
    title: str
    """What it is, in a few words."""
    function: ListFunction
    options: tuple[str, ...]
    params: Callable[[MetricSettings], tuple[float, ...]]
    """Numbers for the list function."""
    discounts: Callable[[MetricSettings, int], NDArray[np.float64]] = ones
    """Discounts of the ranks 1 to n."""
    defaults: Mapping[str, Option] = field(default_factory=dict)
    """Options whose defaults differ from those of :class:`MetricSettings`."""
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Allowed values of options that depend on the metric."""
    has_cutoff: bool = True
    uses_ideal: bool = False
    """Whether the list function reads ``ideal``."""
    uses_groups: bool = False
    """Whether it always needs ``ends``, and documents that were not retrieved as the last group."""
    largest_label: Callable[[MetricSettings], float] | None = None
    """Larger labels have no meaning under these settings and are an error."""


RELEVANCE = ("short", "ties", "seed", "rounding", "empty", "threshold")
"""Options of metrics of binary relevance."""
