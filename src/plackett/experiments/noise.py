"""Kinds of noise in training data, and the protocol that trains under them.

Each trial of a protocol runs once per level; test lists never get noise. CONTRIBUTING.md says how to add a kind.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import list_of_document
from plackett.data import Dataset
from plackett.data.clicks import CascadeModel, click_model, simulate
from plackett.experiments.protocols import DataSource, Protocol, Split, SplitData

LEVELS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # levels of noise that are shares of a list's documents
CLICK_LEVELS = (0.05, 0.1, 0.15, 0.2, 0.25)
"""Probabilities of a click on an irrelevant document: below that of label 1, which is .3."""
LABEL_PROBABILITIES = (0.5, 0.2, 0.15, 0.1, 0.05)  # probabilities of the labels 0 to 4 (Bruch 2021)


class Noise(ABC):
    """A kind of noise.

    Subclasses are frozen dataclasses. Their ``repr`` is part of the identity of a trial, so it must
    name everything that the noise depends on.
    """

    name: ClassVar[str]  # for people
    unit: ClassVar[str]  # what a level means; charts and tables show it in percent
    levels: ClassVar[tuple[float, ...]] = LEVELS  # to measure at, unless others are given
    validation: ClassVar[bool] = False  # whether validation lists get the noise too; test lists never do

    def apply(self, train: Dataset, *, level: float, seed: int) -> Dataset:
        """Training or validation lists with noise; at level 0 they are returned as they are."""
        if not 0 <= level < np.inf:
            raise UsageError(f"a level of noise must not be negative, got {level}.")
        if level == 0:
            return train
        # Seed with the level in parts per million, so that noise differs between levels.
        rng = np.random.default_rng([seed, round(level * 1_000_000)])
        return self._apply(train, level, rng)

    @abstractmethod
    def _apply(self, data: Dataset, level: float, rng: np.random.Generator) -> Dataset:
        """Lists with noise at a level above 0; raises UsageError for a level that has no meaning."""


def documents_per_list(data: Dataset, level: float) -> NDArray[np.int64]:
    """For each list, ``level`` times its number of documents, rounded (halves up)."""
    return np.floor(level * data.list_sizes + 0.5).astype(np.int64)


@dataclass(frozen=True)
class Augmentation(Noise):
    """Sampled negatives: adds documents of other queries as irrelevant ones (Bruch 2021, section 5.4).

    A list of m documents gets round(level m) more. Each is drawn by choosing another training list,
    all with the same probability, and then one of its documents; its label is 0.
    """

    name: ClassVar[str] = "sampled negatives"
    unit: ClassVar[str] = "documents added, as a share of the list"

    def _apply(self, data: Dataset, level: float, rng: np.random.Generator) -> Dataset:
        data = data.canonical()  # draws do not depend on the order of the rows
        if data.n_lists < 2:
            raise DataError("documents of other lists cannot be added: there is only one list.")
        lists = np.repeat(np.arange(data.n_lists), documents_per_list(data, level))
        others = rng.integers(data.n_lists - 1, size=len(lists))
        others += others >= lists  # any list but this one
        sizes = np.diff(data.offsets)[others]
        drawn = data.offsets[others] + np.floor(rng.random(len(lists)) * sizes).astype(np.int64)
        rows = np.concatenate([np.arange(data.n_docs), drawn])
        if data.positions is not None:
            raise DataError(
                "documents of other lists cannot be added to clicks: they were shown at no position. Use another noise."
            )
        weights, document_weights = data.weights, data.document_weights
        if document_weights is not None:
            document_weights = np.append(document_weights, np.ones(len(drawn)))
        # Lists are identified by position: lists of different parts may share a query id.
        list_ids = np.concatenate([list_of_document(data.offsets), lists])
        noisy = Dataset.from_arrays(
            data.features[rows],
            np.concatenate([data.labels, np.zeros(len(drawn), np.float32)]),
            list_ids,
            weights=None if weights is None else dict(enumerate(weights.tolist())),
            document_weights=document_weights,
            groups=None if data.groups is None else data.groups[list_ids],
            feature_names=data.feature_names,
            missing="nan",
        )
        return noisy if data.categories is None else noisy._replace(order=None, categories=data.categories)


@dataclass(frozen=True)
class LabelNoise(Noise):
    """Replaces labels by random ones (Bruch 2021, section 5.4).

    In a list of m documents, round(level m) are chosen at random. Their labels are drawn from a
    fixed distribution that does not depend on the documents.

    Parameters
    ----------
    probabilities
        Probabilities of the labels 0, 1, 2 ... If the data have fewer levels, the probabilities of
        those levels are scaled to a sum of 1.
    """

    name: ClassVar[str] = "perturbed labels"
    unit: ClassVar[str] = "labels replaced, as a share of the list"

    probabilities: tuple[float, ...] = LABEL_PROBABILITIES

    def __post_init__(self) -> None:
        if not self.probabilities or min(self.probabilities) < 0 or not sum(self.probabilities) > 0:
            raise UsageError(f"probabilities must not be negative, nor all zero, got {self.probabilities}.")

    def _apply(self, data: Dataset, level: float, rng: np.random.Generator) -> Dataset:
        if level > 1:
            raise UsageError(f"the share of labels to replace is at most 1, got {level}.")
        n_labels = int(data.labels.max()) + 1
        if np.any(data.labels != np.floor(data.labels)) or n_labels > len(self.probabilities):
            raise DataError(
                f"label noise draws the labels 0 to {len(self.probabilities) - 1}, but the data "
                f"have others, up to {data.labels.max():g}; give probabilities for all of them."
            )
        probabilities = np.asarray(self.probabilities[:n_labels])
        # A random order within each list; the first documents of it are chosen.
        canonical = data.without_features().canonical()
        lists = canonical.list_of_row
        order = np.lexsort((rng.random(data.n_docs), lists))
        place = np.arange(data.n_docs) - canonical.offsets[lists]
        chosen = order[place < documents_per_list(canonical, level)[lists]]
        labels = canonical.labels.copy()
        labels[chosen] = rng.choice(n_labels, size=len(chosen), p=probabilities / probabilities.sum())
        return data.with_labels(data.order.restore(labels))


@dataclass(frozen=True)
class Clicks(Noise):
    """Replaces labels by clicks of simulated users (Bruch 2021, section 5.5).

    Each list is shown several times in a random order. The user reads from the top, clicks a document with a
    probability that depends on its label, and stops at the first click. The documents read are one list to learn from:
    label 1 for the clicked document, 0 for the others. Impressions without a click, or with a click on the first
    document, teach no order and are dropped. The level is the probability of a click on a document of label 0; at level
    0 nothing is simulated, and the lists keep their judged labels.

    Parameters
    ----------
    impressions
        How often each list is shown.
    clicks
        Probabilities of a click on documents of the labels 0, 1, 2 ...; the level replaces the
        first.
    """

    name: ClassVar[str] = "simulated clicks"
    unit: ClassVar[str] = "probability of a click on an irrelevant document"
    levels: ClassVar[tuple[float, ...]] = CLICK_LEVELS
    validation: ClassVar[bool] = True

    impressions: int = 10
    clicks: tuple[float, ...] = click_model("bruch2021").clicks

    def __post_init__(self) -> None:
        if self.impressions < 1:
            raise UsageError(f"impressions must be at least 1, got {self.impressions}.")
        CascadeModel(self.clicks)  # checks the probabilities

    def _apply(self, data: Dataset, level: float, rng: np.random.Generator) -> Dataset:
        if level > 1:
            raise UsageError(f"the probability of a click is at most 1, got {level}.")
        log = simulate(
            data,
            CascadeModel(self.clicks).with_noise(level),
            impressions=self.impressions,
            seed=int(rng.integers(2**63)),
            log="examined",
        )
        return Dataset.from_clicks(log, data)


NOISE_KINDS: dict[str, Noise] = {"negatives": Augmentation(), "labels": LabelNoise(), "clicks": Clicks()}
"""By the name that ``plackett robustness --perturb`` takes."""


def noise_kind(name: str) -> Noise:
    """The kind of noise of this name."""
    if name not in NOISE_KINDS:
        raise UsageError(f"there is no noise {name!r}. There are: {', '.join(NOISE_KINDS)}.")
    return NOISE_KINDS[name]


@dataclass(frozen=True)
class NoiseProtocol(Protocol):
    """The trials of a protocol, each at several levels of noise.

    Trials at level 0 are those of the protocol itself, so they are not run again if the store has them.
    """

    protocol: Protocol
    noise: Noise
    levels: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(set(self.levels)) < len(self.levels) or not self.levels:
            raise UsageError(f"levels of noise must be different numbers, got {self.levels}.")

    def splits(self, source: DataSource) -> tuple[Split, ...]:
        clean = self.protocol.splits(source)
        return tuple(
            self._with_noise(split, level, i * len(clean) + split.index)
            for i, level in enumerate(self.levels)
            for split in clean
        )

    def _with_noise(self, split: Split, level: float, index: int) -> Split:
        if level == 0:
            return replace(split, index=index)
        where = "training and validation lists" if self.noise.validation else "training lists"
        change = f"{self.noise!r} at level {level:g}, seed {split.seed}, on the {where}"
        name = f"{split.name}, {self.noise.name} {level:.0%}"
        return replace(split, name=name, division=f"{split.division}; {change}", index=index)

    def load(self, source: DataSource, split: Split) -> SplitData:
        clean = self.protocol.splits(source)
        level = self.levels[split.index // len(clean)]
        data = self.protocol.load(source, clean[split.index % len(clean)])
        parts = ("train", "validation") if self.noise.validation else ("train",)
        return replace(
            data, **{name: self.noise.apply(getattr(data, name), level=level, seed=split.seed) for name in parts}
        )

    def __str__(self) -> str:
        levels = ", ".join(f"{level:g}" for level in self.levels)
        return f"{self.protocol} under {self.noise.name} ({levels})"
