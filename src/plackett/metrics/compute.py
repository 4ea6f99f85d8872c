"""Second stage of a metric: one number per list, from rankings that the metrics share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import boolean, float64, int64, void

from plackett.base.errors import DataError, UsageError
from plackett.base.kernels import FLOATS, LABELS, function_maker, list_function
from plackett.base.ragged import Labels, Values
from plackett.base.threads import run_parallel
from plackett.metrics.definition import RANKS, SIGNATURE
from plackett.metrics.lists import ScoredLists
from plackett.metrics.ranking import LEAST_LISTS, Ranking, RankingRule, ideal_ranking, rank

if TYPE_CHECKING:
    from plackett.metrics.metric import Metric


def values_per_list(metrics: Sequence[Metric], lists: ScoredLists) -> list[Values]:
    """Compute each metric for each list; metrics share rankings where they can."""
    functions = {m: getattr(m, "function") for m in metrics if hasattr(m, "function")}  # noqa: B009
    values = {metric: _call_function(metric, f, lists) for metric, f in functions.items()}
    others = [metric for metric in metrics if metric not in functions]
    values |= dict(zip(others, _kernel_values(others, lists), strict=True))
    return [values[metric] for metric in metrics]


def _call_function(metric: Metric, function: Any, lists: ScoredLists) -> Values:
    """Call a user's function for each list with documents."""
    values = np.full(len(lists.offsets) - 1, np.nan)
    labels = lists.labels.astype(np.float64)
    for q in np.flatnonzero(lists.sizes):
        documents = slice(lists.offsets[q], lists.offsets[q + 1])
        value = function(lists.scores[documents].copy(), labels[documents].copy())
        if np.ndim(value) != 0 or not isinstance(value, (int, float, np.number, np.bool_)):
            raise UsageError(
                f"the metric {metric} must return one number for a list, got {value!r}."
            )
        values[q] = value
    return values


def _kernel_values(metrics: Sequence[Metric], lists: ScoredLists) -> list[Values]:
    for metric in metrics:
        _check_labels(metric, lists.labels)
    rules = [metric.rule for metric in metrics]
    depths: dict[RankingRule, int] = {}
    for metric, rule in zip(metrics, rules, strict=True):
        depths[rule] = max(depths.get(rule, 1), metric.depth)
    longest = int(lists.sizes.max(initial=1))
    rankings = {rule: rank(rule, lists, min(depth, longest)) for rule, depth in depths.items()}
    ideal_depth = max((m.depth for m in metrics if m.definition.uses_ideal), default=0)
    ideal = ideal_ranking(lists, min(ideal_depth, longest))
    return [
        _values(metric, rankings[rule], ideal, lists)
        for metric, rule in zip(metrics, rules, strict=True)
    ]


def _values(metric: Metric, ranking: Ranking, ideal: Ranking, lists: ScoredLists) -> Values:
    definition, settings = metric.definition, metric.settings
    values = np.empty(len(lists.offsets) - 1)
    longest = int(lists.sizes.max(initial=1))
    run_parallel(
        each_list.compiled,
        len(values),
        *definition.function.addresses,
        ranking.labels,
        ranking.ends,
        ranking.starts,
        ranking.depth,
        ideal.labels,
        ideal.starts,
        lists.labels,
        lists.offsets,
        metric.depth,
        settings.short == "zero" and metric.cutoff is not None,
        np.nan if settings.empty == "drop" else float(settings.empty),
        definition.discounts(settings, min(metric.depth, longest)),
        np.array(definition.params(settings), dtype=np.float64),
        values,
        least=LEAST_LISTS,
    )
    return values


_function_at = function_maker(SIGNATURE)


@list_function(
    void(
        int64,  # the first list
        int64,  # the end
        int64,  # address of the list function's C wrapper
        int64,  # and of its machine code
        LABELS,
        RANKS,
        RANKS,
        RANKS,
        LABELS,
        RANKS,
        LABELS,
        RANKS,
        int64,
        boolean,
        float64,
        FLOATS,
        FLOATS,
        float64[::1],
    )
)
def each_list(  # type: ignore[no-untyped-def]
    first,
    last,
    wrapper,
    machine_code,
    ranked,
    ends,
    starts,
    depth,
    ideal,
    ideal_starts,
    labels,
    offsets,
    cutoff,
    short_is_zero,
    empty,
    discounts,
    params,
    values,
):
    """Call a list function for each list and apply the rules for short and empty lists."""
    function = _function_at(wrapper, machine_code)
    for q in range(first, last):
        low, high = starts[q], starts[q] + depth[q]
        list_labels = labels[offsets[q] : offsets[q + 1]]
        value = function(
            ranked[low:high],
            ends[low:high] if len(ends) > 0 else ends,
            ideal[ideal_starts[q] : ideal_starts[q + 1]],
            list_labels,
            cutoff,
            discounts,
            params,
        )
        if np.isnan(value):
            values[q] = empty
        elif short_is_zero and len(list_labels) < cutoff:
            values[q] = 0.0
        else:
            values[q] = value


def _check_labels(metric: Metric, labels: Labels) -> None:
    if metric.definition.largest_label is None or len(labels) == 0:
        return
    allowed = metric.definition.largest_label(metric.settings)
    # Labels are float32: compare in that precision, or a grade of 0.1 would refuse a label 0.1.
    if allowed < np.inf and labels.max() > np.float32(allowed):
        raise DataError(
            f"{metric} allows labels up to {allowed:g}, but there is a label "
            f"{labels.max():g}; choose the option gain or grade to fit the labels."
        )
