"""Search for the settings of a model that are best on validation lists."""

from __future__ import annotations

import math
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from plackett.base.errors import UsageError, rename_deprecated, require, warn_renamed
from plackett.data import Dataset, Fold
from plackett.distributed import Cluster, as_cluster
from plackett.experiments.plan import threads_per_trial
from plackett.experiments.protocols import DataSource, as_source
from plackett.experiments.tuning.plan import Pruner, SearchPlan, ValidationSplits, build_ranker, build_space
from plackett.metrics import FunctionMetric, metrics as as_metrics
from plackett.models import MetricSpec, Progress, Ranker, no_progress, recipe
from plackett.models.recipes import search_spaces

if TYPE_CHECKING:
    from plackett.experiments.tuning.study import TuningStudy

TrialState = Literal["finished", "pruned", "failed"]
_STATES: dict[str, TrialState] = {"COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "failed"}
_LEAST_TRIALS = 4  # minimum number of finished trials for which importance is computed


@dataclass(frozen=True)
class TrialResult:
    """One trial of a search."""

    number: int  # from 0, in the order in which trials were started
    settings: Mapping[str, Any]
    value: float | None  # mean of the metric on validation lists; of a pruned trial the last value it reported
    state: TrialState
    seconds: float
    reason: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class TuneResult:
    """A finished search."""

    plan: SearchPlan
    study: str
    """Name of the study in the store, for Optuna's tools."""
    trials: tuple[TrialResult, ...]
    recipe_value: float
    """Value of the recipe's own settings."""
    settings: Mapping[str, Any]
    """The best settings; empty if no trial was better than the recipe's own."""
    value: float
    """Their value: the mean over splits of the metric on validation lists."""
    importance: Mapping[str, float]
    """By parameter, the most important first; sums to 1. Empty if there are too few trials."""
    ran: int
    """Number of trials that were run now; the others were in the store."""
    ranker: Ranker | None = None
    """A model fitted with the best settings, if that was asked for."""

    def __repr__(self) -> str:
        return (
            f"TuneResult({len(self.trials)} trials: {self.value:.4f}, the recipe's own settings "
            f"{self.recipe_value:.4f}; settings={dict(self.settings)})"
        )

    @property
    def best(self) -> TrialResult | None:
        """The best trial; None if the recipe's own settings are best."""
        finished = [trial for trial in self.trials if trial.state == "finished"]
        best = max(finished, key=lambda trial: trial.value or 0.0, default=None)
        return best if self.settings else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        counts = {state: sum(t.state == state for t in self.trials) for state in _STATES.values()}
        return {
            "recipe": self.plan.name,
            "metric": self.plan.selection_metric,
            "study": self.study,
            "settings": dict(self.settings),
            "value": self.value,
            "recipe_value": self.recipe_value,
            "space": {name: str(dimension) for name, dimension in self.plan.space.items()},
            "importance": dict(self.importance),
            "trials": [vars(trial) | {"settings": dict(trial.settings)} for trial in self.trials],
            "counts": counts,
            "ran": self.ran,
        }


def tune(
    data: Dataset | Fold | Sequence[Fold] | DataSource,
    model: str | Ranker,
    *,
    trials: int = 50,
    metric: MetricSpec = "ndcg@10",
    validation: Dataset | None = None,
    folds: int | None = None,
    validation_share: float = 0.2,
    space: Mapping[str, search_spaces.Dimension | str] | None = None,
    settings: Mapping[str, Any] | None = None,
    store: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    threads: int | None = None,
    pruner: Pruner = "median",
    seed: int = 0,
    refit: bool = True,
    progress: Progress | None = None,
    cluster: Cluster | str | None = None,
    share: float | None = None,
) -> TuneResult:
    """Search for the settings of a model that are best on validation lists.

    Every trial is saved as soon as it is finished. If the same search is run again, whether it was
    finished, killed or is still running elsewhere, only the missing trials are run. With one job,
    the same seed gives the same suggestions, interrupted or not.

    Parameters
    ----------
    data
        A data set, a fold, or several folds; test lists of folds are not used.
    model
        Name of a recipe, or a ranker.
    trials
        Number of settings to try, besides the model's own.
    metric
        Metric for early stopping and for comparing settings. Several metrics, with commas, are used
        in their order for early stopping; the first one compares settings.
    validation
        Validation lists, for data that come without them.
    folds
        Divide the data into this many folds and use the mean over them.
    validation_share
        Share of the lists held out for validation, if there are no validation lists.
    space
        Dimensions to add to the recipe's search space or to replace in it
        (:func:`plackett.models.recipes.search_spaces.search_space`), as objects or as text such as
        ``"0.01..0.3:log"``.
    settings
        Parameters to fix; they are not searched.
    store
        File or URL for the trials; None: a temporary one.
    jobs
        Number of trials that run at the same time, each in its own process.
    threads
        Threads of each trial; by default all cores for one job, one for several.
    pruner
        Which trials are ended early because of their validation metric so far: ``"median"`` ends those
        below the median of the others at the same point, ``"hyperband"`` those that lose a bracket,
        ``"none"`` ends no trial.
    seed
        Random seed of suggestions, splits and models.
    refit
        Fit a model with the best settings at the end.
    progress
        Called with a text, the number of finished trials and the number of trials.
    cluster
        Run the trials as tasks on Ray: ``"local:2"``, ``"auto"``, or a
        :class:`plackett.distributed.Cluster`, which then determines the number of trials at a time
        and the threads of each. The final model is fitted in this process.
    share
        Deprecated name of ``validation_share``.

    Examples
    --------
    >>> import plackett as pk
    >>> data = pk.synthetic("letor", n_lists=30, seed=0)
    >>> result = pk.tune(data, "listnet-linear", trials=2)
    >>> result.value >= result.recipe_value
    True
    """
    if share is not None:
        warn_renamed("share", "validation_share")
        validation_share = share
    if validation is None:
        source = as_source(data)
    elif isinstance(data, Dataset):
        source = with_validation(data, validation)
    else:
        raise UsageError("validation is only for a single data set; folds have their own.")
    plan = plan_search(
        model,
        metric=metric,
        space=space,
        settings=settings,
        splits=ValidationSplits(folds, validation_share, seed),
        pruner=pruner,
        seed=seed,
    )
    running: dict[str, Any] = {"jobs": jobs, "threads": threads, "cluster": cluster, "refit": refit}
    with tempfile.TemporaryDirectory() as folder:
        store_url = Path(folder) / "tuning.db" if store is None else store
        report = progress or no_progress
        return run_search(
            plan, source, store=store_url, scratch=Path(folder), trials=trials, progress=report, **running
        )


def plan_search(
    model: str | Ranker,
    *,
    metric: MetricSpec = "ndcg@10",
    space: Mapping[str, search_spaces.Dimension | str] | None = None,
    settings: Mapping[str, Any] | None = None,
    preset: str | None = None,
    splits: ValidationSplits | None = None,
    pruner: Pruner = "median",
    seed: int = 0,
) -> SearchPlan:
    """Check the arguments and make the plan; parameters as for :func:`tune`."""
    selected = as_metrics(metric)
    ranker = recipe(model, preset=preset) if isinstance(model, str) else model
    fixed, searched = rename_deprecated(settings or {}), rename_deprecated(space or {})
    for name in fixed:
        search_spaces.get_setting(ranker, name)
    ranker = search_spaces.with_settings(ranker, fixed)
    both = sorted(set(fixed) & set(searched))
    if both:
        raise UsageError(f"{both[0]} is both fixed and searched; choose one.")
    defaults = {name: d for name, d in search_spaces.search_space_of(ranker).items() if name not in fixed}
    return SearchPlan(
        ranker.recipe_name or type(ranker).__name__,
        ranker,
        build_space(ranker, defaults, searched),
        ",".join(map(str, selected)),
        splits or ValidationSplits(seed=seed),
        pruner,
        seed,
        tuple(m for m in selected if isinstance(m, FunctionMetric)),
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
    """Run the missing trials and fit the best settings; parameters as for :func:`tune`.

    ``scratch`` is a folder in which the data may be written for several processes to share.
    """
    require("optuna", "sqlalchemy")
    from plackett.experiments.tuning.study import TuningStudy
    from plackett.experiments.tuning.workers import SearchWorker, run_in_processes, run_on_cluster

    if trials < 1:
        raise UsageError(f"trials must be at least 1, got {trials}.")
    where = None if cluster is None else as_cluster(cluster)
    trial_threads = threads_per_trial(jobs, threads)
    with TuningStudy(store, plan, source, trials) as study:
        before = study.count_finished()
        if where is not None:
            ran = run_on_cluster(study, source, cluster=where, progress=progress)
        elif jobs == 1:
            ran = SearchWorker(study, source, trial_threads, progress).run()
        else:
            run_in_processes(study, source, threads=trial_threads, jobs=jobs, scratch=scratch, progress=progress)
            ran = trials - before
        result = _read_result(study, ran=ran)
    if not refit:
        return result
    progress("fitting the best settings", trials, trials)
    return replace(result, ranker=_fit_best(result, source, threads))


def _read_result(study: TuningStudy, *, ran: int) -> TuneResult:
    from plackett.experiments.tuning.study import failure_reason

    trials = tuple(
        TrialResult(
            t.number, study.settings(t), t.value, _STATES[t.state.name], t.duration.total_seconds(), failure_reason(t)
        )
        for t in study.trials()[: study.count]
    )
    recipe_value = study.recipe_value
    assert recipe_value is not None
    finished = [t for t in trials if t.state == "finished" and t.value is not None]
    # If values are equal, the earlier trial wins, so that a continued search changes its best settings
    # only for better ones.
    best = max(finished, key=lambda trial: (trial.value, -trial.number), default=None)
    if best is None and not math.isfinite(recipe_value):
        raise UsageError("no trial was finished.")
    settings: Mapping[str, Any] = {}
    value = recipe_value
    if best is not None and best.value is not None and best.value > recipe_value:
        settings, value = best.settings, best.value
    importance = _importance(study, finished)
    return TuneResult(study.plan, study.name, trials, recipe_value, settings, value, importance, ran)


def _importance(study: TuningStudy, finished: list[TrialResult]) -> dict[str, float]:
    """Share of each parameter in the differences between trials (PED-ANOVA, Watanabe 2023)."""
    from optuna.importance import get_param_importances

    if len(finished) < _LEAST_TRIALS or len({trial.value for trial in finished}) == 1:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about trials without a value
        importances: dict[str, float] = get_param_importances(study.optuna)
    return dict(sorted(importances.items(), key=lambda item: -item[1]))


def _fit_best(result: TuneResult, source: DataSource, threads: int | None) -> Ranker:
    """Fit the final model, with a record of where its settings come from."""
    plan = result.plan
    ranker = build_ranker(plan, dict(result.settings), threads)
    train, validation = plan.splits.load_final(source)
    ranker.fit(train, validation, plan.metric)
    assert ranker.training_ is not None
    ranker.training_ = ranker.training_ | {
        "tuning": {
            "study": result.study,
            "trials": len(result.trials),
            "metric": plan.selection_metric,
            "value": result.value,
            "recipe_value": result.recipe_value,
            "divisions": plan.splits.count(source),
            "settings": sorted(result.settings),
        }
    }
    return ranker


def with_validation(train: Dataset, validation: Dataset, *, name: str = "data") -> DataSource:
    """A data source with training and validation lists.

    A fold needs test lists, which tuning never reads; the validation lists are used for them.
    """
    return DataSource(name, folds=(Fold(name, train, validation, validation),))
