r"""Cross entropy between a distribution derived from labels and the softmax of the scores.

.. math::

    \ell = \log\Big(\sum_j e^{s_j} + \varepsilon\Big) - \sum_i \varphi_i s_i, \qquad
    \frac{\partial\ell}{\partial s_i} = \rho_i - \varphi_i, \qquad
    \frac{\partial^2\ell}{\partial s_i^2} = \rho_i (1 - \rho_i)

with :math:`\rho_i = e^{s_i} / (\sum_j e^{s_j} + \varepsilon)`. The three objectives differ in the
target :math:`\varphi`:

- :class:`CrossEntropy`: :math:`y_i / \sum_j y_j` (Bruch et al. 2020, who call it ListNet)
- :class:`ListNet`: the softmax of the labels, :math:`e^{y_i} / \sum_j e^{y_j}` (Cao et al. 2007)
- :class:`XENDCG`: :math:`\propto 2^{y_i} - \gamma_i` with :math:`\gamma_i` uniform on (0, 1),
  new for each list and step (Bruch 2021); its mean bounds :math:`-\log` of the mean NDCG

``newton`` multiplies the gradient by the first ``order`` terms of the Neumann series of the inverse
Hessian. With :math:`H = D(I - S)`, :math:`D = \mathrm{diag}(\rho_i(1-\rho_i))` and
:math:`S_{ij} = \rho_j/(1-\rho_i)`, the gradient for trees is

.. math:: t^{(1)} = \rho - \varphi, \quad
    t^{(k+1)}_i = \rho_i \sum_{j \ne i} \frac{t^{(k)}_j}{1 - \rho_j}, \quad
    g = \sum_{k \le \mathrm{order}} t^{(k)}

so that :math:`g_i / (\rho_i(1-\rho_i))` is the Newton step of the whole list (Bruch 2021, section
4.3). Complements :math:`1 - \rho_i` are summed from the other documents, never subtracted from one.

Powers of labels are relative to the top label of the list, so that none overflows; draws are then in
units of :math:`2^{-\max y}`.

Trees use single precision (:mod:`plackett.objectives.softmax_float32`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from numba import float32, uint64

from plackett.base.arithmetic import exp, largest
from plackett.base.kernels import ListFunction, compiled, list_function, reordered
from plackett.base.random import combine, to_uniform
from plackett.objectives.driver import LIST_FUNCTION, Weighting, has_one_level
from plackett.objectives.objective import BoundObjective, Limits, Objective, check_between, check_whole
from plackett.objectives.softmax_float32 import SMALLEST_COMPLEMENT, SoftmaxGradient

LABEL_SHARE, SOFTMAX, PERTURBED_GAIN = 0.0, 1.0, 2.0
_LOG_2 = np.log(2.0)


@reordered
def sum_values(values):  # type: ignore[no-untyped-def]
    """The sum, in any order."""
    result = 0.0
    for i in range(len(values)):
        result += values[i]
    return result


@compiled
def fill_shares(kind, labels, shares):  # type: ignore[no-untyped-def]
    """Fill targets before draws and normalization; returns the unit of the draws, or 0."""
    # One loop for each kind: loops without branches become vector code.
    top = np.float64(labels[0])
    for i in range(1, len(labels)):
        top = max(top, np.float64(labels[i]))
    if kind == LABEL_SHARE:
        for i in range(len(labels)):
            shares[i] = np.float64(labels[i]) / top
    elif kind == SOFTMAX:
        for i in range(len(labels)):
            shares[i] = exp(np.float64(labels[i]) - top)
    else:
        for i in range(len(labels)):
            shares[i] = exp(_LOG_2 * (np.float64(labels[i]) - top))
    return 2.0**-top if kind == PERTURBED_GAIN else 0.0


@compiled
def fill_targets(kind, labels, gammas, key, targets):  # type: ignore[no-untyped-def]
    """Fill the targets of one list; gammas: explicit draws, or none to draw from the key."""
    draw_unit = fill_shares(kind, labels, targets)
    if len(gammas):
        for i in range(len(labels)):
            targets[i] -= gammas[i] * draw_unit
    elif kind == PERTURBED_GAIN:
        for i in range(len(labels)):
            targets[i] -= to_uniform(combine(key, uint64(i))) * draw_unit
    targets /= sum_values(targets)


_DOMINANT_COMPLEMENT = 1e-6  # below this complement, differences of sums lose more than 1e-9


@reordered
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@compiled
def _fill_softmax(scores, epsilon, rho, complement):  # type: ignore[no-untyped-def]
    """Fill the softmax and its complements; returns the log of the normalizer."""
    n = len(scores)
    top, slack = largest(scores), 0.0
    if epsilon > 0.0:
        top = max(top, np.log(epsilon))
        slack = epsilon * np.exp(-top)
    for i in range(n):
        rho[i] = exp(scores[i] - top)
    before = 0.0
    for i in range(n):  # sums of all documents before i, then of all after i
        complement[i] = before + slack
        before += rho[i]
    total = before + slack
    after = 0.0
    for i in range(n - 1, -1, -1):
        complement[i] = max((complement[i] + after) / total, SMALLEST_COMPLEMENT)
        after += rho[i]
    for i in range(n):
        rho[i] /= total
    return top + np.log(total)


@list_function(LIST_FUNCTION)
def softmax_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: kind of target, order, epsilon."""
    if params[0] == LABEL_SHARE and largest(labels) <= 0.0:  # there is no distribution of labels
        return 0.0
    targets, rho = np.empty(len(scores)), np.empty(len(scores))
    fill_targets(params[0], labels, prepared, key, targets)
    value = _fill_softmax(scores, params[2], rho, curvature)
    value -= _dot(targets, scores)
    for i in range(len(scores)):
        gradient[i] = rho[i] - targets[i]
        curvature[i] *= rho[i]
    return value


@compiled
def _dominant_document(complement):  # type: ignore[no-untyped-def]
    """The document that has nearly all of the softmax; -1: none has."""
    for i in range(len(complement)):
        if complement[i] < _DOMINANT_COMPLEMENT:
            return i
    return -1


@compiled
def _fill_next_term(rho, leader, term):  # type: ignore[no-untyped-def]
    """Turn t / (1 - rho) into the next Neumann term."""
    leading = 0.0
    if leader >= 0:
        # Its quotient is so large that a difference of sums would lose the digits of the others.
        leading, term[leader] = term[leader], 0.0
    rest = sum_values(term)
    whole = rest + leading
    for i in range(len(term)):
        term[i] = rho[i] * (whole - term[i])
    if leader >= 0:
        term[leader] = rho[leader] * rest


@list_function(LIST_FUNCTION)
def softmax_newton_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Like :func:`softmax_list`, with Neumann terms added to the gradient."""
    if params[0] == LABEL_SHARE and largest(labels) <= 0.0:
        return 0.0
    n = len(scores)
    targets, rho, complement, term = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    fill_targets(params[0], labels, prepared, key, targets)
    value = _fill_softmax(scores, params[2], rho, complement)
    value -= _dot(targets, scores)
    leader = _dominant_document(complement)
    for i in range(n):
        term[i] = rho[i] - targets[i]
        gradient[i] = term[i]
        curvature[i] = rho[i] * complement[i]
        complement[i] = 1.0 / complement[i]
    for _ in range(1, int(params[1])):
        for i in range(n):
            term[i] *= complement[i]
        _fill_next_term(rho, leader, term)
        for i in range(n):
            gradient[i] += term[i]
    return value


@compiled
def _prepare(kind, labels, offsets, weights, shares, draw_units, factors):  # type: ignore[no-untyped-def]
    for q in range(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        draw_units[q], factors[q] = 0.0, 0.0
        if has_one_level(labels[low:high]):
            continue
        list_shares = np.empty(high - low)
        factors[q] = weights[q]
        draw_units[q] = fill_shares(kind, labels[low:high], list_shares)
        if draw_units[q] == float32(0.0):  # also where labels are so large that draws vanish
            total = sum_values(list_shares)
            for i in range(high - low):
                list_shares[i] /= total
        for i in range(high - low):
            shares[low + i] = list_shares[i]


def _float32_gradient(bound: BoundObjective, kind: float, order: int, epsilon: float) -> SoftmaxGradient:
    """The single-precision form, with the targets of the lists prepared."""
    n_lists = len(bound.keys)
    shares = np.empty(len(bound.labels), np.float32)
    draw_units, factors = np.empty(n_lists, np.float32), np.empty(n_lists, np.float32)
    weights = np.ones(n_lists) if bound.weights is None else bound.weights
    _prepare(kind, bound.labels, bound.offsets, weights, shares, draw_units, factors)
    return SoftmaxGradient(bound, shares, draw_units, factors, order, epsilon)


@dataclass(frozen=True)
class _Softmax(Objective):
    convex: ClassVar[bool] = True
    target: ClassVar[float]
    function: ClassVar[ListFunction] = softmax_list
    newton_function: ClassVar[ListFunction | None] = softmax_newton_list
    limits: ClassVar[Limits] = {"order": check_whole, "epsilon": partial(check_between, low=0.0)}
    choices: ClassVar[Mapping[str, Sequence[str]]] = {"one_level": ("skip", "keep")}

    order: int = 3
    """Number of Neumann terms in ``newton``; 1 is the plain gradient."""
    epsilon: float = 0.0
    """Added to the normalizer of the softmax (Bruch 2021, equation 14)."""
    one_level: Literal["skip", "keep"] = "skip"
    """Whether lists whose labels are all equal are skipped, or kept with the loss that the formula gives."""

    @property
    def shift_invariant(self) -> bool:  # type: ignore[override]
        # With epsilon, a part of the normalizer does not move with the scores.
        return self.epsilon == 0.0

    @property
    def params(self) -> tuple[float, ...]:
        return (self.target, float(self.order), self.epsilon)

    @property
    def uses_one_level(self) -> bool:
        return self.one_level == "keep"

    @property
    def float32_form(self) -> Callable[[BoundObjective], SoftmaxGradient] | None:
        if self.uses_one_level:
            return None
        return partial(_float32_gradient, kind=self.target, order=self.order, epsilon=self.epsilon)


@dataclass(frozen=True)
class CrossEntropy(_Softmax):
    """Cross entropy with labels divided by their sum (Bruch et al. 2020).

    >>> CrossEntropy().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.472, -0.35, -0.121]
    """

    name: ClassVar[str] = "crossentropy"
    target: ClassVar[float] = LABEL_SHARE
    weighting: ClassVar[Weighting | None] = "share"


@dataclass(frozen=True)
class ListNet(_Softmax):
    """Cross entropy with the softmax of the labels (Cao et al. 2007).

    >>> ListNet().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.382, -0.349, -0.033]
    """

    name: ClassVar[str] = "listnet"
    target: ClassVar[float] = SOFTMAX
    weighting: ClassVar[Weighting | None] = "exponential"


@dataclass(frozen=True)
class XENDCG(_Softmax):
    """Cross entropy with perturbed gains: a convex bound on NDCG (Bruch 2021).

    >>> XENDCG().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.396, -0.299, -0.097]
    """

    name: ClassVar[str] = "xendcg"
    target: ClassVar[float] = PERTURBED_GAIN
    weighting: ClassVar[Weighting | None] = "gain"
    draw: ClassVar[str | None] = "gamma"

    seed: int = 0
