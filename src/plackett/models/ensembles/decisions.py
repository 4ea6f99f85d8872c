"""The bits that say how a node decides, and what they make of missing values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CATEGORICAL = 1
"""A set of categories decides, not a threshold."""
DEFAULT_LEFT = 2
"""Missing values go left."""
MISSING_ZERO, MISSING_NAN = 1, 2
"""Missing types above 0, which is: nothing is missing."""
KNOWN_BITS = 0b1111
_MISSING_SHIFT, _MISSING_MASK = 2, 3

# How a value is read: rows of the table in plackett.models.ensembles.questions.
_READINGS = np.array(
    [
        (0.0, 0.0),
        (-np.inf, 0.0),
        (np.nan, 0.0),
        (-np.inf, -np.inf),
        (np.nan, np.nan),
    ],
    np.float32,
)
_NONE, _NAN_LEFT, _NAN_RIGHT, _ZERO_LEFT, _ZERO_RIGHT = range(len(_READINGS))


def missing_type(decision: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Missing type of each node: 0 nothing, 1 zero and NaN, 2 NaN."""
    return (decision >> np.uint8(_MISSING_SHIFT)) & np.uint8(_MISSING_MASK)


def decision_bits(
    categorical: NDArray[np.bool_], default_left: NDArray[np.bool_], missing: int
) -> NDArray[np.uint8]:
    """The bits of nodes that share a missing type."""
    bits = CATEGORICAL * categorical + DEFAULT_LEFT * default_left + (missing << _MISSING_SHIFT)
    return bits.astype(np.uint8)


def reading(decision: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Number of the way in which each node reads its feature."""
    left = (decision & DEFAULT_LEFT) != 0
    missing = missing_type(decision)
    chosen = np.full(len(decision), _NONE, np.int64)
    chosen[missing == MISSING_NAN] = _NAN_RIGHT
    chosen[(missing == MISSING_NAN) & left] = _NAN_LEFT
    chosen[missing == MISSING_ZERO] = _ZERO_RIGHT
    chosen[(missing == MISSING_ZERO) & left] = _ZERO_LEFT
    chosen[(decision & CATEGORICAL) != 0] = _NAN_RIGHT  # NaN stays NaN, zero is category 0
    return chosen


def nan_goes_left(decision: NDArray[np.uint8], library: str) -> NDArray[np.bool_]:
    """Whether NaN goes left at nodes with categories; LightGBM looks at no other bit there."""
    return (decision & DEFAULT_LEFT != 0) & (library != "lightgbm")


def replacements(
    readings: NDArray[np.int64],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """What NaN and what zero become, for each way to read a feature."""
    chosen = _READINGS[readings]
    return np.ascontiguousarray(chosen[:, 0]), np.ascontiguousarray(chosen[:, 1])
