"""Documents of other queries added as irrelevant ones (Bruch 2021, section 5.4).

To a list of m documents, round(level m) are added: each is drawn by choosing another training list,
all being equally likely, and then one of its documents; its label is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plackett.base.errors import DataError
from plackett.base.ragged import list_of_document
from plackett.data.dataset import Dataset
from plackett.experiments.robustness.corruption import Corruption, share_of_lists


@dataclass(frozen=True)
class Augmentation(Corruption):
    """Adds sampled negatives; a level of 1 doubles every list."""

    name: ClassVar[str] = "sampled negatives"
    unit: ClassVar[str] = "documents added, as a share of the list"

    def _corrupted(self, train: Dataset, level: float, rng: np.random.Generator) -> Dataset:
        if train.n_lists < 2:
            raise DataError("documents of other lists cannot be added: there is only one list.")
        lists = np.repeat(np.arange(train.n_lists), share_of_lists(train, level))
        others = rng.integers(train.n_lists - 1, size=len(lists))
        others += others >= lists  # any list but one's own
        sizes = np.diff(train.offsets)[others]
        drawn = train.offsets[others] + np.floor(rng.random(len(lists)) * sizes).astype(np.int64)
        rows = np.concatenate([np.arange(train.n_docs), drawn])
        weights, each = train.weights, train.document_weights
        return Dataset.from_arrays(
            train.features[rows],
            np.concatenate([train.labels, np.zeros(len(drawn), np.float32)]),
            # By place: lists with the same query id, of different parts, stay apart.
            np.concatenate([list_of_document(train.offsets), lists]),
            weights=None if weights is None else dict(enumerate(weights.tolist())),
            document_weights=None if each is None else np.append(each, np.ones(len(drawn))),
            feature_names=train.feature_names,
            missing="nan",
        )
