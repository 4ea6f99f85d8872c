r"""The losses of conditional models, over a sample of rankings or over all sign vectors.

**Sampled rankings**, for every gain (Dubey et al. 2009). A good is a relevant document (label > 0), a bad an irrelevant
one. A ranking y has coefficients :math:`c_g = 2 n_g - n_-` and :math:`c_b = 2 n_b - n_+`: twice the number of opponents
that the document beats, minus the number of opponents. Its compatibility with the scores, relative to the ideal ranking
:math:`y_q`, is :math:`a_y = \sum_d (c_d(y) - c_d(y_q)) s_d = -2 \sum_{y_{gb} = -1} (s_g - s_b)`. With :math:`\Delta =
1 - \mathrm{gain}`, sums over the fixed sample (self-normalized: the sample does not follow the model, so plain averages
would not estimate its means), :math:`p = \mathrm{softmax}(a)` and :math:`d = c(y) - c(y_q)`:

=============  ==========================================  ======================================
objective      value                                       gradient
=============  ==========================================  ======================================
MLE (L1)       :math:`\log\sum e^{a}`                      :math:`E_p[d]`
L2             :math:`E_p[\Delta]`                         :math:`E_p[(\Delta - E_p\Delta)\, d]`
L3 = L1 + L2   sum of both                                 :math:`E_p[(1+\Delta - E_p\Delta)\,d]`
ConvexLoss     :math:`\log\sum e^{\Delta + a}`             :math:`E_{\propto e^{\Delta+a}}[d]`
ExpGain        :math:`\log\sum e^{a} - \log\sum G e^{a}`   :math:`E_p[d] - E_{\propto G e^a}[d]`
=============  ==========================================  ======================================

**Curvature.** MLE and ConvexLoss: the variance of d under their softmax, the exact diagonal. L3: :math:`E_p[(1 + \Delta
- E_p\Delta)(d - \bar d)^2]`, exact too, and non-negative because losses lie in [0, 1]: L3 is convex, though the paper
says it is not in general. L2: :math:`E_p[|\Delta - E_p\Delta| (d - \bar d)^2]`, which bounds its diagonal (that without
absolute values). ExpGain is a difference of convex functions; with the second one replaced by its tangent it is
majorized by a function with diagonal :math:`\mathrm{Var}_p(d)`. The last two are raised to 1e-6 of the list's mean.

With document weights, each pair in :math:`a_y` counts w times, w the weight of its good, and the gain multiplies each
good's part by w: :math:`\sum_g w_g n_g / (n_- \sum_g w_g)` for AUC, the weighted mean of precisions for MAP,
:math:`\sum_g w_g D(r_g)` over the same with the heaviest goods first for NDCG.

ConvexLoss is at least L1 + L2 (Jensen) and at most 1/8 more (Hoeffding). A step costs O(samples n).

**The cube**: closed forms over all sign vectors, valid rankings or not (section 2). Where the sums of the conditional
models run over the whole cube :math:`\{-1, 1\}^{n_+ n_-}`, they factorize over pairs. With :math:`\delta_{gb} = s_g -
s_b`, :math:`q = \sigma(-2\delta)`, :math:`p = 1 - q`, :math:`N = n_+ n_-`, and the loss 1 - AUC,

=============  ===========================================  =====================================
objective      value                                        second derivative of a pair
=============  ===========================================  =====================================
MLE (L1)       :math:`\sum \mathrm{softplus}(-2\delta)`     :math:`4 p q`
ConvexLoss     :math:`\sum\mathrm{softplus}(1/N-2\delta)`   :math:`4 p q` at the shifted argument
L2             :math:`\frac1N \sum q`                       at most :math:`4 p q / N`
L3 = L1 + L2   sum of both                                  :math:`4 p q (1 + (p - q)/N)`
ExpGain        :math:`-\log \frac1N \sum p`                 at most :math:`4 p q \, p / \sum p`
=============  ===========================================  =====================================

and :math:`\log Z = \sum \log 2\cosh\delta`. MLE, ConvexLoss and L3 are convex and their curvature is the exact diagonal
(L3 is convex although the paper says it is not in general: losses lie in [0, 1]). For L2 we drop the factor :math:`p -
q \le 1` of the second derivative. For ExpGain, Jensen's inequality with the current shares :math:`\tau = p / \sum p`
gives the majorizer :math:`-\sum \tau \log p` + constant, which equals the loss at the current scores; its diagonal
is in the table. Both are raised to 1e-6 of the list's mean.

With document weights, a pair counts w times, where w is the weight of its good, and N is the sum of these weights: a
good of weight 2 is the same as two goods. If N is below 1, L3 may not be convex, and its curvature is raised to 0.

The cube contains cyclic sign vectors (2 of 16 for two goods and two bads), so the values differ
from sums over rankings. A step costs O(n+ n-).
"""

from typing import Any

import numpy as np
from numba import prange
from numpy.typing import ArrayLike, NDArray

from plackett.base.arithmetic import stable_order
from plackett.base.errors import DataError
from plackett.base.kernels import compiled, list_function, parallel, reordered
from plackett.base.ragged import offsets_from_sizes
from plackett.base.random import combine
from plackett.objectives import pairwise, ranking
from plackett.objectives.conditional.rankings import gain_of_wins
from plackett.objectives.conditional.sampler import SamplerSettings, draw_rankings
from plackett.objectives.driver import LIST_FUNCTION, document_weights
from plackett.objectives.objective import ListLabels, Prepared

MLE_LOSS = 0.0
EXP_GAIN = 1.0
CONVEX_LOSS = 2.0
L2_LOSS = 3.0
L3_LOSS = 4.0


def log_z(scores: ArrayLike, labels: ArrayLike) -> float:
    """Log of the normalizer of the distribution over all sign vectors, for one list.

    >>> round(log_z([0.0, 0.0], [1, 0]), 6)
    0.693147
    """
    s, relevant = np.asarray(scores, dtype=np.float64), np.asarray(labels) > 0
    gap = np.abs(s[relevant][:, None] - s[~relevant])
    return float(np.sum(gap + np.log1p(np.exp(-2.0 * gap))))


@list_function(LIST_FUNCTION)
def cube_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: which loss, prepared: document weights, if any."""
    loss = params[0]
    goods, bads = np.flatnonzero(labels > 0), np.flatnonzero(labels == 0)
    n_goods, weights = len(goods), document_weights(prepared, len(scores), 0)[goods]
    n_pairs = np.sum(weights) * len(bads)  # a good of weight 2 counts like two goods
    if n_pairs == 0:
        return 0.0
    # Goods before bads, doubled scores: a pair's argument is x_g - x_b.
    documents = np.concatenate((goods, bads))
    x = 2.0 * scores[documents]
    if loss == CONVEX_LOSS:
        x[n_goods:] += 1.0 / n_pairs
    g, h = np.zeros(len(x)), np.zeros(len(x))
    if loss == EXP_GAIN:
        value = _gain_over_pairs(x, n_goods, weights, n_pairs, g, h)
    else:
        value = _loss_over_pairs(x, n_goods, weights, n_pairs, loss, g, h)
    gradient[documents] = 2.0 * g
    curvature[documents] = 4.0 * h
    if loss in (EXP_GAIN, L2_LOSS):
        pairwise.raise_to_floor(curvature)
    return value


@compiled
def _loss_over_pairs(x, n_goods, weights, n_pairs, loss, gradient, curvature):  # type: ignore[no-untyped-def]
    """Sum over pairs of a softplus(-z) + b sigma(-z), z = x_g - x_b; derivatives by x."""
    exponentials, ratios = np.empty((2, len(x))), np.empty(len(x))
    narrow = pairwise.fill_exponentials(x, exponentials)
    softplus = 0.0 if loss == L2_LOSS else 1.0
    sigma = 1.0 / n_pairs if loss in (L2_LOSS, L3_LOSS) else 0.0
    value = 0.0
    for i in range(n_goods):
        pairwise.fill_ratios(x, exponentials, narrow, i, n_goods, len(x), ratios)
        first, second = weights[i] * softplus, weights[i] * sigma
        value += _add_good(x, ratios, i, n_goods, first, second, gradient, curvature)
    return value


@reordered
def _add_good(x, ratios, i, n_goods, softplus, sigma, gradient, curvature):  # type: ignore[no-untyped-def]
    """Add all pairs of one good; ratios hold t = exp(-|z|) of its pairs."""
    t, other = ratios[n_goods:], x[n_goods:]
    g, h = gradient[n_goods:], curvature[n_goods:]
    score, value, own_gradient, own_curvature = x[i], 0.0, 0.0, 0.0
    # Without softplus, sigma is bounded by dropping p - q; with it the second derivative is exact.
    exact = 1.0 if softplus > 0.0 else 0.0
    for k in range(len(t)):
        z = score - other[k]
        inverse = 1.0 / ((1.0 + t[k]) * (2.0 + t[k]))
        share = (2.0 + t[k]) * inverse  # 1 / (1 + t)
        q = (t[k] if z > 0.0 else 1.0) * share
        bend = t[k] * share * share
        log1p = pairwise.twice_artanh(t[k] * (1.0 + t[k]) * inverse)  # of t
        value += softplus * (max(-z, 0.0) + log1p) + sigma * q
        slope = softplus * q + sigma * bend
        curve = bend * max(softplus + sigma * (1.0 - 2.0 * q * exact), 0.0)
        g[k] += slope
        h[k] += curve
        own_gradient += slope
        own_curvature += curve
    gradient[i] -= own_gradient
    curvature[i] += own_curvature
    return value


@compiled
def _gain_over_pairs(x, n_goods, weights, n_pairs, gradient, curvature):  # type: ignore[no-untyped-def]
    """Minus the log of the mean of sigma(z) over pairs, and derivatives by x."""
    exponentials, ratios, parts = np.empty((2, len(x))), np.empty(len(x)), np.empty(len(x))
    narrow = pairwise.fill_exponentials(x, exponentials)
    # If sigmas may underflow, they are computed relative to the largest, because only their ratios matter.
    top = 0.0 if narrow else min(np.max(x[:n_goods]) - np.min(x[n_goods:]), 0.0)
    total = 0.0
    for i in range(n_goods):
        pairwise.fill_ratios(x, exponentials, narrow, i, n_goods, len(x), ratios)
        for j in range(n_goods, len(x)):  # sigma(z) (1 + t) is the exponential of min(z, 0)
            if narrow:
                parts[j] = 1.0 if x[i] > x[j] else ratios[j]
            else:
                parts[j] = np.exp(min(x[i] - x[j], 0.0) - top)
            parts[j] *= weights[i]
        total += _add_gain(x, ratios, parts, i, n_goods, gradient, curvature)
    gradient /= total
    curvature /= total
    return np.log(n_pairs) - top - np.log(total)


@reordered
def _add_gain(x, ratios, parts, i, n_goods, gradient, curvature):  # type: ignore[no-untyped-def]
    """Add all pairs of one good, not yet divided by the sum of the sigmas, which is returned."""
    t, part, other = ratios[n_goods:], parts[n_goods:], x[n_goods:]
    g, h = gradient[n_goods:], curvature[n_goods:]
    score, total, own_gradient, own_curvature = x[i], 0.0, 0.0, 0.0
    for k in range(len(t)):
        share = 1.0 / (1.0 + t[k])
        p = part[k] * share
        slope = p * (t[k] if score > other[k] else 1.0) * share
        bend = p * t[k] * share * share
        g[k] += slope
        h[k] += bend
        total += p
        own_gradient += slope
        own_curvature += bend
    gradient[i] -= own_gradient
    curvature[i] += own_curvature
    return total


COLUMNS = 1  # of a stored ranking before its coefficients: its loss


@list_function(LIST_FUNCTION)
def sampled_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: which loss; prepared: the sampled rankings."""
    if len(prepared) == 0:  # no goods, or no bads
        return 0.0
    loss, losses = params[0], ranking.column_of(prepared, 0)
    coefficients = ranking.coefficients_of(prepared, len(scores), COLUMNS)
    m = len(losses)
    energies, shares, slopes, bends = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    mean = np.zeros(len(scores))
    # Coefficients of a ranking sum to 0, so the scores may be centered: less is lost in the sums.
    ranking.fill_energies(coefficients, scores - np.mean(scores), 1.0, energies)
    value = fill_weights(loss, losses, energies, shares, slopes, bends)
    ranking.add_mean(coefficients, shares, 1.0, mean)
    if loss in (MLE_LOSS, CONVEX_LOSS):
        gradient[:] = mean
    else:
        ranking.add_mean(coefficients, slopes, 1.0, gradient)
    ranking.add_spread(coefficients, bends, mean, 1.0, curvature)
    if loss in (EXP_GAIN, L2_LOSS):
        pairwise.raise_to_floor(curvature)
    return value


@compiled
def fill_weights(loss, losses, energies, shares, slopes, bends):  # type: ignore[no-untyped-def]
    """Fill the rankings' weights in mean, gradient and curvature; returns the value."""
    if loss == CONVEX_LOSS:
        energies += losses
    elif loss == EXP_GAIN:
        energies -= np.max(energies)  # this does not change the value, but keeps its digits
    log_total = ranking.fill_softmax(energies, shares)
    slopes[:] = shares
    bends[:] = shares
    if loss == EXP_GAIN:
        return _tilt(losses, energies, log_total, slopes)
    if loss in (L2_LOSS, L3_LOSS):
        expected = np.dot(shares, losses)
        with_mle = 1.0 if loss == L3_LOSS else 0.0
        for r in range(len(losses)):
            surplus = with_mle + losses[r] - expected
            # Losses lie in [0, 1]: for L3 only rounding can make it negative.
            slopes[r] *= max(surplus, 0.0) if loss == L3_LOSS else surplus
            bends[r] = slopes[r] if loss == L3_LOSS else abs(slopes[r])
        return with_mle * log_total + expected
    return log_total


@compiled
def _tilt(losses, energies, log_total, slopes):  # type: ignore[no-untyped-def]
    """Minus the log of the expected gain; subtracts softmax(a + log gain) from the slopes."""
    tilted = np.empty(len(losses))
    for r in range(len(losses)):
        tilted[r] = energies[r] + np.log(1.0 - losses[r])  # -inf for a gain of 0
    if np.max(tilted) == -np.inf:  # no ranking has a gain (explicit rankings only): nothing to learn
        slopes[:] = 0.0
        return 0.0
    log_gain = ranking.fill_softmax(tilted.copy(), tilted)
    for r in range(len(losses)):
        slopes[r] -= tilted[r]
    return log_total - log_gain


NO_GAIN = -1
"""In place of a gain where the objective has none (MLE): all losses are 0."""

Measure = tuple[int, int, int]
"""A gain for compiled code: position in GAINS (or NO_GAIN), cut-off, kind of discount."""


def sample_sets(lists: ListLabels, *, seed: int, settings: SamplerSettings, measure: Measure) -> Prepared:
    """Draw the rankings of each list; they depend on the seed and the key of the list only."""
    labels, offsets, weights = lists.labels, lists.offsets, _weights_of(lists)
    relevant = labels > 0
    goods = np.add.reduceat(np.append(relevant, False), offsets[:-1], dtype=np.int64)
    sizes = np.diff(offsets)
    has_pairs = (sizes > 0) & (goods > 0) & (goods < sizes)
    has_pairs &= np.add.reduceat(np.append(weights * relevant, 0.0), offsets[:-1]) > 0
    starts = offsets_from_sizes(np.where(has_pairs, ranking.set_size(settings.samples, sizes, COLUMNS), 0))
    values = np.empty(starts[-1])
    word = np.uint64(seed % 2**64)
    _draw_sets(labels, weights, offsets, lists.keys, word, settings, measure, values, starts)
    return Prepared(values, starts)


def explicit_sets(lists: ListLabels, measure: Measure) -> Prepared:
    """Sets from ``draws["rankings"]``: for each list an array m x goods x bads of signs.

    Goods and bads are in the order of the list. Arrays of lists without goods or without bads are ignored.
    """
    rankings, offsets, weights = lists.draws["rankings"], lists.offsets, _weights_of(lists)
    n_lists = len(offsets) - 1
    if len(rankings) != n_lists:
        raise DataError(f"draws['rankings'] must be {n_lists} arrays, one per list, got {len(rankings)}.")
    sets = []
    for q in range(n_lists):
        y = lists.labels[offsets[q] : offsets[q + 1]]
        w = weights[offsets[q] : offsets[q + 1]]
        n_goods, n_bads = int(np.sum(y > 0)), int(np.sum(y == 0))
        if n_goods == 0 or n_bads == 0 or not w[y > 0].any():
            sets.append(np.empty(0))
            continue
        signs = _check_signs(rankings[q], q, n_goods, n_bads)
        wins = np.concatenate([(signs == 1).sum(axis=2), (signs == -1).sum(axis=1)], axis=1)
        stored = np.zeros(ranking.set_size(len(wins), len(y), COLUMNS))
        beaten = np.einsum("rgb,g->rb", signs == -1, w[y > 0])
        _store(y, w, wins.astype(np.int32), beaten, len(wins), measure, stored)
        sets.append(stored)
    return ranking.join_sets(sets)


def _weights_of(lists: ListLabels) -> NDArray[np.float64]:
    return np.ones(len(lists.labels)) if lists.document_weights is None else lists.document_weights


def _check_signs(rankings: Any, q: int, n_goods: int, n_bads: int) -> NDArray[np.int64]:
    signs = np.asarray(rankings)
    if signs.ndim != 3 or len(signs) == 0 or signs.shape[1:] != (n_goods, n_bads) or not np.isin(signs, (-1, 1)).all():
        raise DataError(
            f"draws['rankings'][{q}] must be m x goods x bads = m x {n_goods} x {n_bads} signs of "
            f"+1 or -1 with m >= 1, got shape {signs.shape}."
        )
    return signs


@parallel
def _draw_sets(labels, weights, offsets, keys, seed, settings, measure, values, starts):  # type: ignore[no-untyped-def]
    for q in prange(len(offsets) - 1):
        if starts[q + 1] == starts[q]:
            continue
        y = labels[offsets[q] : offsets[q + 1]]
        wins = np.empty((settings.samples, len(y)), dtype=np.int32)
        count = draw_rankings(settings, combine(seed, keys[q]), np.sum(y > 0), wins)
        w = weights[offsets[q] : offsets[q + 1]]
        beaten = _weights_beaten(w[y > 0], wins[:count])
        _store(y, w, wins, beaten, count, measure, values[starts[q] : starts[q + 1]])


@compiled
def _weights_beaten(weights, wins):  # type: ignore[no-untyped-def]
    """For each ranking and bad, the summed weights of the goods it beats.

    In a ranking the goods below a bad are those with the fewest wins.
    """
    n_goods = len(weights)
    if np.all(weights == 1.0):
        return wins[:, n_goods:].astype(np.float64)
    beaten = np.empty((len(wins), wins.shape[1] - n_goods))
    for r in range(len(wins)):
        order = stable_order(wins[r, :n_goods], False)
        sums = np.zeros(n_goods + 1)
        for k in range(n_goods):
            sums[k + 1] = sums[k] + weights[order[k]]
        for b in range(beaten.shape[1]):
            beaten[r, b] = sums[wins[r, n_goods + b]]
    return beaten


@compiled
def _store(labels, weights, wins, beaten, count, measure, stored):  # type: ignore[no-untyped-def]
    """Store rankings of a list: losses, and coefficients relative to the ideal ranking.

    A good of weight w that beats n of the bads has coefficient 2 w (n - n_bads), a bad twice the weights of the goods
    it beats.
    """
    n_goods = np.sum(labels > 0)
    n_bads = len(labels) - n_goods
    stored[0] = count
    losses, coefficients = (ranking.column_of(stored, 0), ranking.coefficients_of(stored, len(labels), COLUMNS))
    (gain, cutoff, kind), good_weights = measure, weights[labels > 0]
    for r in range(count):
        losses[r] = 0.0
        if gain != NO_GAIN:
            losses[r] = 1.0 - gain_of_wins(gain, wins[r, :n_goods], good_weights, n_bads, cutoff, kind)
        good, bad = 0, 0
        for d in range(len(labels)):
            if labels[d] > 0:
                coefficients[r, d] = 2.0 * weights[d] * (wins[r, good] - n_bads)
                good += 1
            else:
                coefficients[r, d] = 2.0 * beaten[r, bad]
                bad += 1
