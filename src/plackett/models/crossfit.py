r"""Cross-fitting: many models on rotating parts of the lists, averaged into one.

The lists are cut into parts. Each member learns from all parts but one and is stopped on the one
it has not seen, so that every list serves both purposes. Members score on different scales: the
scores of member m are divided by

.. math:: \sigma_m = \sqrt{\frac{1}{\sum_q n_q} \sum_q \sum_{i \in q} (s_i - \bar s_q)^2},

its pooled standard deviation within the lists it has not seen. That is a constant, so the average
of linear members is linear and the average of tree members is a sum of trees.

Members of a cross-fit as Ray tasks, each fitted whole by one worker.

Members are independent of each other, so nothing passes between workers, every kind of ranker can
be a member (linear models and stumps too, which cannot be shared out), and each member is the one
that one process with as many threads would fit, to the bit. The other way, all workers at one
member after the other, would shorten the longest wait where there are more workers than members;
but trees would then be LightGBM's data-parallel ones, nets would differ by the order of sums, and
every step would wait for the network.

What each machine needs is room for the data and for as many members as it has workers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import Offsets, Scores
from plackett.base.random import combine
from plackett.data.dataset import Dataset
from plackett.data.folds import concat, group_codes
from plackett.distributed import ClusterError
from plackett.metrics import Metric
from plackett.models.artifact.manifest import module_inside
from plackett.models.checkpoint import Checkpoint
from plackett.models.ranker import FitContext, Progress, Ranker, split_nested

if TYPE_CHECKING:
    from typing_extensions import Self

    from plackett.distributed import TaskContext


Fitted = tuple[Ranker, float]
"""A member and its scale."""
Common = tuple["CrossFit", Dataset, tuple[Metric, ...]]


def fitted_together(crossfit: CrossFit, data: Dataset, run: FitContext) -> list[Fitted]:
    """All members in their order, those of the checkpoint as they are, the others by workers.

    A member whose worker dies is begun again. Each is in the checkpoint as soon as it is finished.
    """
    found: dict[int, Fitted] = {}
    for i in range(crossfit._count):
        kept = crossfit._kept(i, data, run.checkpoint)
        if kept is not None:
            found[i] = kept
    missing = [i for i in range(crossfit._count) if i not in found]
    if missing:
        _fit_missing(crossfit, data, run, missing, found)
    return [found[i] for i in range(crossfit._count)]


def _fit_missing(
    crossfit: CrossFit,
    data: Dataset,
    run: FitContext,
    missing: Sequence[int],
    found: dict[int, Fitted],
) -> None:
    from plackett.distributed import TaskPool

    assert run.cluster is not None
    assert crossfit.ranker is not None
    sent = crossfit.clone().set_params(ranker=with_threads(crossfit.ranker, run.cluster.threads))

    def report() -> None:
        run.progress(f"members on {location}", len(found), crossfit._count)

    location = run.cluster.location
    with TaskPool(run.cluster, fit_member, (sent, data, run.metrics)) as pool:
        for event in pool.map({i: i for i in missing}, on_poll=report):
            if event.kind == "failed":
                raise _failure(event.number, event.content)
            member, scale = event.content
            found[event.number] = _as_asked(member, crossfit.ranker), scale
            crossfit._keep(event.number, member, run.checkpoint)
    report()


def fit_member(common: Common, i: int, context: TaskContext) -> Fitted:
    """What a task does: one member."""
    crossfit, data, metrics = common
    return crossfit._fit_member(i, data, metrics, None, context)


def with_threads(ranker: Ranker, threads: int | None) -> Ranker:
    """A ranker like this one, not fitted, that uses so many threads, as what is inside it does."""
    copy = ranker.clone()
    inner: dict[str, Any] = {
        name: with_threads(value, threads)
        for name, value in copy.get_params().items()
        if isinstance(value, Ranker)
    }
    own = {"threads": threads} if "threads" in copy.get_params() else {}
    return copy.set_params(**own, **inner)


def _as_asked(member: Ranker, ranker: Ranker) -> Ranker:
    """A member with the threads that were asked for; while it was fitted, the cluster said them."""
    changed = {
        name: value
        for name, value in ranker.get_params().items()
        if name == "threads" or isinstance(value, Ranker)
    }
    return member.set_params(**changed)


def _failure(i: int, error: Exception) -> Exception:
    if not isinstance(error, ClusterError):
        return error
    return ClusterError(
        f"member {i + 1}: {error}. Finished members are in the checkpoint, if there is one."
    )


_FILE = "crossfit.json"
_LEAST = 1e-100  # of a scale: dividing by less would make scores infinite


@dataclass
class CrossFit(Ranker):
    """The average of members fitted on rotating parts of the data.

    With validation data, members rotate over the training and the validation lists together: the
    result has then seen both, which tables should say.

    On a cluster each member is fitted whole by one worker
    (:mod:`plackett.models.crossfit`): the model is that of one process, to the bit.

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
    supports_cluster: ClassVar[bool] = True

    ranker: Ranker | None = None
    folds: int = 5
    repeats: int = 1
    combine: Literal["scale", "list"] = "scale"
    seed: int = 0
    transforms: tuple[str, ...] = ()

    def _fit(self, train: Dataset, validation: Dataset | None, run: FitContext) -> None:
        self._check()
        data = train if validation is None else concat([train, validation])
        count = int(group_codes(data).max()) + 1
        if count < self.folds:
            what = "lists" if data.groups is None else "groups of lists"
            raise DataError(f"{count} {what} cannot be cut into {self.folds} parts.")
        fitted = (
            [self._fitted(i, data, run) for i in range(self._count)]
            if run.cluster is None
            else fitted_together(self, data, run)
        )
        self.members_: tuple[Ranker, ...] = tuple(member for member, _ in fitted)
        self.scales_: NDArray[np.float64] = np.array([scale for _, scale in fitted])
        """What the scores of each member are divided by."""

    def _predict(self, data: Dataset) -> Scores:
        total = np.zeros(data.n_docs)
        for member, scale in zip(self.members_, self.scales_, strict=True):
            scores = member.predict(data)
            total += (
                scores / scale if self.combine == "scale" else standardize(scores, data.offsets)
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
        """The part of each list: parts differ in size by one list, or group of lists, at most."""
        base = np.uint64(combine(np.uint64(self.seed % 2**64), np.uint64(repeat)))
        drawn = np.array([combine(base, key) for key in data.keys], dtype=np.uint64)
        codes = group_codes(data)
        least = np.full(codes.max() + 1, np.iinfo(np.uint64).max)
        np.minimum.at(least, codes, drawn)
        part = np.empty(len(least), np.int64)
        part[np.argsort(least, kind="stable")] = np.arange(len(least)) % self.folds
        return part[codes]

    @property
    def _count(self) -> int:
        """Number of members."""
        return self.folds * self.repeats

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name; ``ranker__leaves`` is the parameter ``leaves`` of the ranker.

        The ranker that was given is left as it is: members are made like a changed copy of it.
        """
        own, inner = split_nested(parameters)
        super().set_params(**own)
        for name, given in inner.items():
            ranker = self.get_params().get(name)
            if not isinstance(ranker, Ranker):
                raise UsageError(
                    f"CrossFit's {name!r} holds no ranker whose {next(iter(given))!r} could be "
                    "set; a parameter of its ranker is written ranker__leaves=31."
                )
            setattr(self, name, ranker.clone().set_params(**given))
        return self

    def _fit_member(
        self,
        i: int,
        data: Dataset,
        metrics: tuple[Metric, ...],
        checkpoint: Path | None,
        progress: Progress,
    ) -> Fitted:
        """Fit a member on all lists but those it is stopped on."""
        assert self.ranker is not None
        member = self.ranker.clone()
        if "seed" in member.get_params():
            member.set_params(seed=member.get_params()["seed"] + i)
        mask = self._held_out(data, i)
        rest, held_out = (data.select(np.flatnonzero(each)) for each in (~mask, mask))
        member.fit(rest, held_out, metrics, checkpoint, progress=progress)
        return member, pooled_deviation(member.predict(held_out), held_out.offsets)

    def _kept(self, i: int, data: Dataset, checkpoint: Checkpoint | None) -> Fitted | None:
        """A member that was finished before, from the checkpoint; None if it has it not."""
        from plackett.models.artifact.load import load

        if checkpoint is None or not (checkpoint.folder / f"member-{i}").is_dir():
            return None
        module = module_inside(self.ranker)
        member = load(checkpoint.folder / f"member-{i}", module=module)
        held_out = data.select(np.flatnonzero(self._held_out(data, i)))
        return member, pooled_deviation(member.predict(held_out), held_out.offsets)

    def _keep(self, i: int, member: Ranker, checkpoint: Checkpoint | None) -> None:
        """Put a finished member into the checkpoint, if there is one."""
        if checkpoint is not None:
            member.save(checkpoint.folder / f"member-{i}")

    def _fitted(self, i: int, data: Dataset, run: FitContext) -> Fitted:
        """Fit a member here, or take it from the checkpoint where it was finished before."""
        found = self._kept(i, data, run.checkpoint)
        if found is None:
            state = None if run.checkpoint is None else run.checkpoint.folder / f"fit-{i}"
            progress = _of_member(run.progress, i, self._count)
            found = self._fit_member(i, data, run.metrics, state, progress)
            self._keep(i, found[0], run.checkpoint)
        return found

    def _held_out(self, data: Dataset, i: int) -> NDArray[np.bool_]:
        """Which lists a member does not learn from, and is stopped on."""
        return np.asarray(self._part_of(data, i // self.folds) == i % self.folds)

    def _write(self, folder: Path) -> None:
        for i, member in enumerate(self.members_):
            member.save(folder / f"member-{i}")
        (folder / _FILE).write_text(json.dumps({"scales": self.scales_.tolist()}))

    def _read(self, folder: Path) -> None:
        from plackett.models.artifact.load import load

        path = folder / _FILE
        try:
            scales = np.array(json.loads(path.read_text())["scales"], dtype=np.float64)
        except (OSError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
            raise DataError("holds no scales of members", path=str(path)) from error
        count = self._count
        if scales.shape != (count,) or not np.all(np.isfinite(scales) & (scales >= _LEAST)):
            raise DataError(f"must hold {count} positive numbers", path=str(path))
        self.scales_ = scales
        module = module_inside(self.ranker)
        self.members_ = tuple(load(folder / f"member-{i}", module=module) for i in range(count))
        for member in self.members_:
            if member.n_features_ != self.n_features_:
                raise DataError("members differ in their number of features", path=str(folder))


def pooled_deviation(scores: Scores, offsets: Offsets) -> float:
    """Pooled standard deviation within lists; 1 where all scores of every list are equal."""
    centred = scores - np.repeat(_means(scores, offsets), np.diff(offsets))
    deviation = float(np.sqrt(np.mean(centred**2)))
    return deviation if deviation >= _LEAST else 1.0


def standardize(scores: Scores, offsets: Offsets) -> Scores:
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
