"""A comparison laid out before it is run: its trials, and how long they will take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

from plackett.base.errors import UsageError
from plackett.data.dataset import Dataset
from plackett.data.folds import Fold
from plackett.experiments.protocols import Part, Protocol, Source, Trial, as_source
from plackett.experiments.protocols import protocol as as_protocol
from plackett.experiments.running import Job, System, as_systems, expected_time, jobs_of
from plackett.experiments.store import RunStore
from plackett.metrics import metric
from plackett.models.ranker import Ranker

METRICS = ("ndcg@5", "ndcg@10", "err@10")
"""What is measured unless something else is asked for."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A comparison before it is run."""

    source: Source
    systems: tuple[System, ...]
    protocol: Protocol
    metrics: tuple[str, ...]
    select: str
    baseline: str
    jobs: tuple[Job, ...]
    """Its trials."""

    @cached_property
    def trial(self) -> Callable[[Part], Trial]:
        """Makes the data of a trial; those made last are kept, since systems share them."""
        return lru_cache(maxsize=1)(partial(self.protocol.trial, self.source))


@dataclass(frozen=True)
class Forecast:
    """What is about to be done."""

    trials: int
    finished: int
    """Trials that the store has already."""
    seconds: float
    """What the rest will take, about, on a machine with nothing else to do."""
    slowdown: float = 1.0
    """How many times longer it takes now, since other programs are running."""


def plan_comparison(
    data: Dataset | Fold | Sequence[Fold] | Source,
    models: Sequence[str] | Mapping[str, Ranker],
    *,
    protocol: str | Protocol = "holdout",
    metrics: Sequence[str] | str = METRICS,
    baseline: str | None = None,
    select: str = "ndcg@5",
    seed: int = 0,
) -> Plan:
    """Check what was asked for, and lay out the trials.

    Parameters are those of :func:`plackett.experiments.comparing.compare`.
    """
    systems = as_systems(models)
    names = [system.name for system in systems]
    chosen = names[0] if baseline is None else baseline
    if chosen not in names:
        raise UsageError(f"the baseline {chosen!r} is not among the models {', '.join(names)}.")
    source, way = as_source(data), as_protocol(protocol, seed=seed)
    listed = metrics.split(",") if isinstance(metrics, str) else metrics
    spelt = tuple(dict.fromkeys(str(metric(each.strip())) for each in listed))
    by = ",".join(str(metric(each.strip())) for each in select.split(","))
    jobs = jobs_of(systems, way.plan(source), select=by)
    return Plan(source, systems, way, spelt, by, chosen, tuple(jobs))


def forecast(plan: Plan, *, store: RunStore, jobs: int = 1, threads: int | None = None) -> Forecast:
    """How many trials there are, how many are done, and how long the rest will take."""
    finished = store.finished(job.identity for job in plan.jobs)
    missing = [job for job in plan.jobs if job.identity.digest not in finished]
    if not missing:
        return Forecast(len(plan.jobs), len(plan.jobs), 0.0)
    expected = expected_time(
        plan.jobs,
        store=store,
        trial=plan.trial(missing[0].part),
        threads=threads_of(jobs, threads),
        slots=jobs,
    )
    finished_jobs = len(plan.jobs) - len(missing)
    return Forecast(len(plan.jobs), finished_jobs, expected.seconds, expected.slowdown)


def threads_of(jobs: int, threads: int | None) -> int | None:
    """Threads of each trial: several trials at a time share the cores instead of fighting."""
    if jobs < 1:
        raise UsageError(f"jobs must be at least 1, got {jobs}.")
    return 1 if threads is None and jobs > 1 else threads
