"""The plan of a comparison: its trials and their identities.

A trial is one system on one split of the protocol. A plan is made without training anything and
without making the data of splits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

from plackett.base.errors import UsageError
from plackett.data.dataset import Dataset
from plackett.data.folds import Fold
from plackett.experiments.protocols import DataSource, Protocol, Split, SplitData, as_source
from plackett.experiments.protocols import protocol as as_protocol
from plackett.experiments.store import Identity
from plackett.experiments.systems import System, as_systems, code_version
from plackett.metrics import metric
from plackett.models.ranker import Ranker

METRICS = ("ndcg@5", "ndcg@10", "err@10")
"""The metrics that are computed by default."""


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

    @cached_property
    def load(self) -> Callable[[Split], SplitData]:
        """Makes the data of a split; the last ones are kept, since systems share them."""
        return lru_cache(maxsize=1)(partial(self.protocol.load, self.source))


def plan_comparison(
    data: Dataset | Fold | Sequence[Fold] | DataSource,
    models: Sequence[str] | Mapping[str, Ranker],
    *,
    protocol: str | Protocol = "holdout",
    metrics: Sequence[str] | str = METRICS,
    baseline: str | None = None,
    select: str = "ndcg@5",
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
    metric_names = metrics.split(",") if isinstance(metrics, str) else metrics
    normalized = tuple(dict.fromkeys(str(metric(name.strip())) for name in metric_names))
    selection = ",".join(str(metric(name.strip())) for name in select.split(","))
    trials = plan_trials(systems, division.splits(source), select=selection)
    return Plan(source, systems, division, normalized, selection, reference, tuple(trials))


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
