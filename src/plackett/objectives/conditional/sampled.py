r"""The conditional models over a sample of rankings, for every gain (Dubey et al. 2009).

Goods have label > 0. A ranking y has coefficients :math:`c_g = 2 n_g - n_-` and :math:`c_b = 2 n_b
- n_+`, twice the wins less the number of opponents; its compatibility with the scores, relative to
the ideal ranking :math:`y_q`, is :math:`a_y = \sum_d (c_d(y) - c_d(y_q)) s_d = -2 \sum_{y_{gb} =
-1} (s_g - s_b)`. With :math:`\Delta = 1 - \mathrm{gain}`, sums over the fixed sample
(self-normalised: the sample does not follow the model's law, so plain averages would not estimate
its means), :math:`p = \mathrm{softmax}(a)` and :math:`d = c(y) - c(y_q)`:

=============  ==========================================  ======================================
objective      value                                       gradient
=============  ==========================================  ======================================
MLE (L1)       :math:`\log\sum e^{a}`                      :math:`E_p[d]`
L2             :math:`E_p[\Delta]`                         :math:`E_p[(\Delta - E_p\Delta)\, d]`
L3 = L1 + L2   sum of both                                 :math:`E_p[(1+\Delta - E_p\Delta)\,d]`
ConvexLoss     :math:`\log\sum e^{\Delta + a}`             :math:`E_{\propto e^{\Delta+a}}[d]`
ExpGain        :math:`\log\sum e^{a} - \log\sum G e^{a}`   :math:`E_p[d] - E_{\propto G e^a}[d]`
=============  ==========================================  ======================================

**Curvature.** MLE and ConvexLoss: the variance of d under their softmax, the exact diagonal. L3:
:math:`E_p[(1 + \Delta - E_p\Delta)(d - \bar d)^2]`, exact too, and non-negative because losses lie
in [0, 1]: L3 is convex, though the paper says it is not in general. L2: :math:`E_p[|\Delta -
E_p\Delta| (d - \bar d)^2]`, which bounds its diagonal (that without absolute values). ExpGain is a
difference of convex functions; with the second one replaced by its tangent it is majorised by a
function with diagonal :math:`\mathrm{Var}_p(d)`. The last two are raised to 1e-6 of the list's
mean.

With weights of documents, each pair in :math:`a_y` counts w times, w the weight of its good, and
the gain multiplies each good's part by w: :math:`\sum_g w_g n_g / (n_- \sum_g w_g)` for AUC, the
weighted mean of precisions for MAP, :math:`\sum_g w_g D(r_g)` over the same with the heaviest goods
first for NDCG.

ConvexLoss is at least L1 + L2 (Jensen) and at most 1/8 more (Hoeffding). A step costs O(samples
n).
"""

from __future__ import annotations

import numpy as np

from plackett.base.kernels import compiled, list_function
from plackett.objectives.conditional.losses import (
    CONVEX_LOSS,
    EXP_GAIN,
    L2_LOSS,
    L3_LOSS,
    MLE_LOSS,
)
from plackett.objectives.driver import LIST_FUNCTION
from plackett.objectives.floor import raise_to_floor
from plackett.objectives.ranking_sets import (
    add_mean,
    add_spread,
    coefficients_of,
    column_of,
    fill_energies,
    fill_softmax,
)

COLUMNS = 1  # the loss of the ranking


@list_function(LIST_FUNCTION)
def sampled_list(scores, labels, extra, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: which loss; extra: the sampled rankings."""
    if len(extra) == 0:  # no goods, or no bads
        return 0.0
    loss, losses = params[0], column_of(extra, 0)
    coefficients = coefficients_of(extra, len(scores), COLUMNS)
    m = len(losses)
    energies, shares, slopes, bends = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    mean = np.zeros(len(scores))
    # Coefficients of a ranking sum to 0, so the scores may be centred: less is lost in the sums.
    fill_energies(coefficients, scores - np.mean(scores), 1.0, energies)
    value = fill_weights(loss, losses, energies, shares, slopes, bends)
    add_mean(coefficients, shares, 1.0, mean)
    if loss in (MLE_LOSS, CONVEX_LOSS):
        gradient[:] = mean
    else:
        add_mean(coefficients, slopes, 1.0, gradient)
    add_spread(coefficients, bends, mean, 1.0, curvature)
    if loss in (EXP_GAIN, L2_LOSS):
        raise_to_floor(curvature)
    return value


@compiled
def fill_weights(loss, losses, energies, shares, slopes, bends):  # type: ignore[no-untyped-def]
    """Fill the rankings' weights in mean, gradient and curvature; returns the value."""
    if loss == CONVEX_LOSS:
        energies += losses
    elif loss == EXP_GAIN:
        energies -= np.max(energies)  # the value does not change, and keeps its digits
    log_total = fill_softmax(energies, shares)
    slopes[:] = shares
    bends[:] = shares
    if loss == EXP_GAIN:
        return _tilt(losses, energies, log_total, slopes)
    if loss in (L2_LOSS, L3_LOSS):
        expected = np.dot(shares, losses)
        own = 1.0 if loss == L3_LOSS else 0.0
        for r in range(len(losses)):
            surplus = own + losses[r] - expected
            # Losses lie in [0, 1]: for L3 only rounding can make it negative.
            slopes[r] *= max(surplus, 0.0) if loss == L3_LOSS else surplus
            bends[r] = slopes[r] if loss == L3_LOSS else abs(slopes[r])
        return own * log_total + expected
    return log_total


@compiled
def _tilt(losses, energies, log_total, slopes):  # type: ignore[no-untyped-def]
    """Minus the log of the expected gain; takes the shares tilted by gain from the slopes."""
    tilted = np.empty(len(losses))
    for r in range(len(losses)):
        tilted[r] = energies[r] + np.log(1.0 - losses[r])  # -inf for a gain of 0
    if np.max(tilted) == -np.inf:  # only with explicit rankings: none has a gain, nothing to learn
        slopes[:] = 0.0
        return 0.0
    log_gain = fill_softmax(tilted.copy(), tilted)
    for r in range(len(losses)):
        slopes[r] -= tilted[r]
    return log_total - log_gain
