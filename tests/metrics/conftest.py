"""Random ragged lists with everything that tools treat differently."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray


@dataclass(frozen=True)
class ScoredLists:
    scores: NDArray[np.float64]
    labels: NDArray[np.float32]
    offsets: NDArray[np.int64]
    document_ids: NDArray[np.str_] | None = None
    keys: NDArray[np.uint64] | None = None
    weights: NDArray[np.float64] | None = None

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def each(self) -> list[tuple[NDArray[np.float64], NDArray[np.float32]]]:
        """Scores and labels of each list."""
        bounds = self.offsets[1:-1]
        return list(zip(np.split(self.scores, bounds), np.split(self.labels, bounds), strict=True))


def random_lists(seed: int, *, n_lists: int = 60, top: int = 4, largest: int = 25) -> ScoredLists:
    """Short and long lists, single documents, ties, lists with one label only."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, largest, n_lists)
    sizes[:4] = [1, 1, 2, 3]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    n_docs = int(offsets[-1])
    labels = rng.integers(0, top + 1, n_docs) * (rng.random(n_docs) < 0.5)
    labels[0], labels[1] = 0, top
    # Scores on a coarse grid that float32 holds exactly: many ties, the same in every tool.
    scores = rng.integers(0, 8, n_docs) / 4.0 - 1.0
    for q in range(4, n_lists, 7):
        labels[offsets[q] : offsets[q + 1]] = 0
    for q in range(5, n_lists, 11):
        labels[offsets[q] : offsets[q + 1]] = top
    ids = np.array([f"d{number}" for number in rng.permutation(n_docs)])
    keys = rng.integers(0, 2**63, n_lists).astype(np.uint64)
    return ScoredLists(scores, labels.astype(np.float32), offsets, ids, keys)


@pytest.fixture
def lists() -> ScoredLists:
    return random_lists(0)


@pytest.fixture
def binary_lists() -> ScoredLists:
    return random_lists(1, top=1)
