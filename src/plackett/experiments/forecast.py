"""A rough forecast of how long trials take, from sizes alone; nothing is trained.

One fit of a model takes about

    steps * (fixed + documents * (per_document + per_feature * features))

seconds on one thread, with steps the largest number of trees, epochs or rounds and constants that
depend on the kind of model. Models that stop early take less, expensive objectives more: expect
the right order of magnitude. Where the store has trials of a system, their mean time is used.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, NamedTuple

from plackett.experiments.plan import Plan, threads_per_trial
from plackett.experiments.store import RunStore
from plackett.models.ranker import Ranker


@dataclass(frozen=True)
class Forecast:
    """The number of trials and the time that they will take."""

    trials: int
    finished: int
    """Number of trials that are in the store."""
    seconds: float
    """Rough time for the others."""


class _Cost(NamedTuple):
    """Seconds of one step, on one thread."""

    fixed: float
    per_document: float
    per_feature: float
    """For each document and feature."""


# Fitted to times on one core with 5,000 to 12,000 documents and 46 to 136 features.
_TREE = _Cost(1e-3, 3e-7, 1e-9)
_EPOCH = _Cost(1e-3, 1e-5, 2e-8)
_LINEAR = _Cost(1e-2, 1e-5, 6e-8)  # a whole fit with one value of C
_STUMP = _Cost(2e-4, 5e-8, 2e-9)
_PARALLEL = 0.7  # share of a step that runs on all threads


def forecast(*plans: Plan, store: RunStore, jobs: int = 1, threads: int | None = None) -> Forecast:
    """Forecast the time of the trials that are not in the store.

    Parameters
    ----------
    plans
        Comparisons that are run one after the other; trials that they share count once.
    store
        The store of finished trials.
    jobs, threads
        Number of trials that run at the same time, and threads of each.
    """
    cores = threads_per_trial(jobs, threads)
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
                    sum(known) / len(known)
                    if known
                    else estimate_seconds(system.ranker, *size, threads=cores)
                )
                seconds += missing * mean
    return Forecast(len(seen), finished, seconds / jobs)


def estimate_seconds(
    ranker: Ranker, documents: int, features: int, *, threads: int | None = None
) -> float:
    """Rough time of fitting a ranker.

    Parameters
    ----------
    ranker
        Not fitted.
    documents, features
        Number of training documents and of features.
    threads
        Threads of the fit; None: one for each core.
    """
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
