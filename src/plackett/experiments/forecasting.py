"""How long several comparisons take together; trials that they share count once."""

from __future__ import annotations

import json
from collections.abc import Iterable

from plackett.experiments.planning import Forecast, Plan, threads_of
from plackett.experiments.running import Expected, Job, expected_time
from plackett.experiments.store import RunStore


def forecast_plans(
    plans: Iterable[Plan], *, store: RunStore, jobs: int = 1, threads: int | None = None
) -> Forecast:
    """How many trials there are, how many the store has, and seconds for the rest.

    Parameters
    ----------
    plans
        Comparisons that will be run one after the other on one store.
    store
        Of finished trials.
    jobs, threads
        Trials at the same time, and threads of each.
    """
    costs: dict[str, Expected] = {}
    seen: set[str] = set()
    finished, seconds, slow = 0, 0.0, 0.0
    for plan in plans:
        fresh = {j.identity.digest: j for j in plan.jobs if j.identity.digest not in seen}
        seen |= fresh.keys()
        known = store.finished(job.identity for job in fresh.values())
        finished += len(known)
        for digest, job in fresh.items():
            if digest not in known:
                each = one_trial(plan, job, store, threads_of(jobs, threads), costs)
                seconds, slow = seconds + each.seconds, slow + each.seconds * each.slowdown
    return Forecast(len(seen), finished, seconds / jobs, slow / seconds if seconds > 0 else 1.0)


def one_trial(
    plan: Plan,
    job: Job,
    store: RunStore,
    threads: int | None,
    costs: dict[str, Expected],
    scale: float = 1.0,
) -> Expected:
    """How long one trial takes that is missing.

    Parameters
    ----------
    plan, job
        The trial and the comparison it is of.
    store
        Of finished trials, whose times count.
    threads
        Of the trial.
    costs
        What is known already by data and settings; added to.
    scale
        How many times more documents there are than the plan's data have, which stand in for them.
    """
    key = f"{plan.source.name} {json.dumps(job.system.settings(0), sort_keys=True)}"
    if key not in costs:
        same = [other for other in plan.jobs if other.system is job.system]
        known = store.finished(other.identity for other in same)
        own = [other for other in same if other.identity.digest in known]
        trial = plan.protocol.trial(plan.source, plan.jobs[0].part)
        costs[key] = expected_time(
            [*own, job],
            store=store,
            trial=trial,
            threads=threads,
            slots=1,
            documents=round(scale * trial.train.n_docs),
        )
    return costs[key]
