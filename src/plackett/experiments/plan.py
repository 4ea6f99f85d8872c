"""The plan of a comparison: its trials, their identities, and a rough forecast of their time.

A trial is one system on one split of the protocol. Making a plan neither trains models nor creates
the data of splits.

The forecast is made from sizes alone. One fit of a model takes about

    steps * (fixed + documents * (per_document + per_feature * features))

seconds on one thread, where steps is the maximum number of trees, epochs or rounds, and the constants
depend on the kind of model. Models that stop early take less, expensive objectives more: expect only
the right order of magnitude. If the store has trials of a system, their mean time is used.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import uuid4

from plackett.base.errors import DataWarning, UsageError
from plackett.data import Dataset, Fold, fingerprint
from plackett.experiments.external import SavedModel, ScoreFile
from plackett.experiments.protocols import DataSource, Protocol, Split, as_source, protocol as as_protocol
from plackett.experiments.store import Identity, RunStore
from plackett.experiments.systems import Model, System, as_systems, code_version, environment
from plackett.metrics import FunctionMetric, Metric, metrics as as_metrics
from plackett.models import MetricSpec, Ranker
from plackett.objectives.custom import digest

METRICS = ("ndcg@10", "ndcg@5", "err@10")  # the metrics that are computed by default; the first one orders the systems
METRIC = "ndcg@10"  # the metric for early stopping and model selection by default


@dataclass(frozen=True, eq=False)
class Trial:
    """One system on one split."""

    system: System
    split: Split
    identity: Identity

    @property
    def title(self) -> str:
        """System and split, for messages."""
        return f"{self.system.name}, {self.split.name}"


@dataclass(frozen=True, eq=False)
class Plan:
    """A comparison before it is run."""

    source: DataSource
    systems: tuple[System, ...]
    protocol: Protocol
    metrics: tuple[str, ...]
    select: str
    baseline: str
    trials: tuple[Trial, ...]
    functions: tuple[FunctionMetric, ...] = ()
    """The metrics that Python functions compute, for processes in which they are not defined."""

    @property
    def selection_metric(self) -> str:
        """The first of the metrics that select models."""
        return self.select.split(",")[0]

    def settings(self) -> dict[str, dict[str, Any]]:
        """Settings of each system, with the seed of the first trial."""
        seed = self.trials[0].split.seed
        return {system.name: system.settings(seed) for system in self.systems}

    def environment(self) -> dict[str, str]:
        """Versions of the code and of the libraries of all systems."""
        return environment({name for system in self.systems for name in system.libraries()})


def plan_comparison(
    data: Dataset | Fold | Sequence[Fold] | DataSource,
    models: Sequence[Model] | Mapping[str, Model],
    *,
    protocol: str | Protocol = "holdout",
    metrics: MetricSpec = METRICS,
    baseline: str | None = None,
    metric: MetricSpec = METRIC,
    seed: int = 0,
) -> Plan:
    """Check the arguments and list the trials. Parameters are those of :func:`plackett.experiments.compare.compare`."""
    systems = as_systems(models)
    names = [system.name for system in systems]
    reference = names[0] if baseline is None else baseline
    if reference not in names:
        raise UsageError(f"the baseline {reference!r} is not among the models {', '.join(names)}.")
    source, division = as_source(data), as_protocol(protocol, seed=seed)
    _check_external(systems, source)
    computed, selected = as_metrics(metrics), as_metrics(metric)
    selection = ",".join(map(str, selected))
    functions = tuple(m for m in (*computed, *selected) if isinstance(m, FunctionMetric))
    identity = ",".join(map(_identify_metric, selected))
    # Trials of one split come together, so that early results compare all systems.
    pairs = [(system, split) for split in division.splits(source) for system in systems]
    trials = tuple(Trial(system, split, _identify(system, split, identity)) for system, split in pairs)
    return Plan(source, systems, division, tuple(map(str, computed)), selection, reference, trials, functions)


def _identify_metric(metric: Metric) -> str:
    """The spelling; for a function also a hash of its code, which may change while the name stays."""
    if not isinstance(metric, FunctionMetric):
        return str(metric)
    # A callable object has no code to compare: trials that it selected are never reused.
    code = digest(metric.function) if hasattr(metric.function, "__code__") else uuid4().hex
    return f"{metric}#{code}"


def _check_external(systems: Sequence[System], source: DataSource) -> None:
    """Check scores against the data, and warn of saved models that may know the test lists."""
    for system in systems:
        if isinstance(system.ranker, ScoreFile):
            if len(source.folds) > 1:
                raise UsageError(
                    f"{system.name} has one score per row, and {source.name} has "
                    f"{len(source.folds)} folds; compare scores on one data set."
                )
            data = source.folds[0].test if source.folds else source.pooled
            system.ranker.check_rows(data.n_docs, source.name)
        elif isinstance(system.ranker, SavedModel):
            training = (system.ranker.model.training_ or {}).get("train") or {}
            known = training.get("fingerprint")
            if len(source.folds) == 1 and known == fingerprint(source.folds[0].train):
                continue  # it was trained on the training lists of the only fold
            warnings.warn(
                f"{system.name} is used as it was saved; if it was trained on lists that are test "
                "lists here, its values are too high.",
                DataWarning,
                stacklevel=4,
            )


def _identify(system: System, split: Split, select: str) -> Identity:
    return Identity(
        data=split.data,
        system=system.name,
        settings=system.settings(split.seed),
        seed=split.seed,
        part=split.division,
        metric=select,
        code=code_version(),
        libraries=system.libraries(),
    )


def threads_per_trial(jobs: int, threads: int | None) -> int | None:
    """Threads of each trial: one by default if several trials run at the same time."""
    if jobs < 1:
        raise UsageError(f"jobs must be at least 1, got {jobs}.")
    return 1 if threads is None and jobs > 1 else threads


@dataclass(frozen=True)
class Forecast:
    """The number of trials and the time that they will take."""

    trials: int
    finished: int  # number of trials that are in the store
    seconds: float  # rough time for the others


class _Cost(NamedTuple):
    """Seconds of one step, on one thread."""

    fixed: float
    per_document: float
    per_feature: float  # for each document and feature


# Fitted to times on one core with 5,000 to 12,000 documents and 46 to 136 features.
_TREE = _Cost(1e-3, 3e-7, 1e-9)
_EPOCH = _Cost(1e-3, 1e-5, 2e-8)
_LINEAR = _Cost(1e-2, 1e-5, 6e-8)  # a whole fit with one value of C
_STUMP = _Cost(2e-4, 5e-8, 2e-9)
_PARALLEL = 0.7  # share of a step that runs on all threads


def forecast(*plans: Plan, store: RunStore, jobs: int = 1, threads: int | None = None) -> Forecast:
    """Forecast the time of the trials that are not in the store; those that plans share count once."""
    trial_threads = threads_per_trial(jobs, threads)
    seen: set[str] = set()
    finished, seconds = 0, 0.0
    for plan in plans:
        new = {t.identity.digest: t for t in plan.trials if t.identity.digest not in seen}
        seen |= new.keys()
        times = store.finished(trial.identity for trial in plan.trials)
        finished += len(new.keys() & times.keys())
        for system in plan.systems:
            digests = {t.identity.digest for t in plan.trials if t.system is system}
            known = [times[digest] for digest in digests if digest in times]
            missing = len((digests & new.keys()) - times.keys())
            if missing:
                size = plan.source.training_size
                mean = (
                    sum(known) / len(known) if known else estimate_seconds(system.ranker, *size, threads=trial_threads)
                )
                seconds += missing * mean
    return Forecast(len(seen), finished, seconds / jobs)


def estimate_seconds(ranker: Ranker, documents: int, features: int, *, threads: int | None = None) -> float:
    """Rough time of fitting a ranker; threads None: one for each core."""
    params = ranker.get_params()
    inner = [value for value in params.values() if isinstance(value, Ranker)]
    if inner:  # a cross-fit
        members = params.get("folds", 1) * params.get("repeats", 1)
        return float(members * estimate_seconds(inner[0], documents, features, threads=threads))
    steps, cost = _count_steps(params)
    one = cost.fixed + documents * (cost.per_document + cost.per_feature * features)
    cores = threads or os.cpu_count() or 1
    return steps * one * (1 - _PARALLEL + _PARALLEL / cores)


def _count_steps(params: dict[str, Any]) -> tuple[int, _Cost]:
    if "trees" in params:
        return params["trees"], _TREE
    if "epochs" in params:
        return params["epochs"] * params.get("learners", 1), _EPOCH
    if "rounds" in params:
        return params["rounds"], _STUMP
    grid = params.get("C", 1.0)
    return len(grid) if isinstance(grid, (tuple, list)) else 1, _LINEAR
