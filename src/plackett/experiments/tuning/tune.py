"""Search for the settings of a model that are best on validation lists.

What a search found.
"""

from __future__ import annotations

import math
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from plackett.base.errors import UsageError
from plackett.data.dataset import Dataset
from plackett.data.folds import Fold
from plackett.distributed import Cluster, as_cluster
from plackett.experiments.plan import threads_per_trial
from plackett.experiments.protocols import DataSource, as_source
from plackett.experiments.tuning.plan import Pruner, SearchPlan, ValidationSplits, as_space
from plackett.experiments.tuning.study import need_optuna
from plackett.experiments.tuning.trial import SHARES, configured
from plackett.metrics import metric as as_metric
from plackett.models import recipe
from plackett.models.ranker import Progress, Ranker, no_progress
from plackett.models.recipes.search_spaces import Dimension, search_space_of, setting, with_settings

if TYPE_CHECKING:
    from plackett.experiments.tuning.study import Study


State = Literal["finished", "pruned", "failed"]
_STATES: dict[str, State] = {"COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "failed"}
_LEAST = 4  # finished trials before importance says anything


@dataclass(frozen=True)
class TrialResult:
    """One trial."""

    number: int
    """From 0, in the order in which trials were begun."""
    settings: Mapping[str, Any]
    value: float | None
    """Mean of the metric on validation lists; of a pruned trial what it had reached."""
    state: State
    seconds: float
    reason: str = ""
    """Why it failed."""


@dataclass(frozen=True, eq=False)
class TuneResult:
    """A search that is done."""

    plan: SearchPlan
    study: str
    """Its name in the store, for Optuna's own tools."""
    trials: tuple[TrialResult, ...]
    own: float
    """What the recipe's own settings give."""
    settings: Mapping[str, Any]
    """The best ones; empty where no trial was better than the recipe's own."""
    value: float
    """What they give: the mean over divisions of the metric on validation lists."""
    importance: Mapping[str, float]
    """By parameter, the most important first; sums to 1. Empty with too few trials."""
    ran: int
    """Trials that were run now; the others were in the store."""
    ranker: Ranker | None = None
    """The model with the best settings; None if it was not asked for."""

    @property
    def best(self) -> TrialResult | None:
        """The best trial; None where the recipe's own settings are best."""
        finished = [each for each in self.trials if each.state == "finished"]
        found = max(finished, key=lambda each: each.value or 0.0, default=None)
        return found if self.settings else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        counts = {state: sum(t.state == state for t in self.trials) for state in _STATES.values()}
        return {
            "recipe": self.plan.name,
            "metric": self.plan.judge,
            "study": self.study,
            "settings": dict(self.settings),
            "value": self.value,
            "recipe_value": self.own,
            "space": {name: str(each) for name, each in self.plan.space.items()},
            "importance": dict(self.importance),
            "trials": [vars(each) | {"settings": dict(each.settings)} for each in self.trials],
            "counts": counts,
            "ran": self.ran,
        }


def gather(study: Study, count: int, *, ran: int) -> TuneResult:
    """Read what a search found."""
    from plackett.experiments.tuning.study import reason_of

    tried = tuple(
        TrialResult(
            frozen.number,
            study.settings(frozen),
            frozen.value,
            _STATES[frozen.state.name],
            frozen.duration.total_seconds(),
            reason_of(frozen),
        )
        for frozen in study.trials()[:count]
    )
    own = study.own
    assert own is not None
    finished = [each for each in tried if each.state == "finished" and each.value is not None]
    # Of equal ones the earlier: a search that goes on changes its mind only for something better.
    best = max(finished, key=lambda each: (each.value, -each.number), default=None)
    if best is None and not math.isfinite(own):
        raise UsageError("no trial was brought to an end.")
    wins = best is not None and best.value is not None and best.value > own
    return TuneResult(
        study.plan,
        study.name,
        tried,
        own,
        best.settings if wins and best is not None else {},
        best.value if wins and best is not None and best.value is not None else own,
        _importance(study, finished),
        ran,
    )


def _importance(study: Study, finished: list[TrialResult]) -> dict[str, float]:
    """Share of each parameter in the differences between trials (PED-ANOVA, Watanabe 2023)."""
    from optuna.importance import get_param_importances

    if len(finished) < _LEAST or len({each.value for each in finished}) == 1:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of trials without a value, which we know of
        found: dict[str, float] = get_param_importances(study.optuna)
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def tune(
    data: Dataset | Fold | Sequence[Fold] | DataSource,
    model: str | Ranker,
    *,
    trials: int = 50,
    metric: str = "ndcg@10",
    validation: Dataset | None = None,
    folds: int | None = None,
    share: float = 0.2,
    space: Mapping[str, Dimension | str] | None = None,
    settings: Mapping[str, Any] | None = None,
    store: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    threads: int | None = None,
    pruner: Pruner = "median",
    seed: int = 0,
    refit: bool = True,
    progress: Progress = no_progress,
    cluster: Cluster | str | None = None,
) -> TuneResult:
    """Search for the settings of a model that are best on validation lists.

    Every trial is kept as soon as it is finished. Run again, whether this one was finished, killed
    or is still running elsewhere, a search does only what is missing. With one job, the same seed
    gives the same suggestions, interrupted or not.

    Parameters
    ----------
    data
        A data set; or one that comes in folds, whose test lists are not looked at.
    model
        Name of a recipe, or a ranker.
    trials
        Settings to try, beside the model's own.
    metric
        What to choose by: when to stop in each fit, and which settings are best. Several with
        commas count in their order within fits; the first compares settings.
    validation
        Lists to choose on, for data that come without such a part.
    folds
        Cut the data into so many parts and take the mean over them.
    share
        Of the lists, held out for validation where there is nothing else.
    space
        What to search besides the recipe's space, or in place of it
        (:func:`plackett.models.recipes.search_space`): dimensions, or their spelling such as
        ``"0.01..0.3:log"``.
    settings
        Parameters that are fixed; they are not searched.
    store
        File or URL for the trials; None: a temporary one.
    jobs
        Trials that run at the same time, each in a process of its own.
    threads
        Of each trial; by default all for one job, one each for several.
    pruner
        Which trials are given up early, by the validation metric on the way: those ``"median"``
        of the others at the same place, those that lose a bracket of ``"hyperband"``, or
        ``"none"``.
    seed
        Of suggestions, divisions and models.
    refit
        Fit a model with the best settings at the end.
    progress
        Called with what is being done, trials done and trials in all.
    cluster
        Run trials as tasks on Ray: ``"local:2"``, ``"auto"``, or a
        :class:`plackett.distributed.Cluster`, which then says how many there are at a time and the
        threads of each. The model with the best settings is fitted here.
    """
    need_optuna()
    source = _source(data, validation)
    plan = plan_search(
        model,
        metric=metric,
        space=space,
        settings=settings,
        divisions=ValidationSplits(folds, share, seed),
        pruner=pruner,
        seed=seed,
    )
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return run_search(
            plan,
            source,
            store=scratch / "tuning.db" if store is None else store,
            scratch=scratch,
            trials=trials,
            jobs=jobs,
            threads=threads,
            refit=refit,
            progress=progress,
            cluster=cluster,
        )


def plan_search(
    model: str | Ranker,
    *,
    metric: str = "ndcg@10",
    space: Mapping[str, Dimension | str] | None = None,
    settings: Mapping[str, Any] | None = None,
    preset: str | None = None,
    divisions: ValidationSplits | None = None,
    pruner: Pruner = "median",
    seed: int = 0,
) -> SearchPlan:
    """Check what was asked for; parameters as for :func:`tune`."""
    ranker = recipe(model, preset=preset) if isinstance(model, str) else model
    fixed = dict(settings or {})
    for name in fixed:
        setting(ranker, name)
    ranker = with_settings(ranker, fixed)
    both = sorted(set(fixed) & set(space or {}))
    if both:
        raise UsageError(f"{both[0]} is fixed and searched at once; choose one.")
    known = {name: each for name, each in search_space_of(ranker).items() if name not in fixed}
    by = ",".join(str(as_metric(each.strip())) for each in metric.split(","))
    return SearchPlan(
        ranker.recipe_name or type(ranker).__name__,
        ranker,
        as_space(ranker, known, space or {}),
        by,
        divisions or ValidationSplits(seed=seed),
        pruner,
        seed,
    )


def run_search(
    plan: SearchPlan,
    source: DataSource,
    *,
    store: str | os.PathLike[str],
    scratch: Path,
    trials: int,
    jobs: int = 1,
    threads: int | None = None,
    refit: bool = True,
    progress: Progress = no_progress,
    cluster: Cluster | str | None = None,
) -> TuneResult:
    """Run the trials that are missing, and fit the best settings; parameters as for :func:`tune`.

    ``scratch`` is a folder in which the data may be written for several processes to see.
    """
    need_optuna()
    from plackett.experiments.tuning.study import Study
    from plackett.experiments.tuning.trials import Work, work_in_parallel, work_on_cluster

    if trials < 1:
        raise UsageError(f"trials must be at least 1, got {trials}.")
    where = None if cluster is None else as_cluster(cluster)
    each = threads_per_trial(jobs, threads)
    n_looks = len(SHARES) * plan.divisions.count(source)
    with Study(store, plan, plan.identity(source), n_looks) as study:
        before = sum(t.state.is_finished() for t in study.trials()[:trials])
        if where is not None:
            ran = work_on_cluster(study, source, trials=trials, cluster=where, progress=progress)
        elif jobs == 1:
            work = Work(study, source, trials, each, progress)
            work.finish()
            ran = work.ran
        else:
            work_in_parallel(
                study,
                source,
                trials=trials,
                threads=each,
                jobs=jobs,
                scratch=scratch,
                progress=progress,
            )
            ran = trials - before
        found = gather(study, trials, ran=ran)
    if not refit:
        return found
    progress("fitting the best settings", trials, trials)
    return replace(found, ranker=_fitted(found, source, threads))


def _fitted(found: TuneResult, source: DataSource, threads: int | None) -> Ranker:
    """The model that is kept, which says where its settings come from."""
    plan = found.plan
    ranker = configured(plan, dict(found.settings), threads)
    train, validation = plan.divisions.last(source)
    ranker.fit(train, validation, plan.metric)
    assert ranker.training_ is not None
    ranker.training_ = ranker.training_ | {
        "tuning": {
            "study": found.study,
            "trials": len(found.trials),
            "metric": plan.judge,
            "value": found.value,
            "recipe_value": found.own,
            "divisions": plan.divisions.count(source),
            "settings": sorted(found.settings),
        }
    }
    return ranker


def _source(
    data: Dataset | Fold | Sequence[Fold] | DataSource, validation: Dataset | None
) -> DataSource:
    if validation is None:
        return as_source(data)
    if not isinstance(data, Dataset):
        raise UsageError("validation goes with one data set; folds come with their own.")
    return with_validation(data, validation)


def with_validation(train: Dataset, validation: Dataset, *, name: str = "data") -> DataSource:
    """Data with their validation lists.

    A fold has test lists, which tuning never reads: validation lists stand in their place.
    """
    return DataSource(name, folds=(Fold(name, train, validation, validation),))
