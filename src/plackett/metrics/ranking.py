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
from plackett.base.kernels import FLOATS, INTEGERS, LABELS, compiled, inlined, list_function, readonly
from plackett.base.ragged import Ids, Keys, Labels, Offsets, Scores, as_offsets, offsets_from_sizes
from plackett.base.random import combine, mix, to_uniform
from plackett.base.threads import run_parallel

BLOCK = 1 << 14
"""Documents that one thread inspects at a time."""


LEVELS = 32
"""Whole labels below it are sorted by counting."""
SMALL, FIRST_CALLS = 20_000, 3
"""Documents up to which the first calls of a process rank in NumPy: it takes a few milliseconds, and a command that
evaluates once has three kernels less to compile."""
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
    in_numpy = len(s) <= SMALL and next(_calls) < FIRST_CALLS
    if in_numpy:
        good = s < np.inf, (y >= 0) & (y < np.inf), (y == np.floor(y)) & (y < LEVELS)
        bad_scores, bad_labels, uncountable = (np.count_nonzero(~values) for values in good)
    else:
        counts = np.empty((-(-len(s) // BLOCK), 3), np.int64)
        run_parallel(inspect.compiled, len(counts), s, y, counts)
        bad_scores, bad_labels, uncountable = counts.sum(axis=0)
    if bad_scores:
        document = int(np.flatnonzero(~(s < np.inf))[0])
        raise DataError(
            f"the score of {_place(document, o)} is {s[document]}; scores must be finite, or minus "
            "infinity for a document that was not retrieved."
        )
    if bad_labels:
        document = int(np.flatnonzero(~((y >= 0) & (y < np.inf)))[0])
        raise DataError(
            f"the label of {_place(document, o)} is {y[document]} in float32; labels must be finite and not negative."
        )
    ids, list_keys = _check_ids(document_ids, len(y)), _check_keys(keys, len(o) - 1)
    return ScoredLists(s, y, o, ids, list_keys, countable=uncountable == 0, in_numpy=in_numpy)


@list_function(void(int64, int64, FLOATS, LABELS, int64[:, ::1]))
def inspect(first, last, scores, labels, counts):  # type: ignore[no-untyped-def]
    """Count bad scores, bad labels, and labels that are not whole or not below ``LEVELS``."""
    for block in range(first, last):
        s = scores[block * BLOCK : (block + 1) * BLOCK]
        y = labels[block * BLOCK : (block + 1) * BLOCK]
        s_count, y_count, u_count = 0, 0, 0
        for i in range(len(s)):
            s_count += not (s[i] < float64(np.inf))
        for i in range(len(y)):
            y_count += not ((y[i] >= float32(0.0)) & (y[i] < float32(np.inf)))
            u_count += not ((y[i] == np.floor(y[i])) & (y[i] < float32(LEVELS)))
        counts[block, 0], counts[block, 1], counts[block, 2] = s_count, y_count, u_count


def _vector(name: str, values: ArrayLike, dtype: type[np.floating[Any]]) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.dtype.kind not in "fiub" and len(array)):
        raise DataError(f"{name} must be a one-dimensional array of numbers, got {array.dtype} of shape {array.shape}.")
    return np.ascontiguousarray(array, dtype=dtype)


def _check_ids(document_ids: ArrayLike | None, n_docs: int) -> Ids | None:
    if document_ids is None:
        return None
    ids = np.asarray(document_ids)
    if ids.shape != (n_docs,):
        raise DataError(f"there must be one document id for each of the {n_docs} documents, got shape {ids.shape}.")
    return ids


def _check_keys(keys: ArrayLike | None, n_lists: int) -> Keys | None:
    if keys is None:
        return None
    array = np.asarray(keys)
    if array.shape != (n_lists,) or (array.dtype.kind not in "iu" and n_lists):
        raise DataError(
            f"there must be one integer key for each of the {n_lists} lists, got {array.dtype} of shape {array.shape}."
        )
    return np.ascontiguousarray(array, dtype=np.uint64)


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
        return _id_ranks(lists)
    if ties == "random":
        n_lists = len(lists.offsets) - 1
        keys = np.arange(n_lists, dtype=np.uint64) if lists.keys is None else lists.keys
        values = np.empty(len(lists.labels))
        arguments = np.uint64(seed), keys, lists.offsets, values
        run_parallel(draw_random_keys.compiled, n_lists, *arguments, least=LEAST_LISTS)
        return values
    return np.empty(0)


def _id_ranks(lists: ScoredLists) -> NDArray[np.float64]:
    if lists.document_ids is None:
        raise DataError(
            "ties=docid (also the convention trec_eval) orders tied documents by their ids, but "
            "there are no document ids; give them, or choose ties=stable or ties=expected."
        )
    # Code points of unicode text sort as the bytes of its UTF-8 form, which trec_eval compares.
    return np.unique(lists.document_ids.astype(np.str_), return_inverse=True)[1].astype(np.float64)


@list_function(void(int64, int64, uint64, readonly(uint64), INTEGERS, float64[::1]))
def draw_random_keys(first, last, seed, keys, offsets, values):  # type: ignore[no-untyped-def]
    """Fill random numbers that depend on seed, list key and position in the list."""
    for q in range(first, last):
        state = combine(mix(seed), keys[q])
        for i in range(offsets[q + 1] - offsets[q]):
            values[offsets[q] + i] = to_uniform(combine(state, uint64(i)))


LEAST_LISTS = 100
"""Lists that are worth a thread."""
SELECTION_BLOCK = 16
"""Documents between two reads of the worst score in the buffer.

Larger blocks mean fewer branch mispredictions, but more insertions without effect."""


@inlined
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
    """Put the best documents in order into ``place``; of equals the earlier one stays ahead.

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


RUN = 8
"""Runs of this many documents are sorted by insertion, then merged."""


@inlined
def _before(scores, second, i, j):  # type: ignore[no-untyped-def]
    """Whether document i comes before document j regardless of their positions."""
    if scores[i] != scores[j]:
        return scores[i] > scores[j]
    return len(second) > 0 and second[i] > second[j]


@compiled
def _merge(scores, second, source, target, low, middle, high):  # type: ignore[no-untyped-def]
    left, right = low, middle
    for at in range(low, high):
        if right == high or (left < middle and not _before(scores, second, source[right], source[left])):
            target[at] = source[left]
            left += 1
        else:
            target[at] = source[right]
            right += 1


@compiled
def _sort(scores, second, order, spare):  # type: ignore[no-untyped-def]
    """Sort the document numbers in ``order``, best first; return the buffer that holds them."""
    n = len(order)
    for low in range(0, n, RUN):
        for i in range(low + 1, min(low + RUN, n)):
            document, at = order[i], i
            while at > low and _before(scores, second, document, order[at - 1]):
                order[at] = order[at - 1]
                at -= 1
            order[at] = document
    width = RUN
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            _merge(scores, second, order, spare, low, middle, high)
        order, spare = spare, order
        width *= 2
    return order


@compiled
def _write(scores, labels, order, ranked, ends):  # type: ignore[no-untyped-def]
    """Write labels in order and, if asked for, the rank at which each group of equals ends."""
    for i in range(len(order) - 1, -1, -1):
        ranked[i] = labels[order[i]]
        if len(ends) > 0:
            tied = i + 1 < len(order) and scores[order[i]] == scores[order[i + 1]]
            ends[i] = ends[i + 1] if tied else i + 1


@list_function(void(int64, int64, FLOATS, FLOATS, LABELS, INTEGERS, float64, float32[::1], int64[::1], int64[::1]))
def sort_lists(first, last, scores, second, labels, offsets, excluded, ranked, ends, depth):  # type: ignore[no-untyped-def]
    """Write the labels of all documents of each list except those with the score ``excluded``."""
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    order, spare = np.empty(longest, np.int64), np.empty(longest, np.int64)
    for q in range(first, last):
        low, high = offsets[q], offsets[q + 1]
        list_scores = scores[low:high]
        count = 0
        for i in range(high - low):
            if list_scores[i] != excluded:
                order[count] = i
                count += 1
        depth[q] = count
        keys = second[low:high] if len(second) > 0 else second
        best_first = _sort(list_scores, keys, order[:count], spare[:count])
        groups = ends[low : low + count] if len(ends) > 0 else ends
        _write(list_scores, labels[low:high], best_first, ranked[low:high], groups)


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


@compiled
def _by_sorting(labels, out):  # type: ignore[no-untyped-def]
    order = stable_order(labels, True)
    for i in range(len(out)):
        out[i] = labels[order[i]]


@list_function(void(int64, int64, LABELS, INTEGERS, INTEGERS, boolean, int64, float32[::1]))
def ideal_lists(first, last, labels, offsets, starts, countable, top, ideal):  # type: ignore[no-untyped-def]
    """Fill in the largest labels of each list."""
    for q in range(first, last):
        list_labels = labels[offsets[q] : offsets[q + 1]]
        out = ideal[starts[q] : starts[q + 1]]
        if countable:
            _by_counting(list_labels, top, out)
        else:
            _by_sorting(list_labels, out)
