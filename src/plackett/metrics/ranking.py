"""First stage of a metric: check scored lists, and put the labels of each list in the order of its scores.

All metrics with the same rule for ties share the ranking. A short prefix comes from a sorted
buffer, without sorting the rest of the list; a long one, or the whole list, from a stable merge
sort. The ideal ranking, labels in falling order, is computed here too.

Rules for ties, that is, for documents with equal scores:

=============== ==================================================================================
``stable``      the order in which the documents come
``expected``    none: metrics give the exact expectation over all orders of tied documents
``pessimistic`` the lower label first
``optimistic``  the higher label first
``random``      a random order: a function of the seed, the list's key and the document's position
``docid``       falling order of document ids as text, as in trec_eval
=============== ==================================================================================
"""

from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numba import boolean, float32, float64, int64, uint64, void
from numpy.typing import ArrayLike, NDArray

from plackett.base.arithmetic import stable_order
from plackett.base.errors import DataError
from plackett.base.kernels import FLOATS, INTEGERS, LABELS, compiled, list_function, readonly
from plackett.base.ragged import Ids, Keys, Labels, Offsets, Scores, as_offsets, offsets_from_sizes
from plackett.base.random import combine, mix, to_uniform
from plackett.base.threads import run_parallel

LEVELS = 32
"""Whole labels below it are sorted by counting."""
SMALL, FIRST_CALLS = 20_000, 3
"""Number of documents up to which the first calls of a process rank in NumPy: it takes a few milliseconds, and a
command that evaluates once has three fewer kernels to compile."""
_calls = count()


@dataclass(frozen=True)
class ScoredLists:
    """Scores and labels of lists, checked."""

    scores: Scores
    labels: Labels
    offsets: Offsets
    document_ids: Ids | None
    keys: Keys | None
    countable: bool
    """Whether all labels are whole and below ``LEVELS``."""
    in_numpy: bool = False
    """Whether they are ranked in NumPy; the results are the same."""

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of documents of each list."""
        return np.diff(self.offsets)


def check_lists(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    *,
    document_ids: ArrayLike | None = None,
    keys: ArrayLike | None = None,
) -> ScoredLists:
    """Check and convert the arrays of a caller.

    Raises
    ------
    DataError
        If lengths differ, scores are NaN or plus infinity, or labels are negative or not finite.
    """
    s = _vector("scores", scores, np.float64)
    with np.errstate(over="ignore"):  # a label beyond float32 becomes infinite, an error below
        y = _vector("labels", labels, np.float32)
    if len(s) != len(y):
        raise DataError(f"there must be one score for each label, got {len(s)} scores for {len(y)} labels.")
    o = as_offsets(offsets, len(y))
    if not s.max(initial=-np.inf) < np.inf:  # of NaN, too, the maximum is NaN
        document = int(np.argmin(s < np.inf))
        raise DataError(
            f"the score of {_place(document, o)} is {s[document]}; scores must be finite, or minus "
            "infinity for a document that was not retrieved."
        )
    if not (y.min(initial=0) >= 0 and y.max(initial=0) < np.inf):
        document = int(np.argmin((y >= 0) & (y < np.inf)))
        raise DataError(
            f"the label of {_place(document, o)} is {y[document]} in float32; labels must be finite and not negative."
        )
    ids = None if document_ids is None else np.asarray(document_ids)
    if ids is not None and ids.shape != y.shape:
        raise DataError(f"there must be one document id for each of the {len(y)} documents, got shape {ids.shape}.")
    list_keys = None if keys is None else np.asarray(keys)
    if list_keys is not None:
        n_lists = len(o) - 1
        if list_keys.shape != (n_lists,) or (list_keys.dtype.kind not in "iu" and n_lists):
            found = f"{list_keys.dtype} of shape {list_keys.shape}"
            raise DataError(f"there must be one integer key for each of the {n_lists} lists, got {found}.")
        list_keys = np.ascontiguousarray(list_keys, dtype=np.uint64)
    countable = bool(y.max(initial=0) < LEVELS and np.array_equal(y, np.floor(y)))
    in_numpy = len(s) <= SMALL and next(_calls) < FIRST_CALLS
    return ScoredLists(s, y, o, ids, list_keys, countable, in_numpy)


def _vector(name: str, values: ArrayLike, dtype: type[np.floating[Any]]) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.dtype.kind not in "fiub" and len(array)):
        raise DataError(f"{name} must be a one-dimensional array of numbers, got {array.dtype} of shape {array.shape}.")
    return np.ascontiguousarray(array, dtype=dtype)


def _place(document: int, offsets: Offsets) -> str:
    q = int(np.searchsorted(offsets, document, side="right")) - 1
    return f"document {document} (list {q})"


LONGEST_BUFFER = 32
"""Cut-offs up to it use a sorted buffer, whose cost grows with the cut-off."""


@dataclass(frozen=True)
class RankingRule:
    """How documents are ordered."""

    ties: str
    seed: int
    rounding: str
    groups: bool
    """Rank every document and record where groups of equal scores end."""
    retrieved_only: bool = True


@dataclass(frozen=True)
class RankedLabels:
    """Labels in rank order: list q has ``depth[q]`` of them from ``starts[q]`` on."""

    labels: Labels
    ends: NDArray[np.int64]
    """Empty, or for each rank the rank at which its group of equal scores ends."""
    starts: Offsets
    depth: NDArray[np.int64]


def rank(rule: RankingRule, lists: ScoredLists, cutoff: int) -> RankedLabels:
    """Rank the documents of each list, at least down to the cut-off."""
    whole = rule.groups or cutoff > LONGEST_BUFFER
    sizes = lists.sizes
    starts = lists.offsets if whole else offsets_from_sizes(np.minimum(sizes, cutoff))
    ranked = np.empty(starts[-1], np.float32)
    depth = np.empty(len(sizes), np.int64)
    scores = round_scores(lists.scores, rule.rounding)
    second = tie_keys(rule.ties, rule.seed, lists)
    ends = np.empty(len(ranked) if rule.groups else 0, np.int64)
    # No score equals NaN, so NaN excludes nothing.
    excluded = -np.inf if rule.retrieved_only else np.nan
    if lists.in_numpy:
        depth = _rank_in_numpy(scores, second, lists, excluded if whole else -np.inf, starts, ranked, ends)
        return RankedLabels(ranked, ends, starts, depth)
    kernel = sort_lists if whole else top_of_lists
    options = (excluded, ranked, ends, depth) if whole else (starts, cutoff, ranked, depth)
    arguments = scores, second, lists.labels, lists.offsets, *options
    run_parallel(kernel.compiled, len(sizes), *arguments, least=LEAST_LISTS)
    return RankedLabels(ranked, ends, starts, depth)


def round_scores(scores: Scores, rounding: str) -> Scores:
    """Scores in the precision in which the tool compares them; finite scores stay finite."""
    if rounding == "none":
        return scores
    largest = float(np.finfo(np.float32).max)
    near = np.clip(scores, -largest, largest).astype(np.float32).astype(np.float64)
    return np.where(scores == -np.inf, -np.inf, near)


def ideal_ranking(lists: ScoredLists, cutoff: int) -> RankedLabels:
    """Rank the documents of each list by their labels."""
    depth = np.minimum(lists.sizes, cutoff)
    starts = offsets_from_sizes(depth)
    labels = np.empty(starts[-1], np.float32)
    if cutoff > 0 and lists.in_numpy:
        _rank_in_numpy(lists.labels, np.empty(0), lists, np.nan, starts, labels, np.empty(0, np.int64))
    elif cutoff > 0:
        top = int(lists.labels.max(initial=0)) if lists.countable else 0
        arguments = lists.labels, lists.offsets, starts, lists.countable, top, labels
        run_parallel(ideal_lists.compiled, len(depth), *arguments, least=LEAST_LISTS)
    return RankedLabels(labels, np.empty(0, np.int64), starts, depth)


def _rank_in_numpy(
    scores: NDArray[Any],
    second: NDArray[np.float64],
    lists: ScoredLists,
    excluded: float,
    starts: Offsets,
    ranked: Labels,
    ends: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Do the work of the kernels below: fill in labels and ends of groups from ``starts`` on; return the depths."""
    list_of = np.repeat(np.arange(len(lists.sizes)), lists.sizes)
    order = np.lexsort((*((-second,) if len(second) else ()), -scores, list_of))
    order = order[scores[order] != excluded]
    q = list_of[order]
    depth = np.bincount(q, minlength=len(lists.sizes))
    place = np.arange(len(order)) - offsets_from_sizes(depth)[q]
    if len(ends):
        first = np.flatnonzero(np.r_[True, (q[1:] != q[:-1]) | (scores[order][1:] != scores[order][:-1])][: len(q)])
        last = np.r_[first[1:], len(order)] - 1
        ends[starts[q] + place] = np.repeat(place[last] + 1, last - first + 1)
    room = np.diff(starts)
    kept = place < room[q]
    ranked[(starts[q] + place)[kept]] = lists.labels[order[kept]]
    return np.minimum(depth, room)


def tie_keys(ties: str, seed: int, lists: ScoredLists) -> NDArray[np.float64]:
    """One number per document that orders ties, larger first; empty if ties need no order."""
    if ties == "pessimistic":
        return -lists.labels.astype(np.float64)
    if ties == "optimistic":
        return lists.labels.astype(np.float64)
    if ties == "docid":
        if lists.document_ids is None:
            raise DataError(
                "ties=docid (also the convention trec_eval) orders tied documents by their ids, but "
                "there are no document ids; give them, or choose ties=stable or ties=expected."
            )
        # Code points of unicode text sort as the bytes of its UTF-8 form, which trec_eval compares.
        return np.unique(lists.document_ids.astype(np.str_), return_inverse=True)[1].astype(np.float64)
    if ties == "random":
        n_lists = len(lists.offsets) - 1
        keys = np.arange(n_lists, dtype=np.uint64) if lists.keys is None else lists.keys
        values = np.empty(len(lists.labels))
        arguments = np.uint64(seed), keys, lists.offsets, values
        run_parallel(draw_random_keys.compiled, n_lists, *arguments, least=LEAST_LISTS)
        return values
    return np.empty(0)


@list_function(void(int64, int64, uint64, readonly(uint64), INTEGERS, float64[::1]))
def draw_random_keys(first, last, seed, keys, offsets, values):  # type: ignore[no-untyped-def]
    """Fill random numbers that depend on seed, list key and position in the list."""
    for q in range(first, last):
        state = combine(mix(seed), keys[q])
        for i in range(offsets[q + 1] - offsets[q]):
            values[offsets[q] + i] = to_uniform(combine(state, uint64(i)))


LEAST_LISTS = 100
"""Minimum number of lists per thread."""
SELECTION_BLOCK = 16
"""Documents between two reads of the worst score in the buffer.

Larger blocks mean fewer branch mispredictions, but more insertions without effect."""


@compiled
def _insert(new, i, best, place):  # type: ignore[no-untyped-def]
    """Move all documents worse than a new one down by one place; nothing moves if none is."""
    score, document = new, i
    for k in range(len(best)):
        old, old_document = best[k], place[k]
        better = new > old
        best[k] = score if better else old
        place[k] = document if better else old_document
        score = old if better else new
        document = old_document if better else i


@compiled
def _top(scores, best, place, candidates):  # type: ignore[no-untyped-def]
    """Put the best documents in order into ``place``; of equal scores the earlier one stays first.

    An insertion that stops at the right place spends most of its time on mispredicted branches.
    So no branch here depends on a single score: documents better than the worst of the buffer
    are collected, a block at a time, and each insertion runs through the whole buffer in vector
    instructions.
    """
    best[:] = -np.inf
    for start in range(0, len(scores), SELECTION_BLOCK):
        worst = best[len(best) - 1]
        count = 0
        for i in range(start, min(start + SELECTION_BLOCK, len(scores))):
            # Unsigned indices need no check for negative ones.
            candidates[uint64(count)] = i
            count += scores[uint64(i)] > worst
        for j in range(count):
            i = candidates[uint64(j)]
            _insert(scores[uint64(i)], i, best, place)


@compiled
def _top_by_two_keys(scores, second, best, place):  # type: ignore[no-untyped-def]
    """Like :func:`_top`; among equal scores the larger second key comes first."""
    best[:] = -np.inf
    last = len(best) - 1
    for i in range(len(scores)):
        score = scores[i]
        if score < best[last] or score == -np.inf:
            continue
        if score == best[last] and second[i] <= second[place[last]]:
            continue
        at = last
        while at > 0 and (score > best[at - 1] or (score == best[at - 1] and second[i] > second[place[at - 1]])):
            best[at] = best[at - 1]
            place[at] = place[at - 1]
            at -= 1
        best[at] = score
        place[at] = i


@list_function(void(int64, int64, FLOATS, FLOATS, LABELS, INTEGERS, INTEGERS, int64, float32[::1], int64[::1]))
def top_of_lists(first, last, scores, second, labels, offsets, starts, limit, ranked, depth):  # type: ignore[no-untyped-def]
    """Write the labels of the first ``limit`` retrieved documents of each list."""
    best, place = np.empty(limit), np.zeros(limit, np.int64)
    candidates = np.empty(SELECTION_BLOCK + 1, np.int64)
    for q in range(first, last):
        low, high = offsets[q], offsets[q + 1]
        if len(second) > 0:
            _top_by_two_keys(scores[low:high], second[low:high], best, place)
        else:
            _top(scores[low:high], best, place, candidates)
        count = 0
        while count < limit and best[count] > -np.inf:
            ranked[starts[q] + count] = labels[low + place[count]]
            count += 1
        depth[q] = count


@list_function(void(int64, int64, FLOATS, FLOATS, LABELS, INTEGERS, float64, float32[::1], int64[::1], int64[::1]))
def sort_lists(first, last, scores, second, labels, offsets, excluded, ranked, ends, depth):  # type: ignore[no-untyped-def]
    """Write the labels of all documents of each list except those with the score ``excluded``.

    If ``ends`` is not empty, it gets the rank at which each group of equal scores ends.
    """
    for q in range(first, last):
        low, high = offsets[q], offsets[q + 1]
        list_scores = scores[low:high]
        order = stable_order(list_scores, True)
        falling = list_scores[order]
        if len(second) > 0 and np.any(falling[1:] == falling[:-1]):
            order = stable_order(second[low:high], True)
            order = order[stable_order(list_scores[order], True)]
        count = len(order)
        while count > 0 and list_scores[order[count - 1]] == excluded:  # minus infinity: the last ones
            count -= 1
        depth[q] = count
        for i in range(count - 1, -1, -1):
            ranked[low + i] = labels[low + order[i]]
            if len(ends) > 0:
                tied = i + 1 < count and list_scores[order[i]] == list_scores[order[i + 1]]
                ends[low + i] = ends[low + i + 1] if tied else i + 1


@compiled
def _by_counting(labels, top, out):  # type: ignore[no-untyped-def]
    """Fill in the largest labels, which are whole numbers up to ``top``.

    One pass in vector instructions per level, from the top until ``out`` is full, is faster than
    one pass that increments counters.
    """
    filled = 0
    for level in range(top, 0, -1):
        least = np.float32(level)
        count = 0
        for i in range(len(labels)):
            count += labels[i] >= least
        for i in range(filled, min(count, len(out))):
            out[i] = least
        filled = count
        if filled >= len(out):
            return
    out[filled:] = 0.0


@list_function(void(int64, int64, LABELS, INTEGERS, INTEGERS, boolean, int64, float32[::1]))
def ideal_lists(first, last, labels, offsets, starts, countable, top, ideal):  # type: ignore[no-untyped-def]
    """Fill in the largest labels of each list."""
    for q in range(first, last):
        list_labels = labels[offsets[q] : offsets[q + 1]]
        out = ideal[starts[q] : starts[q + 1]]
        if countable:
            _by_counting(list_labels, top, out)
        else:
            out[:] = list_labels[stable_order(list_labels, True)[: len(out)]]
