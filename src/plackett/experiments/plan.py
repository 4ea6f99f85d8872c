"""The plan of a comparison: its trials and their identities.

A trial is one system on one split of the protocol. A plan is made without training anything and
without making the data of splits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from uuid import uuid4

from plackett.base.errors import DataWarning, UsageError
from plackett.data.dataset import Dataset, fingerprint
from plackett.data.folds import Fold
from plackett.experiments.external import SavedModel, ScoreFile
from plackett.experiments.protocols import DataSource, Protocol, Split, SplitData, as_source
from plackett.experiments.protocols import protocol as as_protocol
from plackett.experiments.store import Identity
from plackett.experiments.systems import Model, System, as_systems, code_version
from plackett.metrics import FunctionMetric, Metric
from plackett.metrics import metrics as as_metrics
from plackett.models.fit_context import MetricSpec
from plackett.objectives.custom import digest

METRICS = ("ndcg@10", "ndcg@5", "err@10")
"""The metrics that are computed by default; the first one orders the systems."""
METRIC = "ndcg@10"
"""The metric for early stopping and model selection by default."""


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
    """The metrics that Python functions compute, for processes that do not know them."""

    @cached_property
    def load(self) -> Callable[[Split], SplitData]:
        """Makes the data of a split; the last ones are kept, since systems share them."""
        return lru_cache(maxsize=1)(partial(self.protocol.load, self.source))


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
    """Check the arguments and list the trials.

    Parameters are those of :func:`plackett.experiments.compare.compare`.
    """
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
    return Plan(
        source,
        systems,
        division,
        tuple(map(str, computed)),
        selection,
        reference,
        tuple(plan_trials(systems, division.splits(source), select=identity)),
        functions,
    )


def _identify_metric(metric: Metric) -> str:
    """The spelling; for a function also a hash of its code, which may change under its name."""
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
        elif isinstance(system.ranker, SavedModel) and not _same_training(system.ranker, source):
            warnings.warn(
                f"{system.name} is used as it was saved; if it was trained on lists that are test "
                "lists here, its values are too high.",
                DataWarning,
                stacklevel=4,
            )


def _same_training(saved: SavedModel, source: DataSource) -> bool:
    """Whether the model was trained on the training lists of the only fold."""
    training = (saved.model.training_ or {}).get("train") or {}
    if len(source.folds) != 1:
        return False
    return training.get("fingerprint") == fingerprint(source.folds[0].train)


def plan_trials(systems: Sequence[System], splits: Sequence[Split], *, select: str) -> list[Trial]:
    """All trials; those of one split come together, so that early results compare all systems."""
    return [
        Trial(system, split, _identify(system, split, select))
        for split in splits
        for system in systems
    ]


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
