r"""Value and gradient of an objective in a linear model, in one pass over the features.

The gradient :math:`X^\top \partial\ell/\partial s` needs the features of a list again as soon as
its scores are known. Taken list by list they are still in the cache, so the features come from
memory once per step and not twice. Partial sums belong to blocks of lists that do not depend on the
number of threads.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import float32, float64, int64, njit, prange, types, uint64, void
from numpy.typing import NDArray

from plackett.base.kernels import FLOATS, LABELS, readonly
from plackett.base.ragged import Offsets
from plackett.models.linear.products import BLOCK, add_combination, fill_scores
from plackett.objectives.driver import LIST_FUNCTION

_SIGNATURE = void(
    types.FunctionType(LIST_FUNCTION),
    readonly(float32, 2),  # features
    FLOATS,  # weights of the features
    LABELS,
    readonly(int64),  # offsets
    FLOATS,  # extra
    readonly(int64),  # its offsets
    readonly(uint64),  # keys
    FLOATS,  # params
    FLOATS,  # weights of the lists
    readonly(int64),  # first list of each block, and the number of lists
    float64[::1],  # values
    float64[:, ::1],  # sums of the blocks
)


def blocks_of(offsets: Offsets) -> NDArray[np.int64]:
    """The first list of each block of about BLOCK documents, and the number of lists."""
    starts = np.searchsorted(offsets[:-1], np.arange(0, offsets[-1], BLOCK))
    return np.append(np.unique(starts[starts < len(offsets) - 1]), len(offsets) - 1)


def _each_block(  # type: ignore[no-untyped-def]
    function,
    features,
    weights,
    labels,
    offsets,
    extra,
    extra_offsets,
    keys,
    params,
    list_weights,
    blocks,
    values,
    parts,
):
    for block in prange(len(parts)):
        for q in range(blocks[block], blocks[block + 1]):
            low, high = offsets[q], offsets[q + 1]
            y = labels[low:high]
            if high - low < 2 or np.max(y) == np.min(y):
                continue
            scores, gradient = np.empty(high - low), np.zeros(high - low)
            curvature = np.zeros(high - low)
            fill_scores(features[low:high], weights, scores)
            own = extra[extra_offsets[q] : extra_offsets[q + 1]]
            value = function(scores, y, own, keys[q], params, gradient, curvature)
            values[q] = list_weights[q] * value
            gradient *= list_weights[q]
            add_combination(features[low:high], gradient, parts[block])


@cache
def each_block() -> Any:
    """The driver; compiled, or loaded from the cache, at the first call."""
    options = {"parallel": True, "cache": True, "nogil": True, "error_model": "numpy"}
    return njit(_SIGNATURE, **options)(_each_block)
