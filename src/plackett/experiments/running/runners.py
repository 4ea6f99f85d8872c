"""Where a trial is run: the interface, and the simplest place, this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plackett.experiments.protocols import Part, Protocol, Trial
from plackett.experiments.running.jobs import Job
from plackett.experiments.running.trial import run_trial
from plackett.experiments.store import Outcome

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class Setup:
    """What all trials of a comparison share, beside the data."""

    protocol: Protocol
    metrics: tuple[str, ...]
    select: str
    threads: int | None
    """Of each trial; None: all there are."""


class Runner(ABC):
    """A place where trials are run; to be used in a ``with`` block."""

    slots: int
    """Trials that run at the same time."""

    @abstractmethod
    def submit(self, job: Job) -> Future[Outcome]:
        """Start a trial, or run it; the result is in the future."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Stop whatever is still running."""


class InProcess(Runner):
    """Runs one trial after the other in this process, on as many threads as the setup says.

    Parameters
    ----------
    trial
        Makes the data of a part. Systems of one part come one after the other, so it should
        remember those it made last.
    setup
        What the trials share.
    """

    slots = 1

    def __init__(self, trial: Callable[[Part], Trial], setup: Setup) -> None:
        self._setup = setup
        self._trial = trial

    def submit(self, job: Job) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        ranker = job.system.configured(seed=job.part.seed, threads=self._setup.threads)
        trial = self._trial(job.part)
        metrics, select = self._setup.metrics, self._setup.select
        try:
            future.set_result(run_trial(ranker, trial, metrics=metrics, select=select))
        except Exception as error:
            future.set_exception(error)
        return future

    def close(self) -> None:
        """Nothing runs on."""
