"""Which lists and features a tree sees: a function of seed, step and list, never hidden state.

LightGBM's own bagging of queries does nothing under a custom objective, and its random state is
lost when training is resumed. Here a list takes part in a step if a number drawn from (seed, step,
list key) says so; the others hand zeros to the trainer. Features are drawn by LightGBM from a seed
that is set anew at each step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plackett.base.kernels import compiled
from plackett.base.ragged import Keys, Offsets
from plackett.base.random import combine, mix, unit
from plackett.objectives.objective import Boosting

_LISTS = 0x6C69737473  # keeps these draws apart from the noise of objectives with the same seed
_SEEDS = 2**30


def of_some_lists(
    derivatives: Boosting, offsets: Offsets, keys: Keys, *, fraction: float, seed: int
) -> Boosting:
    """The same derivatives with those of the lists that are not drawn set to zero."""

    def sampled(scores: Any, step: int) -> tuple[Any, Any]:
        gradient, curvature = derivatives(scores, step)
        base = combine(np.uint64(seed % 2**64) ^ np.uint64(_LISTS), np.uint64(step))
        _clear(gradient, curvature, offsets, keys, np.uint64(base), fraction)
        return gradient, curvature

    return sampled


def feature_seed(seed: int, step: int) -> int:
    """A seed for LightGBM's choice of features; two steps in a row never share one."""
    drawn = int(mix(np.uint64(combine(np.uint64(seed % 2**64), np.uint64(step))))) % _SEEDS
    return 2 * drawn + step % 2


@compiled
def _clear(gradient, curvature, offsets, keys, base, fraction):  # type: ignore[no-untyped-def]
    for q in range(len(keys)):
        if unit(combine(base, keys[q])) >= fraction:
            gradient[offsets[q] : offsets[q + 1]] = 0
            curvature[offsets[q] : offsets[q + 1]] = 0
