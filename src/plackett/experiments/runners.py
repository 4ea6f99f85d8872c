"""Where a trial is run: the interface, and the simplest place, this process.

Data that several processes use at once.

Each data set is written once in its memory-mapped form and opened by every worker: the operating
system keeps one copy of its pages for all of them. Sparse features have no such form and are
copied into each worker.

What a comparison and its worker processes say to each other, over pipes of their own.

Trials in several processes, each on its own share of the cores.

Every worker has as many threads as the setup says, usually one, and is told so before it starts:
two workers on two cores then never wait for each other. Workers see the data through shared memory
(:mod:`plackett.experiments.runners`) and die with the process that started them.

A worker process: takes trials from its standard input, gives results to its standard output.

It ends when its input ends, also in the midst of a trial: the process that wanted the result is
gone then. ``python -m plackett.experiments.runners`` is started by
:mod:`plackett.experiments.runners`, not by people.

Trials as Ray tasks, on this machine or on many.

The data go to each machine once. A trial whose worker dies is run again, elsewhere if need be; what
is finished is in the store, and stays there.
"""

from __future__ import annotations

import os
import pickle
import queue
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from scipy.sparse import csr_array

from plackett.base.errors import (
    ClusterError,
    ConvergenceWarning,
    DataError,
    PlackettError,
    UsageError,
)
from plackett.data.dataset import Dataset
from plackett.data.folds import Fold
from plackett.data.mapped import open_mapped
from plackett.data.writer import write
from plackett.distributed import Cluster, TaskContext, TaskEvent, TaskPool
from plackett.experiments.plan import Trial, run_trial
from plackett.experiments.protocols import DataSource, Protocol, Split, SplitData
from plackett.experiments.store import Outcome
from plackett.models.ranker import Ranker

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
    def submit(self, job: Trial) -> Future[Outcome]:
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

    def __init__(self, trial: Callable[[Split], SplitData], setup: Setup) -> None:
        self._setup = setup
        self._trial = trial

    def submit(self, job: Trial) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        ranker = job.system.build(seed=job.part.seed, threads=self._setup.threads)
        trial = self._trial(job.part)
        metrics, select = self._setup.metrics, self._setup.select
        try:
            future.set_result(run_trial(ranker, trial, metrics=metrics, select=select))
        except Exception as error:
            future.set_exception(error)
        return future

    def close(self) -> None:
        """Nothing runs on."""


_WORKER_PROGRAM = "from plackett.experiments.runners import worker_main; worker_main()"
_PREFIX = ".shared-"


@dataclass(frozen=True)
class SharedSource:
    """Where the data are, and how they make up a source."""

    name: str
    whole: Path | None
    folds: tuple[tuple[str, Path, Path | None, Path], ...]

    def open(self) -> DataSource:
        """The data, as a worker sees them."""
        opened: dict[Path, Dataset] = {}

        def data(path: Path) -> Dataset:
            if path not in opened:
                opened[path] = _open(path)
            return opened[path]

        folds = tuple(
            Fold(name, data(train), None if validation is None else data(validation), data(test))
            for name, train, validation, test in self.folds
        )
        return DataSource(self.name, None if self.whole is None else data(self.whole), folds)


def share(source: DataSource, folder: Path) -> SharedSource:
    """Write the data sets of a source, each once, into a folder."""
    written: dict[int, Path] = {}

    def path_of(data: Dataset) -> Path:
        if id(data) not in written:
            written[id(data)] = _write(data, folder / f"data-{len(written)}")
        return written[id(data)]

    return SharedSource(
        source.name,
        None if source.whole is None else path_of(source.whole),
        tuple(
            (
                fold.name,
                path_of(fold.train),
                None if fold.validation is None else path_of(fold.validation),
                path_of(fold.test),
            )
            for fold in source.folds
        ),
    )


def _write(data: Dataset, path: Path) -> Path:
    if isinstance(data.features, csr_array):
        target = path.with_suffix(".pickle")
        target.write_bytes(pickle.dumps(data, protocol=pickle.HIGHEST_PROTOCOL))
        return target
    target = path.with_suffix(".pkdata")
    write(data, target)
    return target


def _open(path: Path) -> Dataset:
    if path.suffix == ".pickle":  # of our own making, in a folder of our own
        result: Dataset = pickle.loads(path.read_bytes())
        return result
    return open_mapped(path, missing="nan")


def scratch_in(folder: Path) -> Path:
    """A new folder for shared data; those that killed processes left behind are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    mine = f"{_PREFIX}{socket.gethostname()}-"
    for old in folder.glob(f"{mine}*"):
        if not _is_alive(old.name.removeprefix(mine)):
            shutil.rmtree(old, ignore_errors=True)
    new = folder / f"{mine}{os.getpid()}"
    new.mkdir(exist_ok=True)
    return new


def _is_alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True


@dataclass(frozen=True)
class Start:
    """The first message to a worker."""

    source: SharedSource
    setup: Setup


@dataclass(frozen=True)
class Order:
    """A trial to run."""

    ranker: Ranker
    part: Split


@dataclass(frozen=True)
class Answer:
    """A trial that was run."""

    outcome: Outcome
    cautions: tuple[str, ...]
    """Texts of warnings that a solver stopped before it was done."""


@dataclass(frozen=True)
class Failure:
    """A trial that could not be run."""

    kind: str
    """Name of the exception's class."""
    text: str
    trace: str


def send(stream: BinaryIO, message: Any) -> None:
    """Write one message, whole or not at all."""
    try:
        content = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(
            f"what a model is made of cannot be sent to another process ({error}); define "
            "functions and modules in a file that can be imported, or run one job at a time."
        ) from error
    stream.write(content)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read one message; EOFError if the other side is gone."""
    return pickle.load(stream)


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
            [sys.executable, "-c", _WORKER_PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=os.environ | dict.fromkeys(THREADS, str(setup.threads or os.cpu_count() or 1)),
            # Ctrl-C is for the process that the user started; it stops the workers.
            start_new_session=True,
        )
        self._tell(Start(shared, setup))

    def run(self, job: Trial, setup: Setup) -> Outcome:
        """Have one trial run."""
        ranker = job.system.build(seed=job.part.seed, threads=setup.threads)
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

    def _death(self, job: Trial) -> PlackettError:
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

    def __init__(self, source: DataSource, setup: Setup, *, count: int, folder: Path) -> None:
        self.slots = count
        self._setup = setup
        self._scratch = scratch_in(folder)
        self._shared = share(source, self._scratch)
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        self._workers: list[Worker] = []
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="worker")

    def submit(self, job: Trial) -> Future[Outcome]:
        if self._idle.empty() and len(self._workers) < self.slots:
            self._workers.append(Worker(self._shared, self._setup))
            self._idle.put(self._workers[-1])
        return self._threads.submit(self._run, job)

    def _run(self, job: Trial) -> Outcome:
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


def worker_main() -> None:
    """Work until there is no more."""
    # Libraries that print must not print into the results.
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")
    orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, orders), daemon=True).start()
    start: Start = orders.get()
    source = start.source.open()
    while True:
        send(results, _answer(orders.get(), source, start.setup))


def _listen(stream: BinaryIO, orders: queue.SimpleQueue[Any]) -> None:
    while True:
        try:
            orders.put(receive(stream))
        except EOFError:
            os._exit(0)


def _answer(order: Order, source: DataSource, setup: Setup) -> Answer | Failure:
    try:
        trial = setup.protocol.trial(source, order.part)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always", ConvergenceWarning)
            found = run_trial(order.ranker, trial, metrics=setup.metrics, select=setup.select)
        cautions = (str(w.message) for w in seen if issubclass(w.category, ConvergenceWarning))
        return Answer(found, tuple(cautions))
    except Exception as error:
        return Failure(type(error).__name__, str(error), traceback.format_exc())


class RayTasks(Runner):
    """Runs trials on a cluster.

    Parameters
    ----------
    source
        The data; they go to each machine once.
    setup
        What the trials share; ``threads`` is what each gets.
    cluster
        Where; ``step_seconds`` limits the time between two steps of a trial (trees, epochs).
    """

    def __init__(self, source: DataSource, setup: Setup, cluster: Cluster) -> None:
        self._setup = setup
        self._futures: dict[int, tuple[Trial, Future[Outcome]]] = {}
        self._lock = threading.Lock()
        self._pool = TaskPool(cluster, run_task, (source, setup))
        self.slots = self._pool.slots
        self._listener = threading.Thread(target=self._listen, name="trials", daemon=True)
        self._listener.start()

    def submit(self, job: Trial) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        ranker = job.system.build(seed=job.part.seed, threads=self._setup.threads)
        with self._lock:
            number = len(self._futures)
            self._futures[number] = (job, future)
        self._pool.submit(number, (ranker, job.part))
        return future

    def _listen(self) -> None:
        try:
            while True:
                event = self._pool.next_event()
                if event is not None and event.kind != "message":
                    self._settle(event)
        except BaseException as error:  # whoever waits for a trial must learn of it
            with self._lock:
                waiting = [future for _, future in self._futures.values() if not future.done()]
            for future in waiting:
                future.set_exception(_with_hint(error))

    def _settle(self, event: TaskEvent) -> None:
        job, future = self._futures[event.number]
        if event.kind == "done":
            future.set_result(event.content)
        elif isinstance(event.content, ClusterError):
            error = ClusterError(f"{job.title}: {event.content}.")
            future.set_exception(_with_hint(error))
        else:
            future.set_exception(event.content)

    def close(self) -> None:
        self._pool.close()
        self._listener.join()


def _with_hint(error: BaseException) -> BaseException:
    if isinstance(error, ClusterError):
        return ClusterError(f"{error} Finished trials are kept.")
    return error


def run_task(
    common: tuple[DataSource, Setup], item: tuple[Ranker, Split], context: TaskContext
) -> Outcome:
    """Run one trial in a task of the cluster."""
    (source, setup), (ranker, split) = common, item
    trial = setup.protocol.trial(source, split)
    return run_trial(ranker, trial, metrics=setup.metrics, select=setup.select, progress=context)
