"""Trials in several processes, each on its own share of the cores.

Every worker has as many threads as the setup says, usually one, and is told so before it starts:
two workers on two cores then never wait for each other. Workers see the data through shared memory
(:mod:`plackett.experiments.running.sharing`) and die with the process that started them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

from plackett.base.errors import ConvergenceWarning, DataError, PlackettError, UsageError
from plackett.experiments.protocols import Source
from plackett.experiments.running.jobs import Job
from plackett.experiments.running.messages import Answer, Failure, Order, Start, receive, send
from plackett.experiments.running.runners import Runner, Setup
from plackett.experiments.running.sharing import SharedSource, scratch_in, share
from plackett.experiments.store import Outcome

KINDS: dict[str, type[Exception]] = {
    "DataError": DataError,
    "ImportError": ImportError,
    "UsageError": UsageError,
}
"""Errors whose text is for the user; others come with their trace."""
THREADS = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""What the libraries read their number of threads from."""
SHOWN = 2000  # characters of what a worker that died had to say


class Worker:
    """One process."""

    def __init__(self, shared: SharedSource, setup: Setup) -> None:
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "plackett.experiments.running.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=os.environ | dict.fromkeys(THREADS, str(setup.threads or os.cpu_count() or 1)),
            # Ctrl-C is for the process that the user started; it stops the workers.
            start_new_session=True,
        )
        self._tell(Start(shared, setup))

    def run(self, job: Job, setup: Setup) -> Outcome:
        """Have one trial run."""
        ranker = job.system.configured(seed=job.part.seed, threads=setup.threads)
        try:
            self._tell(Order(ranker, job.part))
            answer = receive(self._process.stdout)  # type: ignore[arg-type] # a pipe is there
        except (EOFError, BrokenPipeError) as error:
            raise self._death(job) from error
        if isinstance(answer, Failure):
            kind = KINDS.get(answer.kind)
            raise RuntimeError(answer.trace) if kind is None else kind(answer.text)
        done: Answer = answer
        for text in done.cautions:
            warnings.warn(f"{job.title}: {text}", ConvergenceWarning, stacklevel=2)
        return done.outcome

    def _tell(self, message: Any) -> None:
        send(self._process.stdin, message)  # type: ignore[arg-type] # a pipe is there

    def _death(self, job: Job) -> PlackettError:
        code = self._process.wait()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip()[-SHOWN:]
        why = "; perhaps memory ran out: use fewer jobs" if code == -9 else ""
        return PlackettError(
            f"the process that ran {job.title} ended with code {code}{why}. Finished trials are "
            f"kept.{' It said: ' + said if said else ''}"
        )

    def kill(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close what led to a process that has ended."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
        self._said.close()


class Workers(Runner):
    """Runs trials in several processes.

    Parameters
    ----------
    source
        The data.
    setup
        What the trials share; ``threads`` is what each process gets.
    count
        Number of processes.
    folder
        Where the data may be written for all of them to see; removed at the end.
    """

    def __init__(self, source: Source, setup: Setup, *, count: int, folder: Path) -> None:
        self.slots = count
        self._setup = setup
        self._scratch = scratch_in(folder)
        self._shared = share(source, self._scratch)
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        self._workers: list[Worker] = []
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="worker")

    def submit(self, job: Job) -> Future[Outcome]:
        if self._idle.empty() and len(self._workers) < self.slots:
            self._workers.append(Worker(self._shared, self._setup))
            self._idle.put(self._workers[-1])
        return self._threads.submit(self._run, job)

    def _run(self, job: Job) -> Outcome:
        worker = self._idle.get()
        try:
            return worker.run(job, self._setup)
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()
        # Threads that wait for an answer learn that there will be none, and end.
        self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in self._workers:
            worker.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
