"""Labels drawn anew (Bruch 2021, section 5.4).

Of a list of m documents, round(level m) are chosen at random, and their labels are drawn from a
fixed distribution that knows nothing of the documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import list_of_document
from plackett.data.dataset import Dataset
from plackett.experiments.robustness.corruption import Corruption, share_of_lists

PAPER = (0.5, 0.2, 0.15, 0.1, 0.05)
"""Chances of the labels 0 to 4 in the paper."""


@dataclass(frozen=True)
class LabelNoise(Corruption):
    """Perturbs labels; at a level of 1 nothing of the labels is left.

    Parameters
    ----------
    probabilities
        Chances of the labels 0, 1, 2 ...; where the data have fewer levels, those of the levels
        they have, scaled to a sum of 1.
    """

    name: ClassVar[str] = "perturbed labels"
    unit: ClassVar[str] = "labels drawn anew, as a share of the list"

    probabilities: tuple[float, ...] = PAPER

    def __post_init__(self) -> None:
        if not self.probabilities or min(self.probabilities) < 0 or not sum(self.probabilities) > 0:
            raise UsageError(
                f"probabilities must not be negative, nor all zero, got {self.probabilities}."
            )

    def _corrupted(self, train: Dataset, level: float, rng: np.random.Generator) -> Dataset:
        if level > 1:
            raise UsageError(f"the share of labels drawn anew is at most 1, got {level}.")
        levels = int(train.labels.max()) + 1
        if np.any(train.labels != np.floor(train.labels)) or levels > len(self.probabilities):
            raise DataError(
                f"label noise draws the labels 0 to {len(self.probabilities) - 1}, but the data "
                f"have others, up to {train.labels.max():g}; give probabilities for all of them."
            )
        chances = np.asarray(self.probabilities[:levels])
        # A random order within each list; the first documents of it are chosen.
        lists = list_of_document(train.offsets)
        order = np.lexsort((rng.random(train.n_docs), lists))
        place = np.arange(train.n_docs) - train.offsets[lists]
        chosen = order[place < share_of_lists(train, level)[lists]]
        labels = train.labels.copy()
        labels[chosen] = rng.choice(levels, size=len(chosen), p=chances / chances.sum())
        return train.with_labels(labels)
