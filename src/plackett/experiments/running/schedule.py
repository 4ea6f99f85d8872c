"""Run what is missing, and nothing twice, beside other processes that do the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field

from plackett.base.errors import DataError, PlackettError, UsageError
from plackett.experiments.running.jobs import Job
from plackett.experiments.running.runners import Runner
from plackett.experiments.store import Heartbeat, Outcome, RunStore

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many trials are done, and how many there are."""

_POLL = 1.0
"""Seconds between looks at what other processes have finished."""


def run_missing(jobs: Sequence[Job], *, store: RunStore, runner: Runner, progress: Progress) -> int:
    """Run the trials that the store has not; returns how many were run here.

    Trials that another process has claimed are waited for, and taken over if that process dies.
    The first trial that fails stops the others; what was finished is kept.
    """
    # Two systems with the same settings are one trial under two names.
    different = {job.identity.digest: job for job in jobs}
    store.release_dead()
    done = store.finished(job.identity for job in different.values())
    pending = [job for digest, job in different.items() if digest not in done]
    with Heartbeat(store) as heartbeat:
        schedule = _Schedule(store, runner, heartbeat, progress, len(different), pending)
        try:
            while schedule.pending or schedule.claimed:
                schedule.start()
                schedule.collect()
        except BaseException:
            store.release(job.identity for job in schedule.claimed.values())
            raise
    progress("", len(different), len(different))
    return schedule.finished


@dataclass
class _Schedule:
    store: RunStore
    runner: Runner
    heartbeat: Heartbeat
    progress: Progress
    total: int
    pending: list[Job]
    claimed: dict[str, Job] = field(default_factory=dict)
    """By digest: what this process is at work on."""
    running: dict[Future[Outcome], Job] = field(default_factory=dict)
    finished: int = 0

    def start(self) -> None:
        """Start as many trials as there is room for."""
        for job in list(self.pending):
            if len(self.running) >= self.runner.slots:
                return
            if self.store.claim(job.identity):
                self.claimed[job.identity.digest] = job
                self.pending.remove(job)
                self.heartbeat.add(job.identity.digest)
                self._tell()
                self.running[self.runner.submit(job)] = job
        if not self.running:
            self._wait_for_others()

    def _wait_for_others(self) -> None:
        """All that is left is in other hands: drop what they have finished."""
        done = self.store.finished(job.identity for job in self.pending)
        self.pending = [job for job in self.pending if job.identity.digest not in done]
        if self.pending:
            self._tell("waiting for another process")
            time.sleep(_POLL)

    def collect(self) -> None:
        """Keep what has been finished."""
        if not self.running:
            return
        done = wait(self.running, timeout=_POLL, return_when=FIRST_COMPLETED).done
        # What is finished is kept before a failure ends it all.
        for future in sorted(done, key=lambda each: each.exception() is not None):
            job = self.running.pop(future)
            self.store.finish(job.identity, _outcome(job, future))
            self.heartbeat.drop(job.identity.digest)
            del self.claimed[job.identity.digest]
            self.finished += 1
            self._tell()

    def _tell(self, text: str = "") -> None:
        at_work = " · ".join(job.title for job in self.claimed.values())
        done = self.total - len(self.pending) - len(self.claimed)
        self.progress(text or at_work, done, self.total)


def _outcome(job: Job, future: Future[Outcome]) -> Outcome:
    """The outcome; what went wrong says in which trial, and keeps its kind."""
    try:
        return future.result()
    except DataError as error:
        raise DataError(_told(job, error)) from error
    except UsageError as error:
        raise UsageError(_told(job, error)) from error
    except (PlackettError, ImportError, OSError):
        raise  # says enough, or is not about the trial
    except Exception as error:
        raise RuntimeError(f"{_told(job, error)} It was a {type(error).__name__}.") from error


def _told(job: Job, error: Exception) -> str:
    return f"{job.title}: {error} (Trials that are finished are kept.)"
