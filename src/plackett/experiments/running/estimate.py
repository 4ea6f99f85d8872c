"""How long a comparison will take, said before it starts.

Where the store has trials of a system, their times count. Else the system is looked at for a moment
(:mod:`~plackett.experiments.running.probing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plackett.experiments.protocols import Trial
from plackett.experiments.running.jobs import Job
from plackett.experiments.running.probing import Probe
from plackett.experiments.store import RunStore


@dataclass(frozen=True)
class Expected:
    """A time, and how far it can be trusted."""

    seconds: float
    """About, on a machine with nothing else to do."""
    slowdown: float
    """How many times longer it takes now, since other programs are running; 1 if not measured."""


def expected_time(
    jobs: Sequence[Job],
    *,
    store: RunStore,
    trial: Trial,
    threads: int | None,
    slots: int,
    documents: int | None = None,
) -> Expected:
    """How long the missing trials will take.

    Parameters
    ----------
    jobs
        All trials; those that the store has cost nothing.
    store
        Of finished trials.
    trial
        The data of one of them.
    threads
        Of each trial.
    slots
        Trials that run at the same time.
    documents
        Training documents of each, if the trial's data only stand in for larger ones.
    """
    known = store.finished(job.identity for job in jobs)
    probe = Probe(trial, threads=threads, documents=documents)
    total = 0.0
    for name in dict.fromkeys(job.system.name for job in jobs):
        own = [job for job in jobs if job.system.name == name]
        missing = [job for job in own if job.identity.digest not in known]
        times = [known[job.identity.digest] for job in own if job.identity.digest in known]
        if not missing:
            continue
        each = sum(times) / len(times) if times else probe(own[0].system, trials=len(missing))
        total += each * len(missing)
    return Expected(total / slots, probe.slowdown)
