"""The softmax losses in single precision, for trees, alone or averaged over Gumbel-perturbed scores.

:mod:`plackett.objectives.softmax` has the formulas.

- Exponentials are relative to the best score (or log epsilon, if larger), so a document at the top
  has e = 1 and any other one e < 1. The complement of the softmax of a document below the top is
  then (total - e) / total with total - e >= 1, which loses no digits; that of one alone at the top
  is summed from the others. The Neumann terms treat sums over all other documents in the same way.
- Target shares are prepared once. XE-NDCG subtracts its draws from them at each step; they are the
  draws of ``newton``, rounded to 24 bits.
- Sums are in any order (``reassoc``), without which the loops would not become vector code.
"""

import numpy as np
from numba import float32, float64, int32, int64, uint64, void
from numpy.typing import NDArray

from plackett.base.arithmetic import exp_float32, largest
from plackett.base.kernels import FLOATS, LABELS, compiled, function_maker, list_function, reordered
from plackett.base.ragged import CHUNKS, Keys, Scores, even_chunks
from plackett.base.random import combine, inner_key, noise_state, perturb
from plackett.base.threads import run_parallel
from plackett.objectives.objective import BoundObjective

SMALLEST_COMPLEMENT = 1e-15  # below it a document's softmax is 1 to the last bit
_DRAW_BITS = 24  # the precision of float32
_LEAST_DOCUMENTS = 5000  # with fewer documents, one thread does all the work


class SoftmaxGradient:
    """Gradient and curvature of the softmax family in float32, for a bound objective.

    ``shares`` are the targets of documents; a random number is subtracted from them if the list's unit of draws is not
    0. ``factors`` are the weights of lists, 0 if a list has no loss.
    """

    def __init__(
        self,
        bound: BoundObjective,
        shares: NDArray[np.float32],
        draw_units: NDArray[np.float32],
        factors: NDArray[np.float32],
        order: int,
        epsilon: float,
    ) -> None:
        chunks = even_chunks(np.diff(bound.offsets))
        self._lists = shares, draw_units, bound.offsets, chunks
        self._options = factors, order, epsilon, bound.noise.samples, bound.noise.beta

    def __call__(
        self,
        scores: Scores,
        keys: Keys,
        drawn: NDArray[np.bool_] | None = None,  # noqa: ARG002 - computing all lists is faster than selecting some
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        gradient, curvature = np.empty((2, len(scores)), np.float32)
        arguments = _add_list.address, scores, self._lists, keys, self._options, gradient, curvature
        least = CHUNKS if len(scores) < _LEAST_DOCUMENTS else 1
        run_parallel(_each_list, len(self._lists[-1]) - 1, *arguments, least=least)
        return gradient, curvature


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
        complement = max(others * share, float32(SMALLEST_COMPLEMENT))
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
def _each_list(first, last, address, scores, lists, keys, options, gradient, curvature):  # type: ignore[no-untyped-def]
    shares, draw_units, offsets, chunks = lists
    factors, order, epsilon, samples, beta = options
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
            s, y, z = scores[low:high], shares[low:high], noisy[: high - low]
            add_list(s, y, draw_units[q], keys[q], order, epsilon, samples, beta, work, z, g, h)
            factor = factors[q] / float32(max(samples, 1))
            for i in range(high - low):
                g[i] *= factor
                h[i] *= factor
