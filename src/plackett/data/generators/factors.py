r"""A simulated search log with anonymous features in [0, 1], many of them sparse or constant.

Every list has query traits, every document page traits and match traits, all standard normal and
hidden. A feature is a noisy curve of two of them:

.. math:: x = \operatorname{logistic}(b + w_1 z_1 + w_2 z_2 + \sigma\,\varepsilon)

Some features are constant within a list (made of query traits), some are constant everywhere, and
the others come in groups, as from different subsystems: where a subsystem knows nothing of a
document, its whole group is zero. Some are coarse (steps), some cut off at one half, so zeros
abound.

Relevance multiplies match and page traits, saturates, and weighs them by a query trait. The
coefficients are choices that make the shape of the Yahoo! set; they mean nothing else.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from plackett.base.kernels import compiled
from plackett.data.generators.draws import (
    CONTENT,
    WORLD,
    logistic,
    normal,
    open_stream,
    uniform,
)

N_FEATURES = 519
KINDS = ("constant", "query", "page", "match")
_KIND_SHARES = (0.10, 0.22, 0.50)  # cumulative; the rest are match features
_FIRST_TRAIT, _LAST_TRAIT = (0, 0, 3, 7), (0, 3, 7, 12)  # which traits features of a kind see
_N_TRAITS, _N_QUERY_TRAITS = 12, 3
_N_GROUPS = 9  # group 0 is always there
_KIND, _ONE, _TWO, _WEIGHT_ONE, _WEIGHT_TWO, _BIAS, _NOISE, _GROUP, _SHAPE = range(9)
_SMOOTH, _COARSE, _CUT = range(3)
_WORLD_SEED = 519


@compiled
def draw_world():  # type: ignore[no-untyped-def]
    """Draw what each feature is made of: the same for every seed, so that train resembles test."""
    world = np.zeros((N_FEATURES, 9))
    for j in range(N_FEATURES):
        state = open_stream(_WORLD_SEED, j, WORLD)
        u, kind = uniform(state), 0
        for share in _KIND_SHARES:
            kind += u > share
        first, span = _FIRST_TRAIT[kind], _LAST_TRAIT[kind] - _FIRST_TRAIT[kind]
        world[j, _KIND] = kind
        world[j, _ONE] = first + np.floor(span * uniform(state))
        world[j, _TWO] = first + np.floor(span * uniform(state))
        world[j, _WEIGHT_ONE] = 0.2 + 1.3 * uniform(state)
        world[j, _WEIGHT_TWO] = 0.7 * normal(state)
        world[j, _BIAS] = 0.8 * normal(state)
        world[j, _NOISE] = 0.5 + 2.5 * uniform(state)
        world[j, _GROUP] = np.floor(_N_GROUPS * uniform(state)) if kind >= 2 else 0
        shape = uniform(state)
        world[j, _SHAPE] = _SMOOTH if shape < 0.5 else (_COARSE if shape < 0.7 else _CUT)
    return world


def feature_names(world: NDArray[np.float64]) -> tuple[str, ...]:
    """Name features by kind and place, such as ``match_204``."""
    return tuple(f"{KINDS[int(kind)]}_{j + 1:03d}" for j, kind in enumerate(world[:, _KIND]))


@compiled
def _value(state, feature, traits):  # type: ignore[no-untyped-def]
    """Draw the value of one feature for a document with these traits."""
    mean = feature[_WEIGHT_ONE] * traits[int(feature[_ONE])]
    mean += feature[_WEIGHT_TWO] * traits[int(feature[_TWO])]
    value = logistic(feature[_BIAS] + mean + feature[_NOISE] * normal(state))
    if feature[_SHAPE] == _COARSE:
        return np.floor(5.0 * value) / 4.0 if value < 0.8 else 1.0
    if feature[_SHAPE] == _CUT:
        return max(0.0, 2.0 * value - 1.0)
    return value


@compiled
def relevance(traits):  # type: ignore[no-untyped-def]
    """Say how a document serves a query, before noise."""
    focus = logistic(2.5 * traits[0])  # a trait of the query decides what counts
    match = logistic(2.0 * (0.8 * traits[7] + 0.6 * traits[8]))
    page = logistic(2.0 * (0.7 * traits[3] + 0.5 * traits[4]))
    sharp = 4.0 * match * page - 1.0
    broad = 0.6 * traits[9] + 0.5 * traits[5] - 0.35 * (traits[6] * traits[6] - 1.0)
    return focus * sharp + (1.0 - focus) * broad + 0.3 * traits[7]


@njit(cache=True, nogil=True, parallel=True)
def factor_lists(seed, offsets, judging, world, features, opinions):  # type: ignore[no-untyped-def]
    """Fill all lists; ``judging`` is as in :mod:`plackett.data.generators.pages`."""
    ease, noise, hopeless, _ = judging
    for q in prange(len(offsets) - 1):
        state = open_stream(seed, q, CONTENT)
        traits, known = np.zeros(_N_TRAITS), np.ones(_N_GROUPS)
        for t in range(_N_QUERY_TRAITS):
            traits[t] = normal(state)
        shift = ease * normal(state) if uniform(state) > hopeless else -np.inf
        fixed = np.zeros(N_FEATURES)
        for j in range(N_FEATURES):
            if world[j, _KIND] == 1:
                fixed[j] = _value(state, world[j], traits)
        for i in range(offsets[q], offsets[q + 1]):
            for t in range(_N_QUERY_TRAITS, _N_TRAITS):
                traits[t] = normal(state)
            for group in range(1, _N_GROUPS):  # the later the group, the more often it is silent
                known[group] = uniform(state) > 0.1 * group
            for j in range(N_FEATURES):
                drawn = world[j, _KIND] >= 2 and known[int(world[j, _GROUP])] > 0
                features[i, j] = _value(state, world[j], traits) if drawn else fixed[j]
            opinions[i] = relevance(traits) + shift + noise * normal(state)
