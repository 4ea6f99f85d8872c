r"""LambdaRank and LambdaLoss in single precision, alone or averaged over Gumbel-perturbed scores.

For documents a and b, a above b in the ranking, let :math:`w = (G_a - G_b)(D_a - D_b + \delta_{b-a})`, which is
negative for a pair in the wrong order, and :math:`q = 1 / (1 + e^{\sigma (s_a - s_b)})`. Then

.. math:: \lambda = w \cdot (q \text{ if } G_a > G_b \text{ else } 1 - q), \qquad
    \eta = |w|\, q (1 - q)

and :math:`g_a \mathrel{-}= \sigma\lambda`, :math:`g_b \mathrel{+}= \sigma\lambda`, :math:`h_a, h_b \mathrel{+}=
\sigma^2 \eta` (:mod:`plackett.objectives.lambdarank` has the formulas). The discounts D depend on the rank;
:math:`\delta` depends on the distance of ranks and is 0 for LambdaRank (:mod:`plackett.objectives.lambdaloss` defines
it).

Each document's pairs are one loop without branches, which becomes vector code because sums may be in any
order (``reassoc``). There are two ways to arrange the documents:

- *By gain*, lowest first: the worse partners of a document are those before its level, and pairs of
  one level, which have no weight, are not visited. This is for LambdaRank over all pairs.
- *By rank*: the partners of a document are the later ones. Here :math:`\delta` and the truncation need no search.

Loops run to a multiple of the vector width. What they visit beyond the last partner has no weight.
Exponentials are computed per document, not per pair: :math:`e^{\sigma (s_a - s_b)} = e^{\sigma s_a}
\cdot e^{-\sigma s_b}`, as long as the scores of the list are not too far apart for single precision.

**Ranking.** Documents are sorted into buckets of equal width, twice as many as there are documents. An
insertion sort then corrects the order of neighbors. A merge sort makes n log n unpredictable branches; it
is used only for scores so unevenly distributed that insertion would need many moves.
"""

import numpy as np
from numba import float32, float64, int32, int64, uint32, uint64, void
from numpy.typing import NDArray

from plackett.base.arithmetic import exp_float32, stable_order
from plackett.base.gains import discounts
from plackett.base.kernels import FLOATS, LABELS, compiled, function_maker, list_function, readonly, reordered
from plackett.base.ragged import CHUNKS, Keys, Scores, even_chunks
from plackett.base.random import noise_state, perturb
from plackett.base.threads import run_parallel
from plackett.objectives.objective import BoundObjective

PADDING = 64  # entries that loops may read beyond the last document
_WIDTH = 16  # width of vectors
_LEAST_PAIRS = 100_000  # with fewer pairs, one thread does all the work
_BUCKETS = 2  # per document
_MOVES = 16  # per document; from here on a merge sort is faster
_SPREADS = (1e-290, 1e290)  # limits of the spread of scores for which the width of a bucket is finite


@compiled
def fill_order(scores, order):  # type: ignore[no-untyped-def]
    """Positions of the documents, best first; equal scores keep their order."""
    if not (_sort_into_buckets(scores, order) and _sort_by_insertion(scores, order)):
        best_first = stable_order(scores, True)
        for place in range(len(order)):
            order[place] = best_first[place]


@compiled
def _sort_into_buckets(scores, order):  # type: ignore[no-untyped-def]
    """Roughly sorted positions, best first; returns whether the scores allow it."""
    n = len(scores)
    low = high = scores[0]
    for i in range(1, n):
        low, high = min(low, scores[i]), max(high, scores[i])
    spread = high - low
    if not spread < _SPREADS[1]:
        return False
    m = _BUCKETS * n
    scale = (m - 1) / spread if spread > _SPREADS[0] else 0.0
    bucket, ends = np.empty(n, np.uint32), np.zeros(m + 1, np.uint32)
    for i in range(n):
        bucket[i] = uint32((high - scores[i]) * scale)
    for i in range(n):
        ends[bucket[i] + uint32(1)] += uint32(1)
    for k in range(1, m):
        ends[k] += ends[k - 1]  # where bucket k begins, and the next document in it goes
    for i in range(n):
        order[ends[bucket[i]]] = i
        ends[bucket[i]] += uint32(1)
    return True


@compiled
def _sort_by_insertion(scores, order):  # type: ignore[no-untyped-def]
    """Sort positions that are roughly sorted; returns whether that took few moves."""
    moves = 0
    for place in range(1, len(order)):
        document = order[place]
        score = scores[document]
        hole = place
        while hole > 0:
            other = order[hole - 1]
            if scores[other] > score or (scores[other] == score and other < document):
                break
            order[hole] = other
            hole -= 1
        order[hole] = document
        moves += place - hole
        if moves > _MOVES * len(order):
            return False
    return True


SCORE_OFFSET = 0.01  # of the division by score differences, as in LightGBM
_WIDEST = 80.0  # largest exponent whose exponential fits single precision


@compiled
def _whole(count):  # type: ignore[no-untyped-def]
    """The next multiple of the vector width."""
    return (count + _WIDTH - 1) // _WIDTH * _WIDTH


@reordered
def _add_worse(a, count, up, down, gains, d, g, h):  # type: ignore[no-untyped-def]
    """Add the pairs of a document with the first ``count``; returns the sum of lambda.

    Only those with a smaller gain have a weight. ``up`` and ``down`` are the exponentials of sigma
    times the scores and of their negatives.
    """
    exponential, gain, discount = up[a], gains[a], d[a]
    down, gains, d, g_worse, h_worse = down[:count], gains[:count], d[:count], g[:count], h[:count]
    sum_g, sum_h = float32(0.0), float32(0.0)
    for b in range(count):
        w = max(gain - gains[b], float32(0.0)) * abs(discount - d[b])
        q = float32(1.0) / (float32(1.0) + exponential * down[b])
        slope = w * q
        bend = slope - slope * q
        sum_g += slope
        sum_h += bend
        g_worse[b] += slope
        h_worse[b] += bend
    g[a] -= sum_g
    h[a] += sum_h
    return sum_g


@reordered
def _add_by_gain(n, work):  # type: ignore[no-untyped-def]
    """Sum over the pairs of a list in the order of gains; returns the sum of |lambda|."""
    d, gains, g, h, up, down = work[0], work[2], work[3], work[4], work[5], work[6]
    for k in range(n, _whole(n)):
        gains[k], down[k], d[k] = float32(np.inf), float32(0.0), float32(0.0)
    size = float32(0.0)
    worse = 0
    for a in range(1, n):
        if gains[a] > gains[a - 1]:
            worse = a
        if worse > 0:
            size += _add_worse(a, _whole(worse), up, down, gains, d, g, h)
    return size


@reordered
def _add_later(a, count, up, down, gains, d, steps, g, h):  # type: ignore[no-untyped-def]
    """Add the pairs of the document at rank a with the next ``count``; returns the sum of |lambda|."""
    exponential, gain, discount = up[a], gains[a], d[a]
    end = a + 1 + count
    down, gains, d = down[a + 1 : end], gains[a + 1 : end], d[a + 1 : end]
    steps, g_later, h_later = steps[:count], g[a + 1 : end], h[a + 1 : end]
    sum_g, sum_h, size = float32(0.0), float32(0.0), float32(0.0)
    for b in range(count):
        difference = gain - gains[b]
        w = difference * (discount - d[b] + steps[b])
        q = float32(1.0) / (float32(1.0) + exponential * down[b])
        slope = w * (q if difference > float32(0.0) else float32(1.0) - q)
        bend = abs(w) * (q - q * q)
        sum_g += slope
        sum_h += bend
        size += abs(slope)
        g_later[b] += slope
        h_later[b] += bend
    g[a] -= sum_g
    h[a] += sum_h
    return size


@reordered
def _add_other_pairs(a, s, gains, d, steps, sigma, score_norm, g, h):  # type: ignore[no-untyped-def]
    """Like :func:`_add_later`, with an exponential per pair, and ``score_norm``."""
    score, gain, discount = s[a], gains[a], d[a]
    steps = steps[: len(d) - a - 1]
    s, gains, d, g_later, h_later = s[a + 1 :], gains[a + 1 :], d[a + 1 :], g[a + 1 :], h[a + 1 :]
    sum_g, sum_h, size = float32(0.0), float32(0.0), float32(0.0)
    slack, stretch = (float32(SCORE_OFFSET), float32(1.0)) if score_norm else (float32(1.0), float32(0.0))
    for b in range(len(s)):
        difference = gain - gains[b]
        distance = score - s[b]
        w = difference * (discount - d[b] + steps[b]) / (slack + stretch * distance)
        q = float32(1.0) / (float32(1.0) + exp_float32(sigma * distance))
        slope = w * (q if difference > float32(0.0) else float32(1.0) - q)
        bend = abs(w) * (q * (float32(1.0) - q))
        sum_g += slope
        sum_h += bend
        size += abs(slope)
        g_later[b] += slope
        h_later[b] += bend
    g[a] -= sum_g
    h[a] += sum_h
    return size


@reordered
def _add_by_rank(n, work, lowest_gain, discounts, steps, rows, sigma, narrow, normed):  # type: ignore[no-untyped-def]
    """Sum over the pairs of a list in rank order; returns the sum of |lambda|."""
    s, gains, g, h, up, down = work[1], work[2], work[3], work[4], work[5], work[6]
    size = float32(0.0)
    if narrow:
        for k in range(n, n + _WIDTH):
            gains[k], down[k] = lowest_gain, float32(np.inf)  # q = 0 for all with a larger gain
        for a in range(rows):
            size += _add_later(a, _whole(n - a - 1), up, down, gains, discounts, steps, g, h)
    else:
        for a in range(rows):
            size += _add_other_pairs(a, s[:n], gains[:n], discounts[:n], steps, sigma, normed, g[:n], h[:n])
    return size


@reordered
def add_sample(scores, gains, by_gain, discounts, steps, options, order, work, g, h):  # type: ignore[no-untyped-def]
    """Add the derivatives of one list at these scores, in units of sigma and sigma squared."""
    truncation, sigma, score_norm, query_norm = options
    n = len(scores)
    fill_order(scores, order)
    top = scores[order[0]]
    spread = float32(top - scores[order[n - 1]])
    normed = score_norm and spread > float32(0.0)
    narrow = sigma * spread < float32(_WIDEST) and not normed
    all_pairs = narrow and truncation == 0 and steps[0] == float32(0.0)
    if all_pairs:
        for rank in range(n):
            work[1, order[rank]] = discounts[rank]
        for k in range(n):
            work[0, k] = work[1, by_gain[k]]
            order[k] = by_gain[k]
    s, up, down = work[1], work[5], work[6]
    for k in range(n):
        # Relative to the best score: single precision keeps the digits of differences.
        s[k] = float32(scores[order[k]] - top)
        work[2, k] = gains[order[k]]
    if narrow:
        for k in range(n):
            up[k] = exp_float32(sigma * s[k])
            down[k] = exp_float32(-sigma * s[k])
    work[3:5, : n + _WIDTH] = float32(0.0)
    if all_pairs:
        size = _add_by_gain(n, work)
    else:
        rows = min(truncation, n - 1) if truncation > 0 else n - 1
        size = _add_by_rank(n, work, gains[by_gain[0]], discounts, steps, rows, sigma, narrow, normed)
    total = float32(2.0) * sigma * size
    scale = float32(1.0)
    if query_norm and total > float32(0.0):
        scale = float32(np.log1p(float64(total)) / np.log(2.0)) / total
    for k in range(n):
        g[order[k]] += scale * work[3, k]
        h[order[k]] += scale * work[4, k]


class PairsGradient:
    """Gradient and curvature of LambdaRank or LambdaLoss in float32, for an objective bound to normalized gains.

    Parameters are those of :class:`~plackett.objectives.lambdarank.LambdaRank` (truncation 0: all pairs), ``near``,
    the factor of the difference of discounts, and ``far``, that of δ.
    """

    def __init__(
        self,
        bound: BoundObjective,
        sigma: float,
        truncation: int = 0,
        score_norm: bool = False,
        query_norm: bool = False,
        hess_factor: float = 1.0,
        near: float = 1.0,
        far: float = 0.0,
    ) -> None:
        sizes = np.diff(bound.offsets)
        by_rank = discounts(int(max(sizes, default=0)) + PADDING)
        gains = bound.prepared.values
        by_gain = np.lexsort((gains, np.repeat(np.arange(len(sizes)), sizes)))
        weights = np.ones(len(sizes)) if bound.weights is None else bound.weights
        pairs = sizes * np.minimum(sizes, truncation) if truncation else sizes * sizes
        self._lists = (
            gains.astype(np.float32),
            (by_gain - np.repeat(bound.offsets[:-1], sizes)).astype(np.int32),
            (near * by_rank).astype(np.float32),
            (far * (by_rank[:-1] - by_rank[1:])).astype(np.float32),
            bound.offsets,
            even_chunks(pairs + sizes),
        )
        self._least = CHUNKS if np.sum(pairs) < _LEAST_PAIRS else 1
        options = truncation, sigma, score_norm, query_norm, bound.noise.samples, bound.noise.beta
        self._options = (weights.astype(np.float32), np.float32(hess_factor), np.array(options, dtype=np.float64))

    def __call__(
        self, scores: Scores, keys: Keys, drawn: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        gradient, curvature = np.zeros((2, len(scores)), np.float32)
        if drawn is None:
            drawn = np.ones(len(keys), np.bool_)
        arguments = _add_list.address, scores, self._lists, keys, drawn, self._options, gradient, curvature
        run_parallel(_each_list, len(self._lists[-1]) - 1, *arguments, least=self._least)
        return gradient, curvature


_LIST = void(
    FLOATS,  # scores
    uint64,  # key
    LABELS,  # gains
    readonly(int32),  # positions by gain, lowest first
    LABELS,  # discounts
    LABELS,  # steps
    FLOATS,  # truncation, sigma, score_norm, query_norm, samples and beta
    float64[::1],  # buffer for perturbed scores
    int32[::1],  # buffer for ranks
    float32[:, ::1],  # buffer for the rest
    float32[::1],  # gradient
    float32[::1],  # curvature
)
_function_at = function_maker(_LIST)


@list_function(_LIST)
def _add_list(scores, key, gains, by_gain, discounts, steps, params, noisy, order, work, g, h):  # type: ignore[no-untyped-def]
    """Add the derivatives of one list, summed over the samples."""
    options = (int64(params[0]), float32(params[1]), params[2] > 0.0, params[3] > 0.0)
    samples, beta = int64(params[4]), params[5]
    for sample in range(max(samples, 1)):
        if samples > 0:
            perturb(scores, noise_state(key, sample), beta, noisy)
        else:
            for i in range(len(scores)):
                noisy[i] = scores[i]
        add_sample(noisy, gains, by_gain, discounts, steps, options, order, work, g, h)


@compiled
def _each_list(first, last, address, scores, lists, keys, drawn, options, gradient, curvature):  # type: ignore[no-untyped-def]
    gains, by_gain, discounts, steps, offsets, chunks = lists
    factors, hess_factor, params = options
    sigma, samples = float32(params[1]), int64(params[4])
    add_list = _function_at(address)
    for c in range(first, last):
        longest = 0
        for q in range(chunks[c], chunks[c + 1]):
            longest = max(longest, offsets[q + 1] - offsets[q])
        work = np.empty((7, longest + PADDING), np.float32)
        noisy, order = np.empty(longest), np.empty(longest, np.int32)
        for q in range(chunks[c], chunks[c + 1]):
            low, high = offsets[q], offsets[q + 1]
            n = high - low
            if n < 2 or not drawn[q]:
                continue
            s, y, ranks = scores[low:high], gains[low:high], by_gain[low:high]
            g, h = gradient[low:high], curvature[low:high]
            add_list(s, keys[q], y, ranks, discounts, steps, params, noisy[:n], order[:n], work, g, h)
            slope = factors[q] * sigma / float32(max(samples, 1))
            for i in range(n):
                g[i] *= slope
                h[i] *= slope * sigma * hess_factor
