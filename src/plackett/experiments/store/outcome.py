"""What a trial leaves behind, and its form in a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from plackett.base.ragged import Scores, Values

_STORED = np.dtype("<f8")  # eight bytes per number, the same on every machine

Curves = Mapping[str, Mapping[str, Sequence[float]]]
"""For each part of the data, for each metric, its mean after each step of training."""


@dataclass(frozen=True)
class Outcome:
    """The result of one trial on its test lists."""

    values: Mapping[str, Values]
    """By metric: one value per list, NaN where the metric drops the list."""
    scores: Scores
    """One per document: any other metric follows from them without training again."""
    seconds: float
    """Time of training."""
    curves: Curves = field(default_factory=dict)
    """How the metrics rose during training, for models that have steps."""


def to_blob(numbers: NDArray[np.float64]) -> bytes:
    """Numbers as bytes."""
    return np.ascontiguousarray(numbers, dtype=_STORED).tobytes()


def from_blob(blob: bytes) -> NDArray[np.float64]:
    """The numbers that :func:`to_blob` was given, NaN included."""
    return np.frombuffer(blob, dtype=_STORED).astype(np.float64)
