"""Second stage of a metric: one number per list, from rankings that the metrics share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import boolean, float64, int64, prange, types, void

from plackett.base.errors import DataError
from plackett.base.kernels import FLOATS, LABELS, parallel_function
from plackett.base.ragged import Labels, Values
from plackett.metrics.definition import NO_CUTOFF, RANKS, SIGNATURE, Definition, Settings
from plackett.metrics.lists import ScoredLists
from plackett.metrics.ranking import Ranking, RankingRule, ideal_ranking, rank


@dataclass(frozen=True)
class Request:
    """A metric with everything looked up that computing it needs."""

    title: str
    definition: Definition
    cutoff: int | None
    settings: Settings

    @property
    def depth(self) -> int:
        """The cut-off as a number."""
        return NO_CUTOFF if self.cutoff is None else self.cutoff

    @property
    def rule(self) -> RankingRule:
        """How documents are ordered."""
        s = self.settings
        if self.definition.uses_groups:
            # Ties count one half in any order, so their rule does not matter.
            return RankingRule("expected", 0, s.rounding, groups=True, retrieved_only=False)
        return RankingRule(s.ties, s.seed, s.rounding, groups=s.ties == "expected")


def values_per_list(requests: Sequence[Request], lists: ScoredLists) -> list[Values]:
    """Compute each metric for each list; metrics share rankings where they can."""
    for request in requests:
        _check_labels(request, lists.labels)
    depths: dict[RankingRule, int] = {}
    for request in requests:
        depths[request.rule] = max(depths.get(request.rule, 1), request.depth)
    longest = int(lists.sizes.max(initial=1))
    rankings = {rule: rank(rule, lists, min(depth, longest)) for rule, depth in depths.items()}
    ideal_depth = max((r.depth for r in requests if r.definition.uses_ideal), default=0)
    ideal = ideal_ranking(lists, min(ideal_depth, longest))
    return [_values(request, rankings[request.rule], ideal, lists) for request in requests]


def _values(request: Request, ranking: Ranking, ideal: Ranking, lists: ScoredLists) -> Values:
    definition, settings = request.definition, request.settings
    values = np.empty(len(lists.offsets) - 1)
    longest = int(lists.sizes.max(initial=1))
    each_list.compiled(
        definition.function.compiled,
        ranking.labels,
        ranking.ends,
        ranking.starts,
        ranking.depth,
        ideal.labels,
        ideal.starts,
        lists.labels,
        lists.offsets,
        request.depth,
        settings.short == "zero" and request.cutoff is not None,
        np.nan if settings.empty == "drop" else float(settings.empty),
        definition.discounts(settings, min(request.depth, longest)),
        np.array(definition.params(settings), dtype=np.float64),
        values,
    )
    return values


@parallel_function(
    void,
    types.FunctionType(SIGNATURE),
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
def each_list(  # type: ignore[no-untyped-def]
    function,
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
    for q in prange(len(offsets) - 1):
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


def _check_labels(request: Request, labels: Labels) -> None:
    if request.definition.largest_label is None or len(labels) == 0:
        return
    allowed = request.definition.largest_label(request.settings)
    # Labels are float32: compare in that precision, or a grade of 0.1 would refuse a label 0.1.
    if allowed < np.inf and labels.max() > np.float32(allowed):
        raise DataError(
            f"{request.title} allows labels up to {allowed:g}, but there is a label "
            f"{labels.max():g}; choose the option gain or grade to fit the labels."
        )
