"""First stage: the labels of each list in the order of its scores.

All metrics with the same rule of ties share it. A short prefix is kept in a sorted buffer while
the scores go by; a long one, or the whole list, comes from a stable merge sort.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plackett.base.ragged import Labels, Offsets, Scores, from_sizes
from plackett.metrics.inputs import Lists
from plackett.metrics.selection import top_of_lists
from plackett.metrics.sorting import sort_lists
from plackett.metrics.ties import second_key

LONGEST_BUFFER = 32
"""Cut-offs up to it use a sorted buffer, whose cost grows with the cut-off."""


@dataclass(frozen=True)
class RankingRule:
    """What decides the order of documents."""

    ties: str
    seed: int
    rounding: str
    groups: bool
    """Rank every document and note where groups of equal scores end."""
    retrieved_only: bool = True


@dataclass(frozen=True)
class Ranking:
    """Labels in rank order: list q has ``depth[q]`` of them from ``starts[q]`` on."""

    labels: Labels
    ends: NDArray[np.int64]
    """Empty, or for each rank the rank at which its group of equal scores ends."""
    starts: Offsets
    depth: NDArray[np.int64]


def rank(rule: RankingRule, lists: Lists, cutoff: int) -> Ranking:
    """Rank the documents of each list, at least down to the cut-off."""
    whole = rule.groups or cutoff > LONGEST_BUFFER
    sizes = lists.sizes
    starts = lists.offsets if whole else from_sizes(np.minimum(sizes, cutoff))
    ranked = np.empty(starts[-1], np.float32)
    depth = np.empty(len(sizes), np.int64)
    scores = rounded(lists.scores, rule.rounding)
    second = second_key(rule.ties, rule.seed, lists)
    ends = np.empty(len(ranked) if rule.groups else 0, np.int64)
    # No score equals NaN, so it leaves out nothing.
    left_out = -np.inf if rule.retrieved_only else np.nan
    if whole:
        sort_lists.compiled(
            scores, second, lists.labels, lists.offsets, left_out, ranked, ends, depth
        )
    else:
        top_of_lists.compiled(
            scores, second, lists.labels, lists.offsets, starts, cutoff, ranked, depth
        )
    return Ranking(ranked, ends, starts, depth)


def rounded(scores: Scores, rounding: str) -> Scores:
    """Scores in the precision in which a tool compares them; finite scores stay finite."""
    if rounding == "none":
        return scores
    largest = float(np.finfo(np.float32).max)
    near = np.clip(scores, -largest, largest).astype(np.float32).astype(np.float64)
    return np.where(scores == -np.inf, -np.inf, near)
