"""Lists for the benchmarks of objectives: lengths and labels of web search, and scores.

Lengths and labels are those of the embedded data set ``web``: 120 documents a list on average with
a long tail up to 1,000, and labels 0 to 4 with shares of about .53, .32, .12, .02 and .01. Scores
know something of the labels, as a half-trained model's do, and no two are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plackett import synthetic

SIGNAL = 0.5  # of a label in the scores, beside noise of deviation 1


@dataclass(frozen=True)
class WebLists:
    """Scored and labelled lists."""

    scores: NDArray[np.float64]
    labels: NDArray[np.float32]
    offsets: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def batches(self, size: int) -> Iterator[WebLists]:
        """Consecutive lists, ``size`` at a time; a last, smaller part is left out."""
        for first in range(0, len(self.offsets) - size, size):
            bounds = self.offsets[first : first + size + 1]
            inside = slice(bounds[0], bounds[-1])
            yield WebLists(self.scores[inside], self.labels[inside], bounds - bounds[0])


def web_lists(n_lists: int, seed: int) -> WebLists:
    made = synthetic("web", n_lists=n_lists, seed=seed)
    noise = np.random.default_rng(seed).normal(size=made.n_docs)
    return WebLists(SIGNAL * made.labels + noise, made.labels, made.offsets)
