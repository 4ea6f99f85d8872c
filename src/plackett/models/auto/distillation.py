r"""Distillation: convert an ensemble to one that consists of trees only.

Members that are trees stay: their sum is one tree ensemble, exactly. The others, such as nets and linear models, are
replaced by one tree model, the *student*, which learns their weighted sum of scores by regression. It learns from the
training lists and from perturbed copies of them, in which some features of a document are replaced by those of another
document of its list; the ensemble can label as many copies as the student needs.

The loss is measured on lists that neither the student nor its teachers have seen: for some of the parts, a student
is trained on the other parts, with the members that did not learn from that part as its teachers.
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
from plackett.data import Dataset
from plackett.models.auto.leaderboard import paired_p_value
from plackett.models.crossfit import CrossFit
from plackett.models.ensembles import EnsembleRanker
from plackett.models.fit_context import FitContext, FitStep
from plackett.models.ranker import Ranker
from plackett.models.trees import TreeRanker

_REPLACED = 0.25  # share of the features that a perturbed document gets from another one
_DOCUMENTS = 100_000  # total over all copies
_MAX_COPIES = 8
_CHECKED_PARTS = 3
_TREES, _MIN_TREES = 800, 20


@dataclass(frozen=True, eq=False)
class Distillation:
    """The student and how the distilled model compares with the ensemble."""

    ranker: Ranker | None
    """The trees that replace the members that are not trees; None if all are."""
    trees: int
    """Of the student."""
    value: float | None
    """Mean of the metric on unseen lists; None if there was no time to measure it."""
    ensemble_value: float | None
    """The mean of the ensemble on the same lists."""
    p_value: float | None
    """p-value of the paired t-test of the difference."""
    lists: int
    """The number of unseen lists."""
    milliseconds: float
    """Time to score a list of the median length."""
    ensemble_milliseconds: float

    @property
    def loss(self) -> float | None:
        """How much of the metric the distilled model loses; 0 if all members are trees."""
        if self.ranker is None:
            return 0.0
        if self.value is None or self.ensemble_value is None:
            return None
        return self.ensemble_value - self.value

    def to_dict(self) -> dict[str, Any]:
        """Everything but the model as plain data."""
        return {name: getattr(self, name) for name in _NUMBERS}

    @classmethod
    def from_dict(cls, content: Any, path: Path, parts: Sequence[Ranker]) -> Distillation:
        """The inverse of :meth:`to_dict`, from a file that may be damaged; the student is the first part."""
        valid = isinstance(content, dict) and set(content) == set(_NUMBERS)
        if not valid or not all(value is None or isinstance(value, (int, float)) for value in content.values()):
            raise DataError("does not describe a distilled model", path=str(path))
        return cls(parts[0] if content["trees"] else None, **content)


_NUMBERS = tuple(field.name for field in fields(Distillation) if field.name != "ranker")


def distill_trees(
    members: Sequence[Ranker],
    weights: NDArray[np.float64],
    data: Dataset,
    context: FitContext,
    *,
    seed: int,
    threads: int | None,
    seconds: float,
    clock: Callable[[], float],
) -> Distillation:
    """Train trees on the scores of the members that are not trees.

    ``data`` are the lists that the members were fitted on; the first metric is measured on unseen lists. With few
    ``seconds`` the model has fewer trees, or is not checked.
    """
    start = clock()
    terms: list[tuple[Ranker, float]] = list(zip(members, weights.tolist(), strict=True))
    trees = [(member, weight) for member, weight in terms if is_sum_of_trees(member)]
    others = [(member, weight) for member, weight in terms if not is_sum_of_trees(member)]

    def fit_student(lists: Dataset, teachers: Terms, lesson_seed: int, n_trees: int, deadline: float) -> TreeRanker:
        """Fit at most ``n_trees`` trees, fewer if the time is up."""
        lesson = _make_lesson(lists, teachers, lesson_seed)
        student = TreeRanker(
            objective="squared",
            trees=n_trees,
            learning_rate=0.1,
            leaves=16,
            min_documents=20 if lesson.n_docs > 2000 else 1,
            feature_fraction=0.7,
            seed=seed,
            threads=threads,
        )

        def report(text: str, done: int, total: int) -> None:
            context.progress(f"distilling: {text}", done, total)

        def is_late(step: FitStep) -> bool:
            return step.step >= _MIN_TREES and clock() > deadline

        return student.fit(lesson, None, context.metrics, progress=report, callbacks=is_late)

    if not others:
        milliseconds = _latency(trees, data)
        return Distillation(None, 0, None, None, None, 0, milliseconds, milliseconds)
    ranker = fit_student(data, others, seed, _TREES, start + seconds)
    took = clock() - start
    n_trees = ranker._ensemble.n_trees
    values: list[list[NDArray[np.float64]]] = [[], []]  # of the distilled model and of the ensemble, by part
    if all(isinstance(member, CrossFit) for member in members):
        for part in range(_CHECKED_PARTS):
            if clock() + took > start + seconds:
                break
            kept, replaced = ([(_member_of(m, part), w) for m, w in some] for some in (trees, others))
            held_out = members[0]._held_out(data, part)  # type: ignore[attr-defined]
            seen, unseen = (data.select(np.flatnonzero(mask)) for mask in (~held_out, held_out))
            student = fit_student(seen, replaced, seed + 1, n_trees, math.inf)
            models: tuple[Terms, Terms] = ([*kept, (student, 1.0)], [*kept, *replaced])
            for part_values, model in zip(values, models, strict=True):
                scores = _weighted_sum(model, unseen)
                lists = (unseen.labels, unseen.offsets, unseen.document_ids, unseen.keys)
                part_values.append(context.metrics[0](scores, *lists))
    ours, theirs = (np.concatenate(parts or [np.empty(0)]) for parts in values)
    counted = ~np.isnan(ours)
    return Distillation(
        ranker,
        n_trees,
        float(ours[counted].mean()) if counted.any() else None,
        float(theirs[counted].mean()) if counted.any() else None,
        paired_p_value(ours, theirs) if counted.any() else None,
        int(counted.sum()),
        _latency([*trees, (ranker, 1.0)], data),
        _latency([*trees, *others], data),
    )


def is_sum_of_trees(ranker: Ranker) -> bool:
    """Whether a ranker can be written as one tree ensemble on the features as they are."""
    if isinstance(ranker, CrossFit):
        return ranker.transform_ is None and ranker.combine == "scale" and all(map(is_sum_of_trees, ranker.members_))
    return isinstance(ranker, (TreeRanker, EnsembleRanker)) and ranker.transform_ is None


Scorer = Callable[[Dataset], Scores]
Terms = Sequence[tuple[Ranker | Scorer, float]]
"""Terms of a weighted sum."""


def _weighted_sum(terms: Terms, lists: Dataset) -> Scores:
    total = np.zeros(lists.n_docs)
    for term, weight in terms:
        total += weight * (term.predict(lists) if isinstance(term, Ranker) else term(lists))
    return total


def _member_of(crossfit: Ranker, part: int) -> Scorer:
    """The member that did not learn from a part."""
    assert isinstance(crossfit, CrossFit)
    member, scale = crossfit.members_[part], float(crossfit.scales_[part])
    return lambda lists: member.predict(crossfit._prepare(lists)) / scale


def _make_lesson(data: Dataset, teachers: Terms, seed: int) -> Dataset:
    """The lists and perturbed copies of them, with the scores of the teachers as labels."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0x646973]))
    copies = min(math.ceil(_DOCUMENTS / data.n_docs) - 1, _MAX_COPIES)
    features = np.asarray(data.features if isinstance(data.features, np.ndarray) else data.features.toarray())
    parts = [features, *(_perturb(features, data.offsets, rng) for _ in range(copies))]
    n_lists, sizes = data.n_lists, np.diff(data.offsets)
    ids = np.repeat(np.arange(n_lists * (copies + 1)), np.tile(sizes, copies + 1))
    lesson = Dataset.from_arrays(np.concatenate(parts), None, ids, feature_names=data.feature_names, missing="nan")
    scores = _weighted_sum(teachers, lesson)
    return lesson.with_labels(scores - scores.min())


def _perturb(features: NDArray[np.float32], offsets: Offsets, rng: np.random.Generator) -> NDArray[np.float32]:
    """Replace some features of each document by those of another document of its list."""
    sizes = np.repeat(np.diff(offsets), np.diff(offsets))
    others = np.repeat(offsets[:-1], np.diff(offsets)) + (rng.random(len(features)) * sizes).astype(np.int64)
    replaced = rng.random(features.shape, dtype=np.float32) < _REPLACED
    return np.where(replaced, features[others], features)


def _latency(model: Terms, data: Dataset) -> float:
    """Milliseconds to score a list of the median length, the best of several times."""
    order = np.argsort(np.diff(data.offsets), kind="stable")
    lists = data.select(order[len(order) // 2 : len(order) // 2 + 1])
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        _weighted_sum(model, lists)
        times.append(time.perf_counter() - begin)
    return 1000 * min(times)
