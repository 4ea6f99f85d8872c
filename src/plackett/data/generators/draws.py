"""Random numbers as values: a stream per list, keyed by (seed, list, purpose).

A stream is SplitMix64, started at the hash of its key. It is defined by integer arithmetic in this
project, so it never changes under us, and list i never depends on how many lists there are. The
other draws are made of its uniform ones by fixed formulas. Their logarithms and cosines may differ
in the last of 53 bits between mathematical libraries; features are rounded to float32 at the
end, which hides that but for about one value in 10^8.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from plackett.base.kernels import compiled
from plackett.base.random import GOLDEN, combine, mix, unit

SIZES, CONTENT, WORLD, ANSWERS = range(4)
"""Purposes of streams."""


@compiled
def open_stream(seed, position, purpose):  # type: ignore[no-untyped-def]
    """Start the stream of a list; its state is an array of one word, which draws advance."""
    state = np.empty(1, np.uint64)
    state[0] = combine(combine(uint64(seed), uint64(position)), uint64(purpose))
    return state


@compiled
def uniform(state):  # type: ignore[no-untyped-def]
    """Draw evenly from (0, 1)."""
    state[0] += uint64(GOLDEN)
    return unit(mix(state[0]))


@compiled
def normal(state):  # type: ignore[no-untyped-def]
    """Draw from the standard normal law (Box & Muller 1958; the second of the pair is not kept)."""
    radius = np.sqrt(-2.0 * np.log(uniform(state)))
    return radius * np.cos(2.0 * np.pi * uniform(state))


@compiled
def whole(state, mean):  # type: ignore[no-untyped-def]
    """Round to one of the two neighbouring integers, such that ``mean`` is the mean."""
    return np.floor(mean + uniform(state))


@compiled
def logistic(x):  # type: ignore[no-untyped-def]
    """Squeeze a real number into (0, 1)."""
    return 1.0 / (1.0 + np.exp(-x))


@compiled
def draw_sizes(seed, centre, spread, short, longest, sizes):  # type: ignore[no-untyped-def]
    """Draw lengths of lists: log-normal, and a share ``short`` of them 1 to 9."""
    for q in range(len(sizes)):
        state = open_stream(seed, q, SIZES)
        size = np.floor(np.exp(centre + spread * normal(state)))
        if uniform(state) < short:
            size = np.floor(1.0 + 9.0 * uniform(state) ** 2)
        sizes[q] = min(max(size, 1), longest)


@compiled
def mark_best(seed, opinions, offsets, labels):  # type: ignore[no-untyped-def]
    """Label the best document of each list 1, in some lists the best two or three, the others 0."""
    for q in range(len(offsets) - 1):
        u = uniform(open_stream(seed, q, ANSWERS))
        n_best = 1 + (u > 0.85) + (u > 0.97)
        best = np.argsort(-opinions[offsets[q] : offsets[q + 1]])[:n_best]
        labels[offsets[q] : offsets[q + 1]] = 0.0
        for place in best:
            labels[offsets[q] + place] = 1.0
