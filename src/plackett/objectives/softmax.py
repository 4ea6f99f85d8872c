r"""Cross entropy between a distribution derived from labels and the softmax of the scores.

.. math::

    \ell = \log\Big(\sum_j e^{s_j} + \varepsilon\Big) - \sum_i \varphi_i s_i, \qquad
    \frac{\partial\ell}{\partial s_i} = \rho_i - \varphi_i, \qquad
    \frac{\partial^2\ell}{\partial s_i^2} = \rho_i (1 - \rho_i)

with :math:`\rho_i = e^{s_i} / (\sum_j e^{s_j} + \varepsilon)`. The three objectives differ in the
target :math:`\varphi`:

- :class:`CrossEntropy`: :math:`y_i / \sum_j y_j` (Bruch et al. 2020, who call it ListNet)
- :class:`ListNet`: the softmax of the labels (Cao et al. 2007)
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

**Targets**

============================  ==================================================================
kind                          target :math:`\varphi_i` of label :math:`y_i`
============================  ==================================================================
``LABEL_SHARE``               :math:`y_i / \sum_j y_j`
``SOFTMAX``                   :math:`e^{y_i} / \sum_j e^{y_j}`
``PERTURBED_GAIN``            :math:`(2^{y_i} - \gamma_i) / \sum_j (2^{y_j} - \gamma_j)`, with
                              :math:`\gamma` uniform on (0, 1)
============================  ==================================================================

Powers are relative to the top label of the list, so that no label overflows; draws are then in
units of :math:`2^{-\max y}`.

**Single precision**, for trees, alone or averaged over Gumbel-perturbed scores:

- Exponentials are relative to the best score (or log epsilon, if larger), so a document at the top
  has e = 1 and any other one e < 1. The complement of the softmax of a document below the top is
  then (total - e) / total with total - e >= 1, which loses no digits; that of one alone at the top
  is summed from the others. The Neumann terms treat sums over all other documents in the same way.
- Target shares are prepared once. XE-NDCG subtracts its draws from them at each step; they are the
  draws of ``newton``, rounded to 24 bits.
- Sums are in any order (``reassoc``), without which the loops would not become vector code.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from numba import float32, float64, int32, int64, uint64, void
from numpy.typing import NDArray

from plackett.base.arithmetic import exp, exp_float32, largest
from plackett.base.kernels import FLOATS, LABELS, ListFunction, compiled, function_maker, list_function, reordered
from plackett.base.ragged import CHUNKS, Keys, Scores, even_chunks
from plackett.base.random import combine, inner_key, noise_state, perturb, to_uniform
from plackett.base.threads import run_parallel
from plackett.objectives.driver import LIST_FUNCTION, Weighting, has_one_level
from plackett.objectives.objective import BoundObjective, Objective, check_between, check_choice, check_count

_DRAW_BITS = 24  # the precision of float32
_LEAST_DOCUMENTS = 5000  # that are worth a second thread


class SoftmaxGradient:
    """Gradient and curvature of the softmax family in float32, for a bound objective.

    Parameters
    ----------
    bound
        The objective.
    kind
        ``LABEL_SHARE``, ``SOFTMAX`` or ``PERTURBED_GAIN``.
    order, epsilon
        As in :class:`XENDCG`.
    """

    def __init__(self, bound: BoundObjective, kind: float, order: int, epsilon: float) -> None:
        n_lists = len(bound.keys)
        shares = np.empty(len(bound.labels), np.float32)
        draw_units, factors = np.empty(n_lists, np.float32), np.empty(n_lists, np.float32)
        weights = np.ones(n_lists) if bound.weights is None else bound.weights
        _prepare(kind, bound.labels, bound.offsets, weights, shares, draw_units, factors)
        chunks = even_chunks(np.diff(bound.offsets))
        self._lists = shares, draw_units, bound.offsets, chunks
        self._options = factors, order, epsilon, bound.noise.samples, bound.noise.beta

    def __call__(
        self,
        scores: Scores,
        keys: Keys,
        drawn: NDArray[np.bool_] | None = None,  # noqa: ARG002 - all lists take less time than a choice
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        gradient, curvature = np.empty((2, len(scores)), np.float32)
        run_parallel(
            _each_list,
            len(self._lists[-1]) - 1,
            _add_list.address,
            scores,
            *self._lists,
            keys,
            *self._options,
            gradient,
            curvature,
            least=CHUNKS if len(scores) < _LEAST_DOCUMENTS else 1,
        )
        return gradient, curvature


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


@reordered
def _fill_exponentials(scores, top, z, e):  # type: ignore[no-untyped-def]
    """Fill z = s - top and e**z; returns the sum of those below the top and the number at it."""
    below, ties = float32(0.0), float32(0.0)
    for i in range(len(scores)):
        z[i] = float32(scores[i] - top)
    for i in range(len(scores)):  # together with the sums it would not become vector code
        e[i] = exp_float32(z[i])
    for i in range(len(scores)):
        below += e[i] if z[i] < float32(0.0) else float32(0.0)
        ties += float32(0.0) if z[i] < float32(0.0) else float32(1.0)
    return below, ties


@reordered
def _fill_targets(shares, draw_unit, key, targets):  # type: ignore[no-untyped-def]
    """Subtract a draw from (0, 1), in units of draws, from each share; divide by the sum."""
    scale, total = draw_unit * float32(2.0**-_DRAW_BITS), float32(0.0)
    for i in range(len(shares)):
        word = int32(combine(key, uint64(i)) >> uint64(64 - _DRAW_BITS))
        targets[i] = shares[i] - (float32(word) + float32(0.5)) * scale
        total += targets[i]
    factor = float32(1.0) / total
    for i in range(len(shares)):
        targets[i] *= factor


@compiled
def _first_term(z, edge, rest, whole, targets, e, term, inverse, g, h):  # type: ignore[no-untyped-def]
    """Fill t = rho - phi and 1 / (1 - rho); turn exponentials into rho; add to the derivatives."""
    share = float32(1.0) / whole
    for i in range(len(z)):
        others = whole - e[i] if z[i] < edge else rest
        complement = max(others * share, float32(_SMALLEST_COMPLEMENT))
        rho = e[i] * share
        e[i] = rho
        term[i] = rho - targets[i]
        inverse[i] = float32(1.0) / complement
        g[i] += rho - targets[i]
        h[i] += rho * complement


@reordered
def _divide_term(z, edge, inverse, term):  # type: ignore[no-untyped-def]
    """Divide t by 1 - rho; returns its sum, and that over the documents below the edge."""
    whole, below = float32(0.0), float32(0.0)
    for i in range(len(z)):
        quotient = term[i] * inverse[i]
        term[i] = quotient
        whole += quotient
        below += quotient if z[i] < edge else float32(0.0)
    return whole, below


@compiled
def _next_term(z, edge, rest, whole, rho, term, g):  # type: ignore[no-untyped-def]
    """Turn quotients into the next Neumann term and add it to the gradient."""
    for i in range(len(z)):
        following = rho[i] * (whole - term[i] if z[i] < edge else rest)
        term[i] = following
        g[i] += following


@compiled
def _add_sample(scores, targets, order, epsilon, work, g, h):  # type: ignore[no-untyped-def]
    """Add the derivatives of one list at these scores."""
    n = len(scores)
    z, e, term, inverse = work[0, :n], work[1, :n], work[2, :n], work[3, :n]
    top, slack = largest(scores), float32(0.0)
    if epsilon > 0.0:
        top = max(top, np.log(epsilon))
        slack = float32(epsilon * np.exp(-top))
    below, ties = _fill_exponentials(scores, top, z, e)
    # Documents below the edge are subtracted from sums; a single one at the top is left out.
    edge = float32(0.0) if ties == float32(1.0) else float32(1.0)
    _first_term(z, edge, below + slack, below + ties + slack, targets, e, term, inverse, g, h)
    for _ in range(1, order):
        whole, rest = _divide_term(z, edge, inverse, term)
        _next_term(z, edge, rest, whole, e, term, g)


_LIST = void(
    FLOATS,  # scores
    LABELS,  # shares
    float32,  # the unit of draws; 0 if nothing is drawn
    uint64,  # key
    int64,  # order
    float64,  # epsilon
    int64,  # samples
    float64,  # beta
    float32[:, ::1],  # buffer in single precision
    float64[::1],  # buffer for perturbed scores
    float32[::1],  # gradient
    float32[::1],  # curvature
)
_function_at = function_maker(_LIST)


@list_function(_LIST)
def _add_list(scores, shares, draw_unit, key, order, epsilon, samples, beta, work, noisy, g, h):  # type: ignore[no-untyped-def]
    """Add the derivatives of one list, summed over the samples; draw_unit 0: nothing is drawn."""
    targets = work[4, : len(scores)]
    for i in range(len(shares)):
        targets[i] = shares[i]
    if samples == 0:
        if draw_unit > float32(0.0):
            _fill_targets(shares, draw_unit, key, targets)
        _add_sample(scores, targets, order, epsilon, work, g, h)
    for sample in range(samples):
        perturb(scores, noise_state(key, sample), beta, noisy)
        if draw_unit > float32(0.0):
            _fill_targets(shares, draw_unit, inner_key(key, sample), targets)
        _add_sample(noisy, targets, order, epsilon, work, g, h)


@compiled
def _each_list(  # type: ignore[no-untyped-def]
    first,
    last,
    address,
    scores,
    shares,
    draw_units,
    offsets,
    chunks,
    keys,
    factors,
    order,
    epsilon,
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
        work, noisy = np.empty((5, longest), np.float32), np.empty(longest)
        for q in range(chunks[c], chunks[c + 1]):
            low, high = offsets[q], offsets[q + 1]
            g, h = gradient[low:high], curvature[low:high]
            g[:] = float32(0.0)
            h[:] = float32(0.0)
            if factors[q] == float32(0.0):
                continue
            add_list(
                scores[low:high],
                shares[low:high],
                draw_units[q],
                keys[q],
                order,
                epsilon,
                samples,
                beta,
                work,
                noisy[: high - low],
                g,
                h,
            )
            factor = factors[q] / float32(max(samples, 1))
            for i in range(high - low):
                g[i] *= factor
                h[i] *= factor


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


_SMALLEST_COMPLEMENT = 1e-15  # below it a document's softmax is 1 to the last bit
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
        complement[i] = max((complement[i] + after) / total, _SMALLEST_COMPLEMENT)
        after += rho[i]
    for i in range(n):
        rho[i] /= total
    return top + np.log(total)


@list_function(LIST_FUNCTION)
def softmax_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: kind of target, order, epsilon."""
    if params[0] == LABEL_SHARE and largest(labels) <= 0.0:  # there is no distribution of labels
        return 0.0
    targets = np.empty(len(scores))
    rho = np.empty(len(scores))
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
        # Its quotient is so large that a difference of sums would lose the others.
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
    targets = np.empty(n)
    rho = np.empty(n)
    complement = np.empty(n)
    term = np.empty(n)
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


@dataclass(frozen=True)
class _Softmax(Objective):
    convex: ClassVar[bool] = True
    target: ClassVar[float]
    function: ClassVar[ListFunction] = softmax_list
    newton_function: ClassVar[ListFunction | None] = softmax_newton_list

    order: int = 3
    """Number of Neumann terms in ``newton``; 1 is the plain gradient."""
    epsilon: float = 0.0
    """Added to the normalizer of the softmax (Bruch 2021, equation 14)."""
    one_level: Literal["skip", "keep"] = "skip"
    """Lists whose labels are all equal: left out, or kept with the loss that the formula gives them."""

    def __post_init__(self) -> None:
        check_count(self.name, order=self.order)
        check_choice(self.name, ("skip", "keep"), one_level=self.one_level)
        check_between(self.name, 0.0, epsilon=self.epsilon)

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
        return partial(SoftmaxGradient, kind=self.target, order=self.order, epsilon=self.epsilon)


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
