"""Trials of a search in several processes, each with its own share of the cores.

Every process does the same work on the same store; this one watches. Data are shared through
memory-mapped files (:mod:`plackett.experiments.running.sharing`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from plackett.base.errors import PlackettError
from plackett.experiments.protocols import Source
from plackett.experiments.running.messages import Failure, send
from plackett.experiments.running.messages import receive as read_message
from plackett.experiments.running.sharing import SharedSource, scratch_in, share
from plackett.experiments.running.workers import KINDS, SHOWN, THREADS
from plackett.experiments.tuning.plan import Plan
from plackett.experiments.tuning.study import Study
from plackett.experiments.tuning.working import tell_best
from plackett.models.ranker import Progress

_POLL = 0.2


@dataclass(frozen=True)
class Order:
    """What a worker is told."""

    plan: Plan
    source: SharedSource
    place: str
    trials: int
    threads: int | None


def work_in_parallel(
    study: Study,
    source: Source,
    *,
    trials: int,
    threads: int | None,
    jobs: int,
    scratch: Path,
    progress: Progress,
) -> None:
    """Start so many workers and wait until all trials are finished."""
    folder = scratch_in(scratch)
    order = Order(study.plan, share(source, folder), study.store.url, trials, threads)
    workers = []
    try:
        workers = [_Worker(order) for _ in range(jobs)]
        while any(worker.is_at_work() for worker in workers):
            tell_best(study, trials, progress, f"{jobs} at a time")
            time.sleep(_POLL)
    finally:
        for worker in workers:
            worker.close()
        shutil.rmtree(folder, ignore_errors=True)


class _Worker:
    def __init__(self, order: Order) -> None:
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._answer: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "plackett.experiments.tuning.worker"],
            stdin=subprocess.PIPE,
            stdout=self._answer,
            stderr=self._said,
            env=os.environ | dict.fromkeys(THREADS, str(order.threads or os.cpu_count() or 1)),
            # Ctrl-C is for the process that the user started; it stops the workers.
            start_new_session=True,
        )
        send(self._process.stdin, order)  # type: ignore[arg-type] # a pipe is there

    def is_at_work(self) -> bool:
        """Whether it goes on; a failure is raised here."""
        code = self._process.poll()
        if code is None:
            return True
        self._answer.seek(0)
        try:
            answer = read_message(self._answer)  # type: ignore[arg-type] # a file of bytes
        except EOFError:
            answer = None
        if isinstance(answer, Failure):
            kind = KINDS.get(answer.kind)
            raise RuntimeError(answer.trace) if kind is None else kind(answer.text)
        if code != 0:
            self._said.seek(0)
            said = self._said.read().decode(errors="replace").strip()[-SHOWN:]
            why = "; perhaps memory ran out: use fewer jobs" if code == -9 else ""
            raise PlackettError(
                f"a process that ran trials ended with code {code}{why}. Finished trials are kept."
                f"{' It said: ' + said if said else ''}"
            )
        return False

    def close(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._answer, self._said):
            if pipe is not None:
                pipe.close()
