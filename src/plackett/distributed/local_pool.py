"""Worker processes on this machine, and data that they share.

loky runs the processes: each worker has its own share of the cores and runs one call at a time. This module adds what
comparisons, searches and cross-fits need: if a worker dies, the error says what it was running and shows the end of its
output; warnings of solvers reach the user; workers end with the process that started them.

Data are written once in memory-mapped form and opened by every worker, so the operating system
keeps one copy of their pages. Sparse features have no such form and are copied into each worker.
"""

import os
import pickle
import re
import shutil
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scipy.sparse import csr_array

from plackett.base.errors import ConvergenceWarning, PlackettError, UsageError, message_of
from plackett.data import Dataset, write
from plackett.data.mapped import open_mapped
from plackett.distributed.driver_process import Closing, rebuild_error, record_error

if TYPE_CHECKING:
    from loky import ProcessPoolExecutor


_THREAD_VARIABLES = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_SHOWN = 2000  # characters of the output of a worker that died
_PARENT_SECONDS = 0.5  # between checks whether the parent is alive
_PREFIX = ".shared-"


class LocalPool(Closing):
    """Worker processes; used in a ``with`` block, which kills them at its end.

    Each worker is a loky pool of size one, because loky fails all calls of a pool if a process dies, and the error must
    name the one call that was running. ``kept`` is a sentence for errors that says what is kept. Shared data and the
    output of workers go to a subfolder of ``folder``, which is removed at the end.
    """

    def __init__(
        self, count: int, *, threads: int | None, folder: Path, kept: str = "Finished trials are kept."
    ) -> None:
        self.slots = count
        """Number of calls that run at the same time."""
        self.threads = threads or os.cpu_count() or 1
        """Number of threads of each worker."""
        self.folder = _make_scratch(folder)
        """Where shared data are written; removed at the end."""
        self._kept = kept
        self._executors: list[ProcessPoolExecutor] = []
        self._idle: list[int] = []
        self._shared: tuple[Dataset, Path] | None = None
        self._n_shared = 0

    def submit(self, title: str, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Call a function in an idle worker, or a new one if none is idle; ``title`` is for messages."""
        worker = self._idle.pop() if self._idle else self._start_worker()
        result: Future[Any] = Future()
        call = self._executors[worker].submit(_call, function, arguments)
        call.add_done_callback(partial(self._settle, worker, title, result))
        return result

    def share(self, data: Dataset) -> Path:
        """Write data for the workers, unless they are the data last shared; see :func:`open_shared`."""
        if self._shared is None or self._shared[0] is not data:
            if self._shared is not None:  # from a finished fit; files that workers have open stay readable
                last = self._shared[1]
                shutil.rmtree(last, ignore_errors=True) if last.is_dir() else last.unlink()
            self._n_shared += 1
            self._shared = data, write_shared(data, self.folder / f"data-{self._n_shared}")
        return self._shared[1]

    def _start_worker(self) -> int:
        from loky import ProcessPoolExecutor

        number = len(self._executors)
        executor = ProcessPoolExecutor(
            1,
            initializer=_initialize_worker,
            initargs=(str(self._log(number)), os.getpid()),
            env=dict.fromkeys(_THREAD_VARIABLES, str(self.threads)),
        )
        self._executors.append(executor)
        return number

    def _settle(self, worker: int, title: str, result: Future[Any], call: Future[Any]) -> None:
        """Pass the outcome of a call on, with warnings and errors as in one process."""
        self._idle.append(worker)  # also if it died: after an error the pool is canceled or closed
        error = call.exception()
        if error is None:
            status, content, texts = call.result()
            for text in texts:
                warnings.warn(f"{title}: {text}", ConvergenceWarning, stacklevel=2)
            if status == "done":
                result.set_result(content)
                return
            error = rebuild_error(content)
        elif isinstance(error, pickle.PicklingError):
            error = UsageError(
                f"a model cannot be sent to another process ({error.__cause__ or error}); define "
                "functions and modules in a file that can be imported, or run one job at a time."
            )
        elif isinstance(error, BrokenProcessPool):
            error = self._death_error(worker, title, str(error))
        result.set_exception(error)

    def _death_error(self, worker: int, title: str, text: str) -> PlackettError:
        code = re.search(r"\w\((-?\d+)\)", text)  # loky writes SIGKILL(-9), EXIT(1)
        ended = f"ended with code {code[1]}" if code else "ended"
        reason = "; perhaps memory ran out: use fewer jobs" if code and code[1] == "-9" else ""
        log = self._log(worker)
        output = log.read_text(errors="replace").strip()[-_SHOWN:] if log.exists() else ""
        return PlackettError(
            f"the process that ran {title} {ended}{reason}. {self._kept}{' Its output: ' + output if output else ''}"
        )

    def _log(self, worker: int) -> Path:
        return self.folder / f"worker-{worker}.log"

    def cancel(self) -> None:
        """Kill the workers; the next call starts new ones."""
        for executor in self._executors:
            executor.shutdown(kill_workers=True)
        self._executors, self._idle = [], []

    def close(self) -> None:
        """Kill the workers and remove the shared data."""
        self.cancel()
        shutil.rmtree(self.folder, ignore_errors=True)


def _initialize_worker(log: str, parent: int) -> None:
    """Prepare a worker process before its first call."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which kills workers
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(output, stream.fileno())
    warnings.simplefilter("ignore")
    threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()


def _exit_with_parent(parent: int) -> None:
    """Exit when the parent is gone, also in the middle of a call."""
    while os.getppid() == parent:
        time.sleep(_PARENT_SECONDS)
    os._exit(1)


def _call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[str, Any, list[str]]:
    """Call a function in a worker: whether it succeeded, its result or error, and warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            status, content = "done", function(*arguments)
        except Exception as error:
            status, content = "failed", record_error(error)
    texts = [message_of(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    return status, content, texts


def write_shared(data: Dataset, path: Path) -> Path:
    """Write a dataset for the workers; returns the path, which has a suffix added."""
    if isinstance(data.features, csr_array):
        target = path.with_suffix(".pickle")
        target.write_bytes(pickle.dumps(data, protocol=pickle.HIGHEST_PROTOCOL))
        return target
    target = path.with_suffix(".pkdata")
    write(data, target)
    return target


def open_shared(path: Path) -> Dataset:
    """Open what :func:`write_shared` has written."""
    if path.suffix == ".pickle":  # written by this program, in a folder of its own
        data: Dataset = pickle.loads(path.read_bytes())
        return data
    return open_mapped(path, missing="nan")


def _make_scratch(folder: Path) -> Path:
    """Make a folder for shared data; remove those that killed processes left behind."""
    folder.mkdir(parents=True, exist_ok=True)
    prefix = f"{_PREFIX}{socket.gethostname()}-"
    for old in folder.glob(f"{prefix}*"):
        process = old.name.removeprefix(prefix)
        if not (process.isdigit() and is_running(int(process))):
            shutil.rmtree(old, ignore_errors=True)
    new = folder / f"{prefix}{os.getpid()}"
    new.mkdir(exist_ok=True)
    return new


def is_running(process: int) -> bool:
    """Whether a process with this id exists on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
