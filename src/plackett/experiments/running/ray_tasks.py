"""Trials as Ray tasks, on this machine or on many.

The data go to each machine once. A trial whose worker dies is run again, elsewhere if need be; what
is finished is in the store, and stays there.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import Any

from plackett.base.errors import ClusterError
from plackett.distributed.cluster import Cluster
from plackett.distributed.driver import Conductor, as_error
from plackett.distributed.task_pool import Sign, serve_tasks
from plackett.experiments.protocols import Part, Source
from plackett.experiments.running.jobs import Job
from plackett.experiments.running.runners import Runner, Setup
from plackett.experiments.running.trial import run_trial
from plackett.experiments.store import Outcome
from plackett.models.ranker import Ranker


class RayTasks(Runner):
    """Runs trials on a cluster.

    Parameters
    ----------
    source
        The data.
    setup
        What the trials share; ``threads`` is what each gets.
    cluster
        Where; ``step_seconds`` limits the time between two steps of a trial (trees, epochs).
    """

    def __init__(self, source: Source, setup: Setup, cluster: Cluster) -> None:
        self._setup, self._cluster = setup, cluster
        self._futures: dict[int, tuple[Job, Future[Outcome]]] = {}
        self._guard = threading.Lock()
        self._conductor = Conductor(cluster, serve_tasks, work_on_trial, (source, setup), cluster)
        try:
            deadline = time.monotonic() + cluster.start_limit
            _, self.slots = self._conductor.receive(deadline, self._late)
        except BaseException:
            self._conductor.close()
            raise
        self._listener = threading.Thread(target=self._listen, name="trials", daemon=True)
        self._listener.start()

    def submit(self, job: Job) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        ranker = job.system.configured(seed=job.part.seed, threads=self._setup.threads)
        with self._guard:
            number = len(self._futures)
            self._futures[number] = (job, future)
        self._conductor.send((number, (ranker, job.part)))
        return future

    def _listen(self) -> None:
        try:
            while True:
                deadline = time.monotonic() + self._cluster.limit
                kind, content = self._conductor.receive(deadline, self._late)
                if kind == "answer":
                    self._settle(*content)
        except BaseException as error:  # whoever waits must learn of it, whatever it is
            with self._guard:
                waiting = [future for _, future in self._futures.values() if not future.done()]
            for future in waiting:
                future.set_exception(error)

    def _settle(self, number: int, answer: Any) -> None:
        job, future = self._futures[number]
        verdict, content = answer
        if verdict == "done":
            future.set_result(content)
            return
        error = as_error(*content)
        if isinstance(error, ClusterError):
            error = ClusterError(f"{job.title}: {error} Finished trials are kept.")
        future.set_exception(error)

    def _late(self) -> str:
        return f"{self._cluster.place} does not answer. Finished trials are kept."

    def close(self) -> None:
        self._conductor.close()
        self._listener.join()


def work_on_trial(common: tuple[Source, Setup], own: tuple[Ranker, Part], sign: Sign) -> Outcome:
    """What a task does: one trial."""
    (source, setup), (ranker, part) = common, own
    trial = setup.protocol.trial(source, part)
    return run_trial(ranker, trial, metrics=setup.metrics, select=setup.select, progress=sign)
