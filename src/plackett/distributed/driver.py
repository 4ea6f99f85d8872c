"""The process that speaks with Ray, seen from the one that wants the work done.

Ray ends a process, without asking, when the head of its cluster is gone; and nothing that waits
for another machine is safe from waiting for ever. So Ray is used from a process of its own: this
side only sends work, reads messages, looks at the clock, and ends that process when time is up.
With it end the workers it has started, also those on other machines.

Messages between a process and the one that speaks with Ray for it, over pipes.

Objects are pickled with Ray's cloudpickle, so that objectives and modules defined in a user's own
script can go to other machines.

The process that speaks with Ray: connects, does the work it is sent, and ends.

``python -m plackett.distributed.driver`` is started by :mod:`plackett.distributed.driver`, not by
people. It ends, and Ray's workers with it, when the process that started it does.
"""

from __future__ import annotations

import os
import pickle
import queue
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from plackett.base.errors import ClusterError, DataError, PlackettError, UsageError
from plackett.base.optional import need_ray
from plackett.distributed.cluster import Cluster
from plackett.distributed.session import SCRATCH, connected, disconnect

_CHILD_PROGRAM = "from plackett.distributed.driver import child_main; child_main()"
_PROTOCOL = 5  # arrays are written as they are, without a copy


class Pipe:
    """One end of a line."""

    def __init__(self, incoming: IO[bytes], outgoing: IO[bytes]) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._received: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self.closed = threading.Event()
        """Set when the other side is gone."""
        self._listener = threading.Thread(target=self._listen, name="line", daemon=True)
        self._listener.start()

    def send(self, message: Any) -> None:
        """Send a message; BrokenPipeError if the other side is gone."""
        from ray.cloudpickle import CloudPickler

        with self._guard:
            CloudPickler(self._outgoing, protocol=_PROTOCOL).dump(message)
            self._outgoing.flush()

    def receive(self, seconds: float) -> Any:
        """The next message; TimeoutError if there is none in time, EOFError at the end."""
        try:
            found = self._received.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None
        if isinstance(found, EOFError):
            raise found
        return found

    def _listen(self) -> None:
        try:
            while True:
                self._received.put(pickle.load(self._incoming))
        except Exception as error:  # whatever breaks a line ends it
            self.closed.set()
            self._received.put(EOFError(str(error)))

    def join(self) -> None:
        """Wait for the thread that listens; the other side must be gone."""
        self._listener.join()


_KINDS: dict[str, type[Exception]] = {
    "ClusterError": ClusterError,
    "DataError": DataError,
    "ImportError": ImportError,
    "UsageError": UsageError,
}
"""Errors whose text is for the user; others come with their trace."""
_SHOWN = 1500  # characters of what a process that died had to say
_CLOSING = 15.0  # seconds that the process has to end Ray in good order
_LOOK = 0.5  # seconds between looks at the clock
_LOOPBACK = ("127.0.0.1:", "localhost:")
_LOST = ("Failed to connect to GCS", "GCS may have been killed", "gcs_server", "Raylet is term")


class DriverProcess:
    """Runs ``work(line, *arguments)`` in a process that is connected to a cluster.

    Parameters
    ----------
    cluster
        Where.
    work
        A function of a module, called with its end of the line and the arguments.
    arguments
        What else it is given.
    """

    def __init__(self, cluster: Cluster, work: Callable[..., None], *arguments: Any) -> None:
        need_ray()
        self._cluster = cluster
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        # Short, because paths of sockets must be; made here, because Ray may end that process.
        temporary = "/tmp" if os.path.isdir("/tmp") else None
        self._scratch = tempfile.mkdtemp(prefix="plk", dir=temporary)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CHILD_PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=os.environ | _surroundings(cluster) | {SCRATCH: self._scratch},
            # Ctrl-C is for the process that the user started; it ends this one.
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._line = Pipe(self._process.stdout, self._process.stdin)
        try:
            self.send((cluster, work, arguments))
        except BaseException:
            self.close()
            raise

    def send(self, message: Any) -> None:
        """Send a message to the work."""
        try:
            self._line.send(message)
        except BrokenPipeError:
            raise self._death() from None

    def receive(self, deadline: float, late: Callable[[], str]) -> tuple[str, Any]:
        """The next message; what has failed there is raised here.

        Parameters
        ----------
        deadline
            On the monotonic clock: what comes later is not waited for.
        late
            Says what was waited for, when time is up.
        """
        while True:
            try:
                kind, content = self._line.receive(min(_LOOK, max(deadline - time.monotonic(), 0)))
            except TimeoutError:
                if time.monotonic() >= deadline:
                    raise ClusterError(late()) from None
                continue
            except EOFError:
                raise self._death() from None
            if kind == "failed":
                raise rebuild_error(*content)
            return kind, content

    def finish(self, seconds: float) -> None:
        """Wait, but not for long, until the work has put everything in order."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with suppress(TimeoutError, EOFError):
                if self._line.receive(_LOOK)[0] == "over":
                    return
            if self._line.closed.is_set():
                return

    def _death(self) -> PlackettError:
        try:
            code = self._process.wait(timeout=_CLOSING)
        except subprocess.TimeoutExpired:
            return ClusterError(f"the process that spoke with {self._cluster.place} hung up.")
        said = self._words()
        if any(sign in said for sign in _LOST):
            return ClusterError(
                f"the connection to {self._cluster.place} is lost: its head is gone. Start the "
                "cluster again, and the work: it goes on from its checkpoint, if it has one."
            )
        return ClusterError(
            f"the process that spoke with {self._cluster.place} ended with code {code}."
            f"{' It said: ' + said if said else ''}"
        )

    def _words(self) -> str:
        self._said.seek(0)
        return self._said.read().decode(errors="replace").strip()[-_SHOWN:]

    def close(self) -> None:
        """End the process, and with it all workers."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=_CLOSING)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._line.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._said.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> DriverProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def rebuild_error(kind: str, text: str, trace: str) -> Exception:
    """An error of another process, for this one: of the same kind if its text is for people."""
    known = _KINDS.get(kind)
    return RuntimeError(trace) if known is None else known(text)


def _surroundings(cluster: Cluster) -> dict[str, str]:
    """Environment of the process, and so of whatever Ray starts for it."""
    answer = str(cluster.answer_seconds)
    found = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DEDUP_LOGS": "0",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "RAY_gcs_rpc_server_reconnect_timeout_s": str(max(1, round(cluster.answer_seconds))),
        "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
        "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S": answer,
        "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": str(cluster.start_seconds),
        "RAY_TRAIN_COLLECTIVE_TIMEOUT_S": str(cluster.start_seconds),
        # Watches for machines that a cloud takes back with a warning; costs a process per attempt.
        "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
        "RAY_TRAIN_METRICS_ENABLED": "0",
        "OMP_WAIT_POLICY": "passive",
        "PYTHONWARNINGS": "ignore",
    }
    if cluster.address is None or cluster.address.startswith(_LOOPBACK):
        # The only setting by which Ray takes the loopback address for its own.
        found["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    if cluster.address is None:
        # Nobody else on this machine may use it. Ray would write its token into the user's home.
        found |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    return found


_PATIENCE = 600.0  # seconds for the work to arrive; it may be large
_ENDING = 8.0  # seconds for Ray to end in good order


def child_main() -> None:
    """Do one piece of work."""
    # Libraries that print must not print into the messages.
    outgoing = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")
    line = Pipe(sys.stdin.buffer, outgoing)
    threading.Thread(target=_leave_with, args=(line,), daemon=True).start()
    try:
        cluster, work, arguments = line.receive(_PATIENCE)
        assert isinstance(cluster, Cluster)
        with connected(cluster):
            work(line, *arguments)
            line.send(("over", None))
    except Exception as error:
        line.send(("failed", (type(error).__name__, str(error), traceback.format_exc())))
    line.closed.wait()


def _leave_with(line: Pipe) -> None:
    """End when the other side does, in good order if that is quick."""
    line.closed.wait()
    ending = threading.Thread(target=disconnect, daemon=True)
    ending.start()
    ending.join(_ENDING)
    os._exit(0)
