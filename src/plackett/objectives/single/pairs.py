r"""LambdaRank and LambdaLoss in single precision, alone or averaged over Gumbel-perturbed scores.

With the documents in rank order, all pairs of document a with the later ones b are one loop
without branches. Let :math:`w = (G_a - G_b)(D_a - D_b + \delta_{b-a})`, which is negative for a
pair in the wrong order, and :math:`q = 1 / (1 + e^{\sigma (s_a - s_b)})`. Then

.. math:: \lambda = w \cdot (q \text{ if } G_a > G_b \text{ else } 1 - q), \qquad
    \eta = |w|\, q (1 - q)

and :math:`g_a \mathrel{-}= \sigma\lambda`, :math:`g_b \mathrel{+}= \sigma\lambda`,
:math:`h_a, h_b \mathrel{+}= \sigma^2 \eta` (:mod:`plackett.objectives.lambdarank` has the
formulas). The discounts D go by rank; :math:`\delta` goes by the distance of ranks and is 0 for
LambdaRank (:mod:`plackett.objectives.lambdaloss` says what it is there). Exponentials are taken per
document, not per pair: :math:`e^{\sigma (s_a - s_b)} = e^{\sigma s_a} \cdot e^{-\sigma s_b}`, as
long as the scores of the list are not too far apart for single precision. Sums are made in any
order (``reassoc``), without which the loop could not be vector code.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import boolean, float32, float64, int32, int64, njit, prange, uint64, void
from numpy.typing import NDArray

from plackett.base.kernels import FLOATS, LABELS, addresses, function_maker, list_function
from plackett.base.ragged import Offsets, Scores
from plackett.base.random import noise_state, perturb
from plackett.objectives.lists import Lists
from plackett.objectives.single.ranked_pairs import add_sample
from plackett.objectives.single.ranks import PADDING

_CHUNKS = 64  # pieces of about equal cost that threads take


@dataclass(frozen=True)
class SinglePairs:
    """Gradient and curvature for given lists, as a trainer of trees wants them."""

    lists: Lists
    sigma: float
    truncation: int
    """0: all pairs."""
    score_norm: bool
    query_norm: bool
    hess_factor: float
    samples: int
    """0: the scores as they are."""
    beta: float
    near: float = 1.0
    """Factor of the difference of discounts."""
    far: float = 0.0
    """Factor of δ: what discounts lose from one distance of ranks to the next."""

    gains: NDArray[np.float32] = field(init=False)
    discounts: NDArray[np.float32] = field(init=False)
    steps: NDArray[np.float32] = field(init=False)
    factors: NDArray[np.float32] = field(init=False)
    """Weights of the lists."""
    chunks: Offsets = field(init=False)

    def __post_init__(self) -> None:
        sizes = np.diff(self.lists.offsets)
        weights = np.ones(len(sizes)) if self.lists.weights is None else self.lists.weights
        discounts = 1.0 / np.log2(np.arange(max(sizes, default=0) + 1) + 2.0)
        prepared = {
            "gains": self.lists.extra.values.astype(np.float32),
            "discounts": (self.near * discounts).astype(np.float32),
            "steps": (self.far * (discounts[:-1] - discounts[1:])).astype(np.float32),
            "factors": weights.astype(np.float32),
            "chunks": _equal_chunks(sizes, self.truncation),
        }
        for name, value in prepared.items():
            object.__setattr__(self, name, value)

    def __call__(
        self, scores: Scores, step: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Gradient and curvature at these scores."""
        s = self.lists.checked(scores)
        gradient, curvature = np.zeros((2, len(s)), np.float32)
        _each_list(
            *addresses(_add_list),
            s,
            self.gains,
            self.discounts,
            self.steps,
            self.lists.offsets,
            self.chunks,
            self.lists.noise_keys(step),
            self.factors,
            self.truncation,
            np.float32(self.sigma),
            self.score_norm,
            self.query_norm,
            np.float32(self.hess_factor),
            self.samples,
            self.beta,
            gradient,
            curvature,
        )
        return gradient, curvature


def _equal_chunks(sizes: NDArray[np.int64], truncation: int) -> Offsets:
    """Boundaries of runs of lists that cost about the same."""
    pairs = sizes * np.minimum(sizes, truncation) if truncation else sizes * sizes
    cost = np.cumsum(pairs + sizes)
    edges = np.searchsorted(cost, np.linspace(0, cost[-1], _CHUNKS + 1)[1:-1])
    return np.unique(np.concatenate([[0], edges, [len(sizes)]])).astype(np.int64)


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
    float64[::1],  # room for perturbed scores
    int32[::1],  # room for ranks
    float32[:, ::1],  # room for the rest
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
            noisy[:] = scores
        add_sample(
            noisy,
            gains,
            discounts,
            steps,
            truncation,
            sigma,
            score_norm,
            query_norm,
            order,
            work,
            g,
            h,
        )


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _each_list(  # type: ignore[no-untyped-def]
    wrapper,
    machine_code,
    scores,
    gains,
    discounts,
    steps,
    offsets,
    chunks,
    keys,
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
    add_list = _function_at(wrapper, machine_code)
    for c in prange(len(chunks) - 1):
        longest = 0
        for q in range(chunks[c], chunks[c + 1]):
            longest = max(longest, offsets[q + 1] - offsets[q])
        work = np.empty((7, longest + PADDING), np.float32)
        noisy, order = np.empty(longest), np.empty(longest, np.int32)
        for q in range(chunks[c], chunks[c + 1]):
            low, high = offsets[q], offsets[q + 1]
            n = high - low
            if n < 2:
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
