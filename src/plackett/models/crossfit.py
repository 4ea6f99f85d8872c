r"""Cross-fitting: many models on rotating parts of the lists, averaged into one.

The lists are cut into parts. Each member learns from all parts but one and is stopped on the one
it has not seen, so that every list serves both purposes. Members score on different scales: the
scores of member m are divided by

.. math:: \sigma_m = \sqrt{\frac{1}{\sum_q n_q} \sum_q \sum_{i \in q} (s_i - \bar s_q)^2},

its pooled standard deviation within the lists it has not seen. That is a constant, so the average
of linear members is linear and the average of tree members is a sum of trees.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.mixing import combine
from plackett.base.types import Offsets, Scores
from plackett.data.dataset import Dataset
from plackett.data.joining import concat
from plackett.models.ranker import Ranker
from plackett.models.run import Progress, Run

_FILE = "crossfit.json"
_LEAST = 1e-100  # of a scale: dividing by less would make scores infinite


@dataclass
class CrossFit(Ranker):
    """The average of members fitted on rotating parts of the data.

    With validation data, members rotate over the training and the validation lists together: the
    result has then seen both, which tables should say.

    Parameters
    ----------
    ranker
        What each member is: a ranker that need not be fitted.
    folds
        Number of parts, and of members in each round.
    repeats
        Number of rounds, each with parts of its own.
    combine
        ``"scale"`` divides a member's scores by one number; ``"list"`` brings them to mean 0 and
        standard deviation 1 in each list, which no search engine can do to one document.
    seed
        Of the parts; members get the ranker's seed plus their number.
    """

    takes_missing: ClassVar[bool] = True

    ranker: Ranker | None = None
    folds: int = 5
    repeats: int = 1
    combine: Literal["scale", "list"] = "scale"
    seed: int = 0
    transforms: tuple[str, ...] = ()

    def _fit(self, train: Dataset, validation: Dataset | None, run: Run) -> None:
        self._check()
        data = train if validation is None else concat([train, validation])
        if data.n_lists < self.folds:
            raise DataError(f"{data.n_lists} lists cannot be cut into {self.folds} parts.")
        members, scales = [], []
        for i in range(self.folds * self.repeats):
            part = self._part_of(data, i // self.folds)
            held_out = data.select(np.flatnonzero(part == i % self.folds))
            rest = data.select(np.flatnonzero(part != i % self.folds))
            members.append(self._member(i, rest, held_out, run))
            scales.append(spread(members[-1].predict(held_out), held_out.offsets))
        self.members_: tuple[Ranker, ...] = tuple(members)
        self.scales_: NDArray[np.float64] = np.array(scales)
        """What the scores of each member are divided by."""

    def _predict(self, data: Dataset) -> Scores:
        total = np.zeros(data.n_docs)
        for member, scale in zip(self.members_, self.scales_, strict=True):
            scores = member.predict(data)
            total += (
                scores / scale if self.combine == "scale" else standardised(scores, data.offsets)
            )
        return total / len(self.members_)

    def _check(self) -> None:
        if not isinstance(self.ranker, Ranker):
            raise UsageError(
                'CrossFit needs a ranker, for example CrossFit(plackett.recipe("xendcg-mart")).'
            )
        if self.folds < 2 or self.repeats < 1:
            raise UsageError(
                f"CrossFit needs folds >= 2 and repeats >= 1, got {self.folds} and {self.repeats}."
            )

    def _part_of(self, data: Dataset, repeat: int) -> NDArray[np.int64]:
        """The part of each list: parts differ in size by one list at most."""
        base = np.uint64(combine(np.uint64(self.seed % 2**64), np.uint64(repeat)))
        drawn = np.array([combine(base, key) for key in data.keys], dtype=np.uint64)
        part = np.empty(data.n_lists, np.int64)
        part[np.argsort(drawn, kind="stable")] = np.arange(data.n_lists) % self.folds
        return part

    def _member(self, i: int, rest: Dataset, held_out: Dataset, run: Run) -> Ranker:
        """Fit a member, or take it from the checkpoint where it was finished before."""
        from plackett.models.artifact.loading import load

        assert self.ranker is not None
        total = self.folds * self.repeats
        store = None if run.checkpoint is None else run.checkpoint.folder
        if store is not None and (store / f"member-{i}").is_dir():
            return load(store / f"member-{i}")
        member = self.ranker.clone()
        if "seed" in member.get_params():
            member.set_params(seed=member.get_params()["seed"] + i)
        member.fit(
            rest,
            held_out,
            run.metrics,
            None if store is None else store / f"fit-{i}",
            progress=_of_member(run.progress, i, total),
        )
        if store is not None:
            member.save(store / f"member-{i}")
        return member

    def _write(self, folder: Path) -> None:
        for i, member in enumerate(self.members_):
            member.save(folder / f"member-{i}")
        (folder / _FILE).write_text(json.dumps({"scales": self.scales_.tolist()}))

    def _read(self, folder: Path) -> None:
        from plackett.models.artifact.loading import load

        path = folder / _FILE
        try:
            scales = np.array(json.loads(path.read_text())["scales"], dtype=np.float64)
        except (OSError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
            raise DataError("holds no scales of members", path=str(path)) from error
        count = self.folds * self.repeats
        if scales.shape != (count,) or not np.all(np.isfinite(scales) & (scales >= _LEAST)):
            raise DataError(f"must hold {count} positive numbers", path=str(path))
        self.scales_ = scales
        self.members_ = tuple(load(folder / f"member-{i}") for i in range(count))
        for member in self.members_:
            if member.n_features_ != self.n_features_:
                raise DataError("members differ in their number of features", path=str(folder))


def spread(scores: Scores, offsets: Offsets) -> float:
    """Pooled standard deviation within lists; 1 where all scores of every list are equal."""
    centred = scores - np.repeat(_means(scores, offsets), np.diff(offsets))
    deviation = float(np.sqrt(np.mean(centred**2)))
    return deviation if deviation >= _LEAST else 1.0


def standardised(scores: Scores, offsets: Offsets) -> Scores:
    """Each list brought to mean 0 and standard deviation 1; a list of equal scores to 0."""
    sizes = np.diff(offsets)
    centred = scores - np.repeat(_means(scores, offsets), sizes)
    deviation = np.repeat(np.sqrt(_means(centred**2, offsets)), sizes)
    return np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 0)


def _means(values: Scores, offsets: Offsets) -> Scores:
    return np.asarray(np.add.reduceat(values, offsets[:-1]) / np.diff(offsets))


def _of_member(progress: Progress, i: int, total: int) -> Progress:
    """Report the steps of one member as a share of all."""

    def report(text: str, done: int, steps: int) -> None:
        progress(f"member {i + 1} of {total}: {text}", i * steps + done, total * steps)

    return report
