r"""Distillation: one tree model that scores like the ensemble.

The student minimizes the cross-entropy between the softmax of the ensemble's scores and that of its
own scores, list by list: ListNet with the ensemble's scores as labels. It learns from the training
lists and from perturbed copies of them, in which some features of a document are replaced by those
of another document of its list; the ensemble can score as many of these as the student needs.

What the student loses is measured on lists that neither it nor its teacher has seen: for some of
the parts, a student is trained on the other parts, with the members that did not learn from that
part as its teacher.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.ragged import Offsets, Scores
from plackett.data.dataset import Dataset
from plackett.metrics import Metric
from plackett.models.auto.leaderboard import paired_p_value
from plackett.models.crossfit import CrossFit
from plackett.models.progress import FitStep, Progress
from plackett.models.ranker import Ranker
from plackett.models.trees import TreeRanker

TEMPERATURE = 2.0
"""The factor of the ensemble's scores, whose deviation within lists is about 1, in the softmax."""
_REPLACED = 0.25  # share of the features that a perturbed document gets from another one
_DOCUMENTS = 150_000  # of all copies together
_MAX_COPIES = 8
_CHECKED_PARTS = 3
_TREES, _MIN_TREES = 600, 20


@dataclass(frozen=True, eq=False)
class Distillation:
    """A distilled model and how it compares with the ensemble."""

    ranker: Ranker
    """The distilled trees."""
    trees: int
    value: float | None
    """Mean of the metric on unseen lists; None if there was no time to measure it."""
    ensemble_value: float | None
    """The same of the ensemble, on the same lists."""
    p_value: float | None
    """Of the paired t-test of the difference."""
    lists: int
    """The number of unseen lists."""
    milliseconds: float
    """To score a list of the median length."""
    ensemble_milliseconds: float

    @property
    def loss(self) -> float | None:
        """What the distilled model loses in the metric."""
        if self.value is None or self.ensemble_value is None:
            return None
        return self.ensemble_value - self.value

    def to_dict(self) -> dict[str, Any]:
        """Everything but the model as plain data."""
        return {name: getattr(self, name) for name in _NUMBERS}

    @classmethod
    def from_dict(cls, content: Any, ranker: Ranker, path: Path) -> Distillation:
        """The inverse of :meth:`to_dict`, from a file that may be damaged."""
        valid = isinstance(content, dict) and set(content) == set(_NUMBERS)
        if not valid or not all(
            value is None or isinstance(value, (int, float)) for value in content.values()
        ):
            raise DataError("does not describe a distilled model", path=str(path))
        return cls(ranker, **content)


_NUMBERS = tuple(field.name for field in fields(Distillation) if field.name != "ranker")


def distill_trees(
    members: Sequence[Ranker],
    weights: NDArray[np.float64],
    data: Dataset,
    metrics: tuple[Metric, ...],
    *,
    seed: int,
    threads: int | None,
    seconds: float,
    clock: Callable[[], float],
    progress: Progress,
) -> Distillation:
    """Train one tree model on the scores of an ensemble.

    Parameters
    ----------
    members, weights
        The ensemble.
    data
        The lists that its members were fitted on.
    metrics
        The first is measured on unseen lists.
    seconds
        Time to spend: with little of it the model has fewer trees, or is not checked.
    """
    start = clock()
    student = _Student(metrics, seed, threads, progress, clock)

    def teacher(lists: Dataset) -> Scores:
        return sum(
            (w * member.predict(lists) for member, w in zip(members, weights, strict=True)),
            np.zeros(lists.n_docs),
        )

    ranker = student.fit(_make_lesson(data, teacher, seed), _TREES, start + seconds)
    trees = ranker._ensemble.n_trees
    took = clock() - start
    unseen = []
    if all(isinstance(member, CrossFit) for member in members):
        for part in range(_CHECKED_PARTS):
            if clock() + took > start + seconds:
                break
            unseen.append(_check_part(members, weights, data, student, trees, part))
    ours, theirs = (np.concatenate([pair[i] for pair in unseen] or [np.empty(0)]) for i in (0, 1))
    counted = ~np.isnan(ours)
    return Distillation(
        ranker,
        trees,
        float(ours[counted].mean()) if counted.any() else None,
        float(theirs[counted].mean()) if counted.any() else None,
        paired_p_value(ours, theirs) if counted.any() else None,
        int(counted.sum()),
        _latency(ranker.predict, data),
        _latency(teacher, data),
    )


@dataclass(frozen=True)
class _Student:
    """How the distilled trees are trained."""

    metrics: tuple[Metric, ...]
    seed: int
    threads: int | None
    progress: Progress
    clock: Callable[[], float]

    def fit(self, lesson: Dataset, trees: int, deadline: float = math.inf) -> TreeRanker:
        """Fit this many trees, or fewer if the time is up."""
        ranker = TreeRanker(
            objective="listnet",
            trees=trees,
            learning_rate=0.1,
            leaves=32,
            min_documents=20 if lesson.n_docs > 2000 else 1,
            feature_fraction=0.7,
            seed=self.seed,
            threads=self.threads,
        )

        def report(text: str, done: int, total: int) -> None:
            self.progress(f"distilling: {text}", done, total)

        def is_late(step: FitStep) -> bool:
            return step.step >= _MIN_TREES and self.clock() > deadline

        return ranker.fit(lesson, None, self.metrics, progress=report, callbacks=is_late)


def _check_part(
    members: Sequence[Ranker],
    weights: NDArray[np.float64],
    data: Dataset,
    student: _Student,
    trees: int,
    part: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values of a student and of its teacher on the lists of a part that both have not seen."""
    crossfits = [member for member in members if isinstance(member, CrossFit)]

    def teacher(lists: Dataset) -> Scores:
        scores = np.zeros(lists.n_docs)
        for crossfit, weight in zip(crossfits, weights, strict=True):
            scale = float(crossfit.scales_[part])
            scores += weight * crossfit.members_[part].predict(lists) / scale
        return scores

    held_out = crossfits[0]._held_out(data, part)
    train, unseen = (data.select(np.flatnonzero(mask)) for mask in (~held_out, held_out))
    ranker = student.fit(_make_lesson(train, teacher, student.seed + part + 1), trees)
    metric = student.metrics[0]

    def values(scores: Scores) -> NDArray[np.float64]:
        return metric(scores, unseen.labels, unseen.offsets, unseen.document_ids, unseen.keys)

    return values(ranker.predict(unseen)), values(teacher(unseen))


def _make_lesson(data: Dataset, teacher: Callable[[Dataset], Scores], seed: int) -> Dataset:
    """The lists and perturbed copies of them, with the teacher's scores as labels."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0x646973]))
    copies = min(math.ceil(_DOCUMENTS / data.n_docs) - 1, _MAX_COPIES)
    features = np.asarray(
        data.features if isinstance(data.features, np.ndarray) else data.features.toarray()
    )
    parts = [features, *(_perturb(features, data.offsets, rng) for _ in range(copies))]
    n_lists, sizes = data.n_lists, np.diff(data.offsets)
    ids = np.repeat(np.arange(n_lists * (copies + 1)), np.tile(sizes, copies + 1))
    lesson = Dataset.from_arrays(
        np.concatenate(parts), None, ids, feature_names=data.feature_names, missing="nan"
    )
    scores = teacher(lesson)
    lowest = np.minimum.reduceat(scores, lesson.offsets[:-1])
    labels = TEMPERATURE * (scores - np.repeat(lowest, np.diff(lesson.offsets)))
    return lesson.with_labels(labels)


def _perturb(
    features: NDArray[np.float32], offsets: Offsets, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Replace some features of each document by those of another document of its list."""
    sizes = np.repeat(np.diff(offsets), np.diff(offsets))
    others = np.repeat(offsets[:-1], np.diff(offsets)) + (rng.random(len(features)) * sizes).astype(
        np.int64
    )
    replaced = rng.random(features.shape, dtype=np.float32) < _REPLACED
    return np.where(replaced, features[others], features)


def _latency(predict: Callable[[Dataset], Scores], data: Dataset) -> float:
    """Milliseconds to score a list of the median length, the best of several times."""
    order = np.argsort(np.diff(data.offsets), kind="stable")
    lists = data.select(order[len(order) // 2 : len(order) // 2 + 1])
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        predict(lists)
        times.append(time.perf_counter() - begin)
    return 1000 * min(times)
