r"""LambdaRank and LambdaLoss in single precision, alone or averaged over Gumbel-perturbed scores.

With the documents in rank order, all pairs of document a with the later ones b are one loop
without branches. Let :math:`w = (G_a - G_b)(D_a - D_b + \delta_{b-a})`, which is negative for a
pair in the wrong order, and :math:`q = 1 / (1 + e^{\sigma (s_a - s_b)})`. Then

.. math:: \lambda = w \cdot (q \text{ if } G_a > G_b \text{ else } 1 - q), \qquad
    \eta = |w|\, q (1 - q)

and :math:`g_a \mathrel{-}= \sigma\lambda`, :math:`g_b \mathrel{+}= \sigma\lambda`,
:math:`h_a, h_b \mathrel{+}= \sigma^2 \eta` (:mod:`plackett.objectives.lambdarank` has the
formulas). The discounts D go by rank; :math:`\delta` goes by the distance of ranks and is 0 for
LambdaRank (:mod:`plackett.objectives.lambdarank` defines it). Exponentials are computed per
document, not per pair: :math:`e^{\sigma (s_a - s_b)} = e^{\sigma s_a} \cdot e^{-\sigma s_b}`, as
long as the scores of the list are not too far apart for single precision. Sums are in any
order (``reassoc``), without which the loop would not become vector code.

**Ranking.** For lists of the usual length, comparing every pair of scores with vector instructions
is several times as fast as sorting: a sort makes n log n unpredictable branches, this makes n² / 16
comparisons without one. The comparisons are in single precision; a last pass in double precision
corrects neighbors that single precision cannot distinguish.
"""

import numpy as np
from numba import boolean, float32, float64, int32, int64, uint64, void
from numpy.typing import NDArray

from plackett.base.arithmetic import exp_float32, stable_order
from plackett.base.gains import discounts
from plackett.base.kernels import FLOATS, LABELS, compiled, function_maker, list_function, reordered
from plackett.base.ragged import CHUNKS, Keys, Scores, even_chunks
from plackett.base.random import noise_state, perturb
from plackett.base.threads import run_parallel
from plackett.objectives.objective import BoundObjective

PADDING = 64  # a multiple of the vector width, so that no remainder is left
_LEAST_PAIRS = 100_000  # that are worth a second thread
_SORT_FROM = 600  # documents: from here on sorting is faster


@compiled
def padded(n):  # type: ignore[no-untyped-def]
    """The next multiple of ``PADDING``."""
    return (n + PADDING - 1) // PADDING * PADDING


@compiled
def fill_order(scores, rounded, order):  # type: ignore[no-untyped-def]
    """Positions of the documents, best first; equal scores keep their order.

    ``rounded`` holds the scores in single precision; its length is ``padded(len(scores))``.
    """
    n = len(scores)
    if n < _SORT_FROM:
        rounded[n:] = float32(-np.inf)
        _rank_by_counting(rounded, n, order)
        _sort_ties(scores, order)
    else:
        best_first = stable_order(scores, True)
        for place in range(n):
            order[place] = best_first[place]


@compiled
def _rank_by_counting(rounded, n, order):  # type: ignore[no-untyped-def]
    """A document's rank is the number of documents above it, or the next free one."""
    for place in range(n):
        order[place] = -1
    for i in range(n):
        score = rounded[i]
        above = int32(0)
        for j in range(len(rounded)):
            above += int32(rounded[j] > score)
        while order[above] >= 0:
            above += int32(1)
        order[above] = i


@compiled
def _sort_ties(scores, order):  # type: ignore[no-untyped-def]
    """Insertion sort; only neighbors that rounding made equal are out of order."""
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


_SCORE_OFFSET = 0.01
_WIDEST = 80.0  # largest exponent whose exponential fits single precision


@reordered
def _add_pairs(a, up, down, gains, d, steps, g, h):  # type: ignore[no-untyped-def]
    """Add the pairs of the document at rank a with all later ones; returns the sum of |lambda|.

    ``up`` and ``down`` are the exponentials of sigma times the scores and of their negatives.
    """
    exponential, gain, discount = up[a], gains[a], d[a]
    steps = steps[: len(d) - a - 1]
    down, gains, d, g_later, h_later = (down[a + 1 :], gains[a + 1 :], d[a + 1 :], g[a + 1 :], h[a + 1 :])
    sum_g, sum_h, size = float32(0.0), float32(0.0), float32(0.0)
    for b in range(len(down)):
        difference = gain - gains[b]
        w = difference * (discount - d[b] + steps[b])
        q = float32(1.0) / (float32(1.0) + exponential * down[b])
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
def _add_plain_pairs(a, up, down, gains, d, g, h):  # type: ignore[no-untyped-def]
    """Like :func:`_add_pairs` for δ = 0, without the sum of |lambda|, which only the normalization needs."""
    exponential, gain, discount = up[a], gains[a], d[a]
    down, gains, d, g_later, h_later = (down[a + 1 :], gains[a + 1 :], d[a + 1 :], g[a + 1 :], h[a + 1 :])
    sum_g, sum_h = float32(0.0), float32(0.0)
    for b in range(len(down)):
        difference = gain - gains[b]
        w = difference * (discount - d[b])
        q = float32(1.0) / (float32(1.0) + exponential * down[b])
        slope = w * (q if difference > float32(0.0) else float32(1.0) - q)
        bend = abs(w) * (q * (float32(1.0) - q))
        sum_g += slope
        sum_h += bend
        g_later[b] += slope
        h_later[b] += bend
    g[a] -= sum_g
    h[a] += sum_h


@reordered
def _add_other_pairs(a, s, gains, d, steps, sigma, score_norm, g, h):  # type: ignore[no-untyped-def]
    """Like :func:`_add_pairs`, with an exponential per pair, and ``score_norm``."""
    score, gain, discount = s[a], gains[a], d[a]
    steps = steps[: len(d) - a - 1]
    s, gains, d, g_later, h_later = s[a + 1 :], gains[a + 1 :], d[a + 1 :], g[a + 1 :], h[a + 1 :]
    sum_g, sum_h, size = float32(0.0), float32(0.0), float32(0.0)
    slack, stretch = (float32(_SCORE_OFFSET), float32(1.0)) if score_norm else (float32(1.0), float32(0.0))
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
def _add_ranked(n, work, discounts, steps, rows, sigma, score_norm, plain):  # type: ignore[no-untyped-def]
    """Sum over the pairs of a list in rank order; returns the sum of |lambda|."""
    s, gains, g, h = work[1, :n], work[2, :n], work[3, :n], work[4, :n]
    up, down, d = work[5, :n], work[6, :n], discounts[:n]
    g[:] = float32(0.0)
    h[:] = float32(0.0)
    normed = score_norm and s[0] != s[n - 1]
    narrow = sigma * (s[0] - s[n - 1]) < float32(_WIDEST) and not normed
    size = float32(0.0)
    if narrow:
        for k in range(n):
            up[k] = exp_float32(sigma * (s[k] - s[0]))
            down[k] = exp_float32(sigma * (s[0] - s[k]))
        if plain:
            for a in range(rows):
                _add_plain_pairs(a, up, down, gains, d, g, h)
        else:
            for a in range(rows):
                size += _add_pairs(a, up, down, gains, d, steps, g, h)
    else:
        for a in range(rows):
            size += _add_other_pairs(a, s, gains, d, steps, sigma, normed, g, h)
    return size


@reordered
def add_sample(  # type: ignore[no-untyped-def]
    scores, gains, discounts, steps, truncation, sigma, score_norm, query_norm, order, work, gradient, curvature
):
    """Add the derivatives of one list at these scores, in units of sigma and sigma squared."""
    n = len(scores)
    z = work[0, : padded(n)]
    top = scores[0]
    for i in range(1, n):
        top = max(top, scores[i])
    for i in range(n):
        # Relative to the best score: single precision keeps the digits of differences.
        z[i] = float32(scores[i] - top)
    fill_order(scores, z, order)
    for rank in range(n):
        work[1, rank] = z[order[rank]]
        work[2, rank] = gains[order[rank]]
    rows = min(truncation, n - 1) if truncation > 0 else n - 1
    plain = not query_norm and steps[0] == float32(0.0)
    total = float32(2.0) * sigma * _add_ranked(n, work, discounts, steps, rows, sigma, score_norm, plain)
    scale = float32(1.0)
    if query_norm and total > float32(0.0):
        scale = np.log2(float32(1.0) + total) / total
    for rank in range(n):
        gradient[order[rank]] += scale * work[3, rank]
        curvature[order[rank]] += scale * work[4, rank]


class PairsGradient:
    """Gradient and curvature of LambdaRank or LambdaLoss in float32, for a bound objective.

    Parameters
    ----------
    bound
        The objective, whose prepared numbers are normalized gains.
    sigma, truncation, score_norm, query_norm, hess_factor
        As in :class:`~plackett.objectives.lambdarank.LambdaRank`; truncation 0: all pairs.
    near
        Factor of the difference of discounts.
    far
        Factor of δ, what discounts lose from one distance of ranks to the next.
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
        by_rank = discounts(int(max(sizes, default=0)) + 1)
        weights = np.ones(len(sizes)) if bound.weights is None else bound.weights
        pairs = sizes * np.minimum(sizes, truncation) if truncation else sizes * sizes
        self._lists = (
            bound.prepared.values.astype(np.float32),  # gains
            (near * by_rank).astype(np.float32),
            (far * (by_rank[:-1] - by_rank[1:])).astype(np.float32),
            bound.offsets,
            even_chunks(pairs + sizes),
        )
        self._least = CHUNKS if np.sum(pairs) < _LEAST_PAIRS else 1
        self._options = (
            weights.astype(np.float32),
            truncation,
            np.float32(sigma),
            score_norm,
            query_norm,
            np.float32(hess_factor),
            bound.noise.samples,
            bound.noise.beta,
        )

    def __call__(
        self, scores: Scores, keys: Keys, drawn: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        gradient, curvature = np.zeros((2, len(scores)), np.float32)
        if drawn is None:
            drawn = np.ones(len(keys), np.bool_)
        run_parallel(
            _each_list,
            len(self._lists[-1]) - 1,
            _add_list.address,
            scores,
            *self._lists,
            keys,
            drawn,
            *self._options,
            gradient,
            curvature,
            least=self._least,
        )
        return gradient, curvature


_LIST = void(
    FLOATS,  # scores
    uint64,  # key
    int64,  # samples
    float64,  # beta
    LABELS,  # gains
    LABELS,  # discounts
    LABELS,  # steps
    int64,  # truncation
    float32,  # sigma
    boolean,  # score_norm
    boolean,  # query_norm
    float64[::1],  # buffer for perturbed scores
    int32[::1],  # buffer for ranks
    float32[:, ::1],  # buffer for the rest
    float32[::1],  # gradient
    float32[::1],  # curvature
)
_function_at = function_maker(_LIST)


@list_function(_LIST)
def _add_list(  # type: ignore[no-untyped-def]
    scores,
    key,
    samples,
    beta,
    gains,
    discounts,
    steps,
    truncation,
    sigma,
    score_norm,
    query_norm,
    noisy,
    order,
    work,
    g,
    h,
):
    """Add the derivatives of one list, summed over the samples."""
    for sample in range(max(samples, 1)):
        if samples > 0:
            perturb(scores, noise_state(key, sample), beta, noisy)
        else:
            for i in range(len(scores)):
                noisy[i] = scores[i]
        add_sample(noisy, gains, discounts, steps, truncation, sigma, score_norm, query_norm, order, work, g, h)


@compiled
def _each_list(  # type: ignore[no-untyped-def]
    first,
    last,
    address,
    scores,
    gains,
    discounts,
    steps,
    offsets,
    chunks,
    keys,
    drawn,
    factors,
    truncation,
    sigma,
    score_norm,
    query_norm,
    hess_factor,
    samples,
    beta,
    gradient,
    curvature,
):
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
            g, h = gradient[low:high], curvature[low:high]
            add_list(
                scores[low:high],
                keys[q],
                samples,
                beta,
                gains[low:high],
                discounts,
                steps,
                truncation,
                sigma,
                score_norm,
                query_norm,
                noisy[:n],
                order[:n],
                work,
                g,
                h,
            )
            slope = factors[q] * sigma / float32(max(samples, 1))
            for i in range(n):
                g[i] *= slope
                h[i] *= slope * sigma * hess_factor
