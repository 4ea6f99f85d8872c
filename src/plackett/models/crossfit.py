r"""Cross-fitting: many models on rotating parts of the lists, averaged into one.

By default, each member learns from all parts but one and uses that one for early stopping, so that every list serves
both purposes; with ``stop_on="next"`` it learns from all parts but two, and stops on one of them. Members score on
different scales: the scores of member m are divided by

.. math:: \sigma_m = \sqrt{\frac{1}{\sum_q n_q} \sum_q \sum_{i \in q} (s_i - \bar s_q)^2},

its pooled standard deviation within the held-out lists. That is a constant, so the average of linear members is linear
and the average of tree members is a sum of trees.

On a cluster, and with ``jobs`` in processes of this machine, each member is one task with the whole data. The member
is identical, to the bit, to the one that a single process with as many threads would fit.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import Offsets, Scores
from plackett.base.random import mix_keys
from plackett.data import Dataset, concat, group_codes
from plackett.distributed import ClusterError
from plackett.distributed.local_pool import LocalPool, open_shared
from plackett.metrics import Metric
from plackett.models.artifact import find_user_module
from plackett.models.fit_context import Callback, Curves, FitContext, Progress, WholeData, no_progress
from plackett.models.insight import Method, shares
from plackett.models.parameters import accept_aliases, split_nested
from plackett.models.ranker import Ranker

if TYPE_CHECKING:
    from typing_extensions import Self

    from plackett.distributed import TaskContext


KEPT_MEMBERS = "Finished members are in the checkpoint, if there is one."
"""What is kept if a process that fits a member dies."""
_FILE = "crossfit.json"
_MIN_SCALE = 1e-100  # dividing by less would make scores infinite
_POLL_SECONDS = 0.2  # between reports while processes work

Member = tuple[Ranker, float]
"""A fitted ranker and its scale."""


@accept_aliases
@dataclass(eq=False)
class CrossFit(Ranker):
    """The average of members fitted on rotating parts of the data.

    With validation data, members rotate over the training and the validation lists together. The
    model has then seen both, which result tables should state.

    On a cluster each member is fitted by one worker; the model is identical, to the bit, to that of one process.

    Parameters
    ----------
    ranker
        The ranker that each member is a copy of; it need not be fitted.
    folds
        Number of parts, and of members per repeat.
    repeats
        Number of times the lists are divided into parts, each time differently.
    combine
        ``"scale"`` divides a member's scores by one number. ``"list"`` standardizes them to mean 0 and deviation 1 in
        each list; such a model cannot be exported, because a search engine scores one document at a time.
    seed
        Seed of the parts; members use the ranker's seed plus their number.
    stop_on
        The part on which a member stops early: ``"held-out"``, the part that it does not learn
        from, or ``"next"``, the part after it. Members then learn from ``folds - 2`` parts, and
        out-of-fold scores are those of lists that a member has never seen.
    jobs
        Number of members that are fitted at the same time, each in a process with its share of the threads.

    Examples
    --------
    >>> import plackett as pk
    >>> data = pk.synthetic("letor", n_lists=20)
    >>> ranker = pk.CrossFit(pk.LinearRanker("listnet", C=1.0), folds=2).fit(data)
    >>> len(ranker.members_)
    2
    """

    takes_missing: ClassVar[bool] = True
    takes_categories: ClassVar[bool] = True
    supports_cluster: ClassVar[bool] = True
    supports_init: ClassVar[bool] = False
    takes_added_features: ClassVar[bool] = True
    not_identity: ClassVar[tuple[str, ...]] = ("jobs",)
    minimums: ClassVar[Mapping[str, int]] = {"jobs": 1}

    ranker: Ranker | None = None
    folds: int = 5
    repeats: int = 1
    combine: Literal["scale", "list"] = "scale"
    seed: int = 0
    transforms: tuple[str, ...] = ()
    stop_on: Literal["held-out", "next"] = "held-out"
    jobs: int = 1

    processes: ClassVar[LocalPool | None] = None
    """Processes to use instead of new ones, set by code that fits many cross-fits to the same data."""

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name; ``ranker__leaves`` is the parameter ``leaves`` of the ranker.

        The given ranker itself is not changed: members are copies of a changed copy.
        """
        outer, inner = split_nested(parameters)
        super().set_params(**outer)
        for name, settings in inner.items():
            ranker = self.get_params().get(name)
            if not isinstance(ranker, Ranker):
                raise UsageError(
                    f"CrossFit's {name!r} is not a ranker, so its {next(iter(settings))!r} cannot be "
                    "set; write a parameter of its ranker as ranker__leaves=31."
                )
            setattr(self, name, ranker.clone().set_params(**settings))
        return self

    def _fit(self, train: Dataset, validation: Dataset | None, context: FitContext) -> None:
        if not isinstance(self.ranker, Ranker):
            raise UsageError('CrossFit needs a ranker, for example CrossFit(plackett.recipe("xendcg-mart")).')
        if self.folds < 2 or self.repeats < 1:
            raise UsageError(f"CrossFit needs folds >= 2 and repeats >= 1, got {self.folds} and {self.repeats}.")
        if self.stop_on == "next" and self.folds < 3:
            raise UsageError(f'stop_on="next" needs folds >= 3, got {self.folds}.')
        data = train if validation is None else concat([train, validation])
        n_groups = int(group_codes(data).max()) + 1
        if n_groups < self.folds:
            what = "lists" if data.groups is None else "groups of lists"
            raise DataError(f"{n_groups} {what} cannot be cut into {self.folds} parts.")
        fit = _Fit(self, data, context)
        if context.cluster is not None:
            members = fit.run_distributed()
        elif self.processes is not None or self.jobs > 1:
            members = fit.run_in_processes()
        else:
            members = fit.run()
        self.members_: tuple[Ranker, ...] = tuple(ranker for ranker, _ in members)
        self.scales_: NDArray[np.float64] = np.array([scale for _, scale in members])
        """What the scores of each member are divided by."""

    def _prepare_fit(
        self, train: Dataset, validation: Dataset | None, init: Ranker | None = None
    ) -> tuple[Dataset, Dataset | None]:
        if self.transforms:
            return super()._prepare_fit(train, validation, init)
        self.n_features_, self.feature_names_ = train.n_features, train.feature_names
        self.categories_ = train.categories
        if validation is not None:
            validation = self._number_categories(validation)
        self.transform_ = None
        return train, validation  # members put them in canonical order themselves

    def _score(self, data: Dataset) -> Scores:
        if self.transform_ is not None:
            return super()._score(data)
        self._check_features(data)
        return self._predict(self._number_categories(data))

    def _predict(self, data: Dataset) -> Scores:
        together = self.members_[0]._score_copies(self.members_, data) if self.combine == "scale" else None
        if together is not None:
            return (together / self.scales_[:, None]).mean(axis=0)
        total = np.zeros(data.n_docs)
        for i in range(len(self.members_)):
            total += self._scores_of(i, data)
        return total / len(self.members_)

    def _scores_of(self, i: int, data: Dataset) -> Scores:
        """The scores of a member, on the scale that all members share."""
        scores = self.members_[i].predict(data)
        if self.combine == "scale":
            return scores / self.scales_[i]
        order = data.order
        return order.restore(standardize(order.sort(scores), order.offsets))

    def out_of_fold(self, data: Dataset) -> Scores:
        """Scores of the lists of the fit, each by members that did not learn from it.

        Parameters
        ----------
        data
            All lists of the fit: training and validation lists together.
        """
        # Transforms of whole lists take them in canonical order; without one, features are not copied.
        is_ordered = self.transform_ is not None
        prepared = self._prepare(data.canonical() if is_ordered else data)
        total = np.zeros(data.n_docs)
        for i in range(len(self.members_)):
            mask = self._held_out(prepared, i)
            total[mask[prepared.list_of_row]] += self._scores_of(i, prepared.select(np.flatnonzero(mask)))
        total /= self.repeats
        return data.order.restore(total) if is_ordered else total

    @property
    def _importance_kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        kinds = [set(member._importance_kinds) for member in self.members_]
        common = set.intersection(*kinds)
        return tuple(kind for kind in self.members_[0]._importance_kinds if kind in common)

    def _importance(self, kind: str) -> NDArray[np.float64]:
        values = np.mean([shares(np.asarray(m._importance(kind))) for m in self.members_], axis=0)
        if self.transform_ is None:
            return np.asarray(values)
        # Importances of added features go to their source feature; the last position is for those without one.
        total = np.zeros(self._require_fitted() + 1)
        np.add.at(total, list(self.transform_.source(len(total) - 1)), values)
        return total[:-1]

    @property
    def _explained_by(self) -> Method:  # type: ignore[override]
        methods = {member._explained_by for member in self.members_}
        adds_up = self.combine == "scale" and self.transform_ is None
        return methods.pop() if adds_up and len(methods) == 1 else "replacement"

    def _contributions(self, features: Any, offsets: Offsets) -> tuple[float, NDArray[np.float64]]:
        parts = [member._contributions(features, offsets) for member in self.members_]
        pairs = list(zip(parts, self.scales_, strict=True))
        base = sum(base / scale for (base, _), scale in pairs) / len(pairs)
        return float(base), sum(values / scale for (_, values), scale in pairs) / len(pairs)

    @property
    def curves_(self) -> Curves:  # type: ignore[override]
        """The curves of the members, each on the lists on which it stops early."""
        return {
            f"member {i + 1}": dict(member.curves_["validation"])
            for i, member in enumerate(self.members_)
            if "validation" in member.curves_
        }

    @property
    def _n_members(self) -> int:
        return self.folds * self.repeats

    def _held_out(self, data: Dataset, i: int) -> NDArray[np.bool_]:
        """A mask of the lists that a member does not learn from."""
        return np.asarray(self._part_of(data, i // self.folds) == i % self.folds)

    def _part_of(self, data: Dataset, repeat: int) -> NDArray[np.int64]:
        """The part of each list; sizes of parts differ by at most one list, or one group of lists."""
        draws = mix_keys(data.keys, np.uint64(self.seed % 2**64), np.uint64(repeat))
        codes = group_codes(data)
        smallest = np.full(codes.max() + 1, np.iinfo(np.uint64).max)
        np.minimum.at(smallest, codes, draws)
        part = np.empty(len(smallest), np.int64)
        part[np.argsort(smallest, kind="stable")] = np.arange(len(smallest)) % self.folds
        return part[codes]

    def _fit_member(
        self,
        i: int,
        data: Dataset,
        metrics: tuple[Metric, ...],
        checkpoint: Path | None,
        progress: Progress,
        callbacks: tuple[Callback, ...] = (),
    ) -> Member:
        """Fit a member on all lists but the held-out ones and those on which it stops early."""
        assert self.ranker is not None
        member = self.ranker.clone()
        if "seed" in member.get_params():
            member.set_params(seed=member.get_params()["seed"] + i)
        held = stopping = self._held_out(data, i)
        if self.stop_on == "next":
            stopping = np.asarray(self._part_of(data, i // self.folds) == (i + 1) % self.folds)
        masks = {"train": ~(held | stopping), "validation": stopping, "held out": held}
        train, stopping_lists, held_out = (data.select(np.flatnonzero(mask)) for mask in masks.values())
        member.whole = WholeData(data, masks)
        member.fit(train, stopping_lists, metrics, checkpoint, progress=progress, callbacks=callbacks)
        del member.whole
        return member, _scale_on(member, held_out)

    def _write(self, folder: Path) -> None:
        for i, member in enumerate(self.members_):
            member.save(folder / f"member-{i}")
        (folder / _FILE).write_text(json.dumps({"scales": self.scales_.tolist()}))

    def _read(self, folder: Path) -> None:
        from plackett.models.load import load

        path = folder / _FILE
        try:
            scales = np.array(json.loads(path.read_text())["scales"], dtype=np.float64)
        except (OSError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
            raise DataError("holds no scales of members", path=str(path)) from error
        count = self._n_members
        if scales.shape != (count,) or not np.all(np.isfinite(scales) & (scales >= _MIN_SCALE)):
            raise DataError(f"must hold {count} positive numbers", path=str(path))
        self.scales_ = scales
        module = find_user_module(self.ranker)
        self.members_ = tuple(load(folder / f"member-{i}", module=module) for i in range(count))
        width = self._require_fitted()
        if self.transform_ is not None:
            width = self.transform_.width(width)
        for member in self.members_:
            if member.n_features_ != width:
                raise DataError("members differ in their number of features", path=str(folder))


@dataclass
class _Fit:
    """One fit of a CrossFit; finished members are in its checkpoint."""

    crossfit: CrossFit
    data: Dataset
    context: FitContext

    def run(self) -> list[Member]:
        """Fit the members in this process, one after the other."""
        crossfit, context = self.crossfit, self.context
        count = crossfit._n_members

        def report(i: int, text: str, done: int, steps: int) -> None:
            context.progress(f"member {i + 1} of {count}: {text}", i * steps + done, count * steps)

        members = []
        for i in range(count):
            member = self._load(i)
            if member is None:
                checkpoint = context.checkpoint
                state = None if checkpoint is None else checkpoint.folder / f"fit-{i}"
                options = (context.metrics, state, partial(report, i), context.callbacks)
                member = crossfit._fit_member(i, self.data, *options)
                self._save(i, member[0])
            members.append(member)
        return members

    def run_in_processes(self) -> list[Member]:
        """Fit the members in processes of this machine."""
        crossfit, context = self.crossfit, self.context
        ranker, count = crossfit.ranker, crossfit._n_members
        assert ranker is not None
        if context.callbacks:
            raise UsageError("callbacks are not called in other processes; fit with jobs=1.")
        members = self._load_all()
        missing = [i for i in range(count) if i not in members]
        with ExitStack() as stack:
            pool = crossfit.processes
            if pool is None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plackett-")))
                threads = ranker.get_params().get("threads") or os.cpu_count() or 1
                jobs = min(crossfit.jobs, max(len(missing), 1))
                pool = stack.enter_context(
                    LocalPool(jobs, threads=max(threads // jobs, 1), folder=folder, kept=KEPT_MEMBERS)
                )
            copy = crossfit.clone().set_params(ranker=with_threads(ranker, pool.threads))
            running: dict[Future[Member], int] = {}
            try:
                while missing or running:
                    while missing and len(running) < pool.slots:
                        i = missing.pop(0)
                        call = (fit_in_process, copy, pool.share(self.data), context.metrics, i)
                        running[pool.submit(f"member {i + 1}", *call)] = i
                    context.progress(f"{len(members)} of {count} members", len(members), count)
                    for future in wait(running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED).done:
                        i = running.pop(future)
                        members[i] = self._keep(i, *future.result())
            except BaseException:
                pool.cancel()
                raise
        context.progress(f"{count} of {count} members", count, count)
        return [members[i] for i in range(count)]

    def run_distributed(self) -> list[Member]:
        """Fit the members as tasks on the cluster; a member whose worker dies is retried."""
        from plackett.distributed import TaskPool

        crossfit, context = self.crossfit, self.context
        cluster, ranker, count = context.cluster, crossfit.ranker, crossfit._n_members
        assert cluster is not None
        assert ranker is not None
        members = self._load_all()

        def report() -> None:
            context.progress(f"members on {cluster.location}", len(members), count)

        missing = {i: i for i in range(count) if i not in members}
        if missing:
            copy = crossfit.clone().set_params(ranker=with_threads(ranker, cluster.threads))
            with TaskPool(cluster, fit_member, (copy, self.data, context.metrics)) as pool:
                for event in pool.map(missing, on_poll=report):
                    if event.kind == "failed":
                        error = event.content
                        if isinstance(error, ClusterError):
                            error = ClusterError(f"member {event.number + 1}: {error}. {KEPT_MEMBERS}")
                        raise error
                    members[event.number] = self._keep(event.number, *event.content)
            report()
        return [members[i] for i in range(count)]

    def _load_all(self) -> dict[int, Member]:
        """The finished members."""
        loaded = {i: self._load(i) for i in range(self.crossfit._n_members)}
        return {i: member for i, member in loaded.items() if member is not None}

    def _load(self, i: int) -> Member | None:
        """A member that the checkpoint holds; None if it is not finished."""
        from plackett.models.load import load

        checkpoint = self.context.checkpoint
        if checkpoint is None or not (checkpoint.folder / f"member-{i}").is_dir():
            return None
        module = find_user_module(self.crossfit.ranker)
        member = load(checkpoint.folder / f"member-{i}", module=module)
        held_out = self.data.select(np.flatnonzero(self.crossfit._held_out(self.data, i)))
        return member, _scale_on(member, held_out)

    def _keep(self, i: int, member: Ranker, scale: float) -> Member:
        """Save a member that another process fitted, after restoring the ranker's own number of threads."""
        assert self.crossfit.ranker is not None
        params = self.crossfit.ranker.get_params()
        member.set_params(**{k: v for k, v in params.items() if k == "threads" or isinstance(v, Ranker)})
        self._save(i, member)
        return member, scale

    def _save(self, i: int, member: Ranker) -> None:
        if self.context.checkpoint is not None:
            member.save(self.context.checkpoint.folder / f"member-{i}")


def fit_in_process(crossfit: CrossFit, path: Path, metrics: tuple[Metric, ...], i: int) -> Member:
    """The task of a process: fit one member."""
    return crossfit._fit_member(i, _open_once(path), metrics, None, no_progress)


_open_once = lru_cache(maxsize=1)(open_shared)


def fit_member(common: tuple[CrossFit, Dataset, tuple[Metric, ...]], i: int, context: TaskContext) -> Member:
    """The task of a worker: fit one member."""
    crossfit, data, metrics = common
    return crossfit._fit_member(i, data, metrics, None, context)


def with_threads(ranker: Ranker, threads: int | None) -> Ranker:
    """An unfitted copy that uses this many threads, also in the rankers inside it; None: as many as they have."""
    copy = ranker.clone()
    changes: dict[str, Any] = {
        name: with_threads(value, threads) for name, value in copy.get_params().items() if isinstance(value, Ranker)
    }
    if threads is not None and "threads" in copy.get_params():
        changes["threads"] = threads
    return copy.set_params(**changes)


def _scale_on(member: Ranker, held_out: Dataset) -> float:
    order = held_out.order
    return pooled_deviation(order.sort(member.predict(held_out)), order.offsets)


def pooled_deviation(scores: Scores, offsets: Offsets) -> float:
    """Pooled standard deviation within lists; 1 where the scores of every list are equal."""
    centered = scores - np.repeat(_means(scores, offsets), np.diff(offsets))
    deviation = float(np.sqrt(np.mean(centered**2)))
    return deviation if deviation >= _MIN_SCALE else 1.0


def standardize(scores: Scores, offsets: Offsets) -> Scores:
    """Bring each list to mean 0 and standard deviation 1; a list of equal scores to 0."""
    sizes = np.diff(offsets)
    centered = scores - np.repeat(_means(scores, offsets), sizes)
    deviation = np.repeat(np.sqrt(_means(centered**2, offsets)), sizes)
    return np.divide(centered, deviation, out=np.zeros_like(centered), where=deviation > 0)


def _means(values: Scores, offsets: Offsets) -> Scores:
    return np.asarray(np.add.reduceat(values, offsets[:-1]) / np.diff(offsets))
