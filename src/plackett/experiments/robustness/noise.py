"""What makes training data worse by a given amount.

Documents of other queries added as irrelevant ones (Bruch 2021, section 5.4).

To a list of m documents, round(level m) are added: each is drawn by choosing another training list,
all being equally likely, and then one of its documents; its label is 0.

Labels drawn anew (Bruch 2021, section 5.4).

Of a list of m documents, round(level m) are chosen at random, and their labels are drawn from a
fixed distribution that knows nothing of the documents.

Labels replaced by clicks of simulated users (Bruch 2021, section 5.5).

Each list is shown several times in a random order. The user reads from the top, clicks a document
with a chance that depends on its label, and stops at the first click; what was read is one list to
learn from, with the label 1 for the clicked document and 0 for the others. Impressions without a
click, or whose first document was clicked, teach no order and are left out. The level of noise is
the chance of a click on a document of label 0; at level 0 the lists keep their labels.

A protocol under noise: each of its trials at each level.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import list_of_document
from plackett.data.clicks import CascadeModel, click_model, simulate
from plackett.data.dataset import Dataset
from plackett.experiments.protocols import DataSource, Protocol, Split, SplitData


class Corruption(ABC):
    """A kind of noise; subclasses are frozen dataclasses whose ``repr`` says all that matters."""

    name: ClassVar[str]
    """For people."""
    unit: ClassVar[str]
    """What a level is the share of."""
    validation: ClassVar[bool] = False
    """Whether validation lists get the noise too; test lists never do."""

    def apply(self, train: Dataset, *, level: float, seed: int) -> Dataset:
        """Training lists with noise; at level 0 they stay as they are.

        Parameters
        ----------
        train
            The lists to learn from, or to choose by.
        level
            Share of each list's documents, not negative.
        seed
            Of the noise: the same seed and level give the same data.
        """
        if not 0 <= level < np.inf:
            raise UsageError(f"a level of noise is a share that is not negative, got {level}.")
        if level == 0:
            return train
        # Parts per million of the level, so that noise differs from level to level.
        rng = np.random.default_rng([seed, round(level * 1_000_000)])
        return self._corrupted(train, level, rng)

    @abstractmethod
    def _corrupted(self, train: Dataset, level: float, rng: np.random.Generator) -> Dataset:
        """Noise at a level above 0."""


def share_of_lists(train: Dataset, level: float) -> NDArray[np.int64]:
    """For each list, the share of its documents as a whole number, halves up."""
    return np.floor(level * np.diff(train.offsets) + 0.5).astype(np.int64)


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


CLICK_LEVELS = (0.05, 0.1, 0.15, 0.2, 0.25)
"""Chances of a click on an irrelevant document: below that of label 1, which is .3."""
_PAPER = click_model("bruch2021")


@dataclass(frozen=True)
class Clicks(Corruption):
    """Turns training and validation lists into clicks of a cascade.

    Parameters
    ----------
    impressions
        How often each list is shown.
    clicks
        Chances of a click on documents of the labels 0, 1, 2 ...; the first is the level's.
    """

    name: ClassVar[str] = "simulated clicks"
    unit: ClassVar[str] = "chance of a click on an irrelevant document"
    validation: ClassVar[bool] = True

    impressions: int = 10
    clicks: tuple[float, ...] = _PAPER.clicks

    def __post_init__(self) -> None:
        if self.impressions < 1:
            raise UsageError(f"lists are shown at least once, got {self.impressions} impressions.")
        CascadeModel(self.clicks)  # checks the chances

    def _corrupted(self, train: Dataset, level: float, rng: np.random.Generator) -> Dataset:
        if level > 1:
            raise UsageError(f"the chance of a click is at most 1, got {level}.")
        log = simulate(
            train,
            CascadeModel(self.clicks).with_noise(level),
            impressions=self.impressions,
            seed=int(rng.integers(2**63)),
            log="examined",
        )
        return Dataset.from_clicks(log, train)


@dataclass(frozen=True)
class NoiseProtocol(Protocol):
    """The trials of a protocol, their training lists corrupted at each of several levels.

    Noise that is meant for them corrupts validation lists as well.

    Trials at level 0 are those of the protocol itself: a store that has them need not run them
    again.
    """

    protocol: Protocol
    corruption: Corruption
    levels: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(set(self.levels)) < len(self.levels) or not self.levels:
            raise UsageError(f"levels of noise must be different numbers, got {self.levels}.")

    def plan(self, source: DataSource) -> tuple[Split, ...]:
        inner = self.protocol.plan(source)
        return tuple(
            self._noisy(part, level, i * len(inner) + part.index)
            for i, level in enumerate(self.levels)
            for part in inner
        )

    def _noisy(self, part: Split, level: float, index: int) -> Split:
        if level == 0:
            return replace(part, index=index)
        where = "training and validation lists" if self.corruption.validation else "training lists"
        noise = f"{self.corruption!r} at level {level:g}, seed {part.seed}, on the {where}"
        name = f"{part.name}, {self.corruption.name} {level:.0%}"
        return replace(part, name=name, division=f"{part.division}; {noise}", index=index)

    def trial(self, source: DataSource, part: Split) -> SplitData:
        inner = self.protocol.plan(source)
        level, own = self.levels[part.index // len(inner)], inner[part.index % len(inner)]
        trial = self.protocol.trial(source, own)
        train = self.corruption.apply(trial.train, level=level, seed=part.seed)
        validation = trial.validation
        if self.corruption.validation:
            validation = self.corruption.apply(validation, level=level, seed=part.seed)
        return replace(trial, name=part.name, train=train, validation=validation)

    def __str__(self) -> str:
        levels = ", ".join(f"{level:g}" for level in self.levels)
        return f"{self.protocol} under {self.corruption.name} ({levels})"
