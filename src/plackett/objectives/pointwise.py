r"""Losses whose scores have a scale: regression of single documents, calibrated softmax, circle.

Each score has a meaning by itself, such as a label or the logarithm of odds, so these losses are not shift invariant. A
document's weight multiplies its own term; in the calibrated softmax, its label. As in all objectives, lists with one
label level have no loss, so scores are calibrated on the other lists only. A linear model has no intercept; trees and
nets calibrate better. :class:`~plackett.objectives.stochastic.Stochastic` perturbs their scores without normalizing
them.

**Squared error**: half the sum of squares, whose minimum is the mean label,

.. math:: \ell = \tfrac12 \sum_i (s_i - y_i)^2, \qquad
    \frac{\partial\ell}{\partial s_i} = s_i - y_i, \qquad \frac{\partial^2\ell}{\partial s_i^2} = 1.

**Logistic regression** of being relevant, :math:`z_i = [y_i > \mathrm{threshold}]`: with
:math:`p_i = 1/(1 + e^{-s_i})`,

.. math:: \ell = \sum_i \log(1 + e^{s_i}) - z_i s_i, \qquad
    \frac{\partial\ell}{\partial s_i} = p_i - z_i, \qquad
    \frac{\partial^2\ell}{\partial s_i^2} = p_i(1 - p_i).

**Ordinal regression** with all thresholds (Rennie & Srebro 2005): the score is compared with the
thresholds between the grades 0, ..., G, each by a logistic loss,

.. math:: \ell = \sum_i \sum_{t=1}^G
    \log\big(1 + e^{-\sigma z_{it}(s_i - t + 1/2)}\big), \qquad z_{it} = \pm 1 \text{ as }
    y_i > t - \tfrac12 \text{ or not.}

Thresholds lie half way between grades, so that a rounded score is a grade. Labels between grades
count as the nearest one.

**Calibrated softmax** (Yan et al. 2022): a softmax with one more document of score 0 and label
:math:`y_0`, which fixes the scale of the scores,

.. math:: \ell = Y\log\Big(1 + \sum_j e^{s_j}\Big) - \sum_i y_i s_i, \quad
    Y = y_0 + \sum_i y_i, \qquad
    \frac{\partial\ell}{\partial s_i} = Y\rho_i - y_i, \qquad
    \frac{\partial^2\ell}{\partial s_i^2} = Y\rho_i(1 - \rho_i)

with :math:`\rho_i = e^{s_i}/(1 + \sum_j e^{s_j})`. At the minimum :math:`y_i = y_0 e^{s_i}`: the
loss is listwise, and regression to the same labels has the same minimum.

These four are exact and convex with exact curvatures, and take O(n).

**Circle loss** (Sun et al. 2020) pulls the scores of relevant documents (label > 0) to 1 and of the others to 0, those
that are farthest away most. With a margin m, :math:`\alpha_i = \max(0, 1 + m - s_i)` for relevant ones and
:math:`\alpha_j = \max(0, s_j + m)` for the others,

.. math:: \ell = \log\Big(1 + \sum_j e^{\gamma\alpha_j(s_j - m)}
    \sum_i e^{-\gamma\alpha_i(s_i - 1 + m)}\Big).

As in the paper, the weights :math:`\alpha` are held constant in the derivatives, so it is not declared exact: with p
the softmax of the exponents among documents of the same kind and :math:`Z = 1 - e^{-\ell}`, the gradient is
:math:`\mp\gamma\alpha Zp`. The curvature is :math:`(\gamma\alpha)^2 Zp(1 - Zp) + \gamma Zp`, where the second term
comes from :math:`\alpha`: no Newton step exceeds :math:`\alpha`, the distance to the goal. The weight of a relevant
document multiplies its :math:`\alpha`. A list without an irrelevant document gives zeros.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from plackett.base.kernels import ListFunction, compiled, list_function
from plackett.objectives.driver import LIST_FUNCTION, Weighting, document_weights
from plackett.objectives.objective import Limits, Objective, check_between, check_positive, check_whole
from plackett.objectives.pairwise import raise_to_floor


@list_function(LIST_FUNCTION)
def squared_list(scores, labels, prepared, _key, _params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; prepared: document weights, if any."""
    weights = document_weights(prepared, len(scores), 0)
    value = 0.0
    for i in range(len(scores)):
        error = scores[i] - np.float64(labels[i])
        value += 0.5 * weights[i] * error * error
        gradient[i] = weights[i] * error
        curvature[i] = weights[i]
    return value


@compiled
def _logistic(x):  # type: ignore[no-untyped-def]
    """log(1 + exp(-x)), and minus its first and its second derivative."""
    t = np.exp(-abs(x))
    share = 1.0 / (1.0 + t)
    return max(-x, 0.0) + np.log1p(t), (t if x > 0.0 else 1.0) * share, t * share * share


@list_function(LIST_FUNCTION)
def logistic_list(scores, labels, prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: threshold, prepared: document weights, if any."""
    weights = document_weights(prepared, len(scores), 0)
    value = 0.0
    for i in range(len(scores)):
        side = 1.0 if labels[i] > params[0] else -1.0
        cost, slope, bend = _logistic(side * scores[i])
        value += weights[i] * cost
        gradient[i] = -side * weights[i] * slope
        curvature[i] = weights[i] * bend
    return value


@list_function(LIST_FUNCTION)
def ordinal_list(scores, labels, prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: grades, sigma, prepared: document weights, if any."""
    weights, sigma = document_weights(prepared, len(scores), 0), params[1]
    value = 0.0
    for i in range(len(scores)):
        for t in range(int(params[0])):
            side = 1.0 if labels[i] > t + 0.5 else -1.0
            cost, slope, bend = _logistic(side * sigma * (scores[i] - (t + 0.5)))
            value += weights[i] * cost
            gradient[i] -= side * sigma * weights[i] * slope
            curvature[i] += sigma * sigma * weights[i] * bend
    return value


@list_function(LIST_FUNCTION)
def calibrated_softmax_list(scores, labels, _prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: label of the document of score 0."""
    n, top = len(scores), max(np.max(scores), 0.0)
    exponentials = np.exp(scores - top)
    normalizer, mass = np.exp(-top), params[0]
    for i in range(n):
        normalizer += exponentials[i]
        mass += np.float64(labels[i])
    # Complements of shares are summed from the others, not subtracted from one.
    before, after = np.empty(n), np.exp(-top)
    running = 0.0
    for i in range(n):
        before[i] = running
        running += exponentials[i]
    value = params[0] * (top + np.log(normalizer))
    for i in range(n - 1, -1, -1):
        label, share = np.float64(labels[i]), exponentials[i] / normalizer
        value += label * (top - scores[i] + np.log(normalizer))
        gradient[i] = mass * share - label
        curvature[i] = mass * share * ((before[i] + after) / normalizer)
        after += exponentials[i]
    return value


@compiled
def _fill_exponents(scores, labels, scales, relevant, margin, slopes, shares):  # type: ignore[no-untyped-def]
    """Fill slopes and softmax shares of the documents of one kind; returns the log of their sum."""
    side = -1.0 if relevant else 1.0
    goal = 1.0 - margin if relevant else margin
    top, total = -np.inf, 0.0
    for i in range(len(scores)):
        if (labels[i] > 0.0) == relevant:
            slopes[i] = side * scales[i] * max(0.0, side * (scores[i] - goal) + 2.0 * margin)
            shares[i] = slopes[i] * (scores[i] - goal)
            top = max(top, shares[i])
    for i in range(len(scores)):
        if (labels[i] > 0.0) == relevant:
            shares[i] = np.exp(shares[i] - top)
            total += shares[i]
    for i in range(len(scores)):
        if (labels[i] > 0.0) == relevant:
            shares[i] /= total
    return top + np.log(total)


@list_function(LIST_FUNCTION)
def circle_list(scores, labels, prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """All derivatives; params: gamma and margin, prepared: document weights, if any."""
    n, gamma, margin = len(scores), params[0], params[1]
    if np.min(labels) > 0.0:
        return 0.0
    scales = document_weights(prepared, n, 0)
    for i in range(n):
        scales[i] = gamma * scales[i] if labels[i] > 0.0 else gamma
    slopes, shares = np.zeros(n), np.zeros(n)
    x = _fill_exponents(scores, labels, scales, True, margin, slopes, shares)
    x += _fill_exponents(scores, labels, scales, False, margin, slopes, shares)
    value, size, _ = _logistic(-x)
    for i in range(n):
        part = size * shares[i]
        gradient[i] = slopes[i] * part
        curvature[i] = slopes[i] * slopes[i] * part * max(1.0 - part, 0.0) + scales[i] * part
    raise_to_floor(curvature)
    return value


class _Calibrated(Objective):
    """Common properties of the losses of this module; two classes override some of them."""

    convex: ClassVar[bool] = True
    shift_invariant: ClassVar[bool] = False
    has_scale: ClassVar[bool] = True
    weighting: ClassVar[Weighting | None] = "order"


@dataclass(frozen=True)
class Squared(_Calibrated):
    """Half the squared error of scores against labels.

    >>> Squared().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.5, -1.9, -1.3]
    """

    name: ClassVar[str] = "squared"
    function: ClassVar[ListFunction] = squared_list


@dataclass(frozen=True)
class Logistic(_Calibrated):
    """Logistic regression: a score is the log odds of being relevant.

    >>> Logistic().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.622, -0.475, -0.574]

    Parameters
    ----------
    threshold
        Documents with a label above it are relevant.
    """

    name: ClassVar[str] = "logistic"
    function: ClassVar[ListFunction] = logistic_list
    limits: ClassVar[Limits] = {"threshold": partial(check_between, low=0.0)}

    threshold: float = 0.0


@dataclass(frozen=True)
class Ordinal(_Calibrated):
    """Ordinal regression with all thresholds: a rounded score is a grade (Rennie & Srebro 2005).

    >>> Ordinal().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.936, -1.285, -0.469]

    Parameters
    ----------
    grades
        The top grade: labels are 0, 1, ..., ``grades``; larger ones count as the top grade.
    sigma
        Slope of the logistic functions.
    """

    name: ClassVar[str] = "ordinal"
    function: ClassVar[ListFunction] = ordinal_list
    limits: ClassVar[Limits] = {"grades": check_whole, "sigma": check_positive}

    grades: int = 4
    sigma: float = 1.0


@dataclass(frozen=True)
class CalibratedSoftmax(_Calibrated):
    """Softmax with one more document of score 0, which fixes the scale (Yan et al. 2022).

    >>> CalibratedSoftmax().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [1.467, -1.016, -0.341]

    Parameters
    ----------
    anchor
        Label of that document; a score s predicts the label ``anchor * exp(s)``.
    """

    name: ClassVar[str] = "calibrated-softmax"
    weighting: ClassVar[Weighting | None] = "share"
    function: ClassVar[ListFunction] = calibrated_softmax_list
    limits: ClassVar[Limits] = {"anchor": check_positive}

    anchor: float = 1.0


@dataclass(frozen=True)
class Circle(_Calibrated):
    """Circle loss: relevant scores to 1, others to 0, the farthest first (Sun et al. 2020).

    >>> Circle().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [6.0, -0.008, -12.389]

    Parameters
    ----------
    gamma
        Scale of the exponents: the larger it is, the more the worst documents dominate. The paper
        uses 64 and more, for similarities between -1 and 1.
    margin
        Relevant scores should exceed ``1 - margin``, others stay below ``margin``.
    """

    name: ClassVar[str] = "circle"
    exact: ClassVar[bool] = False
    convex: ClassVar[bool] = False
    function: ClassVar[ListFunction] = circle_list
    limits: ClassVar[Limits] = {"gamma": check_positive, "margin": check_positive}

    gamma: float = 8.0
    margin: float = 0.25
