"""The driver process: a child process that owns the connection to Ray.

Ray terminates a process that is connected to a cluster whose head fails, and a call that waits for
another machine may never return. The user's process therefore never connects to Ray. It starts a
child, sends it work over a pipe, reads messages with a time limit, and kills the child when the time
is up. The workers that the child has started end with it, also on other machines.

Messages are pickled with Ray's cloudpickle, so objectives and modules that are defined in a user's
script can be sent to other machines.

Only the driver process is connected to Ray; the user's process uses only Ray's cloudpickle.

It has nothing to do with :mod:`plackett.objectives.driver`, the compiled loop over lists.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from plackett.base.errors import ClusterError, DataError, FeatureMismatch, PlackettError, UsageError, require
from plackett.distributed.cluster import Cluster

if TYPE_CHECKING:
    from typing_extensions import Self

_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
_STORE_BYTES = 512 << 20  # shared memory if Ray is started here; more data goes to disk
SCRATCH = "PLACKETT_CLUSTER_SCRATCH"
"""Environment variable that holds the folder for Ray's files."""
_shutdown_lock = threading.Lock()


@contextmanager
def ray_session(cluster: Cluster) -> Iterator[None]:
    """Connect to Ray, or start it, for the duration of the block."""
    import ray

    try:
        if cluster.address is None:
            ray.init(
                address="local",
                num_cpus=cluster.local_workers * cluster.threads,
                include_dashboard=False,
                object_store_memory=_STORE_BYTES,
                _temp_dir=str(scratch_folder()),
                **_QUIET,
            )
        else:
            _connect(cluster)
        yield
    finally:
        disconnect()


def scratch_folder() -> Path:
    """The folder for Ray's files; both the driver and its parent remove it."""
    return Path(os.environ[SCRATCH])


def disconnect() -> None:
    """Disconnect from Ray, and stop it if it was started here."""
    import ray

    with _shutdown_lock:
        with suppress(Exception):
            ray.shutdown()
        shutil.rmtree(scratch_folder(), ignore_errors=True)


def on_this_node() -> Any:
    """Scheduling strategy that places an actor on this machine.

    If this machine fails, the work ends anyway; if another one fails, no messages are lost.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)


def count_workers(cluster: Cluster) -> int:
    """Number of workers to start: as configured, or as many as there is room for."""
    import ray

    if cluster.workers is not None:
        return cluster.workers
    nodes = [node for node in ray.nodes() if node["Alive"]]
    count = sum(int(node["Resources"].get("CPU", 0)) // cluster.threads for node in nodes)
    if count == 0:
        raise ClusterError(f"{cluster.location} has no machine with {cluster.threads} cores.")
    return count


def describe_resources() -> str:
    """The machines and cores of the cluster, as text for messages."""
    import ray

    total, free = ray.cluster_resources(), ray.available_resources()
    nodes = sum(1 for node in ray.nodes() if node["Alive"])
    return (
        f"the cluster has {nodes} machine{'' if nodes == 1 else 's'} with "
        f"{total.get('CPU', 0):g} cores, {free.get('CPU', 0):g} of them free"
    )


def _connect(cluster: Cluster) -> None:
    """Connect within the time limit; Ray itself would wait for minutes."""
    import ray

    reason = [f" within {cluster.start_seconds:g} s"]

    def connect() -> None:
        try:
            ray.init(address=cluster.address, **_QUIET)
            reason.clear()
        except BaseException as error:
            reason[0] = f": {error}"

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(cluster.start_seconds)
    failure = "".join(reason)  # the thread may end now
    if failure:
        raise ClusterError(
            f"{cluster.location} cannot be reached{failure}. Is it running (`ray status`), and is this machine part "
            "of it?"
        )


_CHILD_PROGRAM = "from plackett.distributed.driver_process import child_main; child_main()"
_PICKLE_PROTOCOL = 5  # writes arrays without copying them
_ERRORS: dict[str, type[Exception]] = {
    kind.__name__: kind for kind in (ClusterError, FeatureMismatch, DataError, UsageError, PlackettError, ImportError)
}
"""Errors whose text is written for the user; of others the traceback is shown."""
_SHOWN = 1500  # characters of the output of a process that died
_CLOSE_SECONDS = 15.0  # for the child to shut Ray down
_POLL_SECONDS = 0.5  # between checks of the deadline
_LOOPBACK = ("127.0.0.1:", "localhost:")
_HEAD_LOST = ("Failed to connect to GCS", "GCS may have been killed", "gcs_server", "Raylet is term")

ErrorRecord = tuple[str, str, str]
"""An exception as it is sent to another process: the name of its class, or of the nearest one in ``_ERRORS``, its text
and its traceback."""


class Pipe:
    """One end of a two-way channel of pickled messages.

    A thread reads incoming messages, so that a broken channel is noticed at once.
    """

    def __init__(self, incoming: IO[bytes], outgoing: IO[bytes]) -> None:
        self.incoming, self.outgoing = incoming, outgoing
        self._received: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._send_lock = threading.Lock()
        self.closed = threading.Event()
        """Set when the other process has ended."""
        self._reader = threading.Thread(target=self._read, name="pipe", daemon=True)
        self._reader.start()

    def send(self, message: Any) -> None:
        """Send a message; BrokenPipeError if the other process has ended."""
        from ray.cloudpickle import CloudPickler

        with self._send_lock:
            CloudPickler(self.outgoing, protocol=_PICKLE_PROTOCOL).dump(message)
            self.outgoing.flush()

    def receive(self, seconds: float) -> Any:
        """Return the next message; TimeoutError if none arrives in time, EOFError at the end."""
        try:
            message = self._received.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None
        if isinstance(message, EOFError):
            raise message
        return message

    def _read(self) -> None:
        try:
            while True:
                self._received.put(pickle.load(self.incoming))
        except Exception as error:  # any failure to read ends the channel
            self.closed.set()
            self._received.put(EOFError(str(error)))

    def join(self) -> None:
        """Wait for the reading thread; the other process must have ended."""
        self._reader.join()


class Closing:
    """Base class of context managers: the end of the ``with`` block calls ``close``."""

    def close(self) -> None:
        """Release all resources."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class DriverProcess(Closing):
    """Runs ``function(pipe, *arguments)`` in a child process that is connected to a cluster.

    The function is at module level; ``pipe`` is its end of the pipe.
    """

    def __init__(self, cluster: Cluster, function: Callable[..., None], *arguments: Any) -> None:
        require("ray")
        self._cluster = cluster
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        # The name is short, because the length of socket paths is limited. The folder is made here,
        # because Ray may kill the child before the child can remove it.
        parent_folder = "/tmp" if os.path.isdir("/tmp") else None
        self._scratch = tempfile.mkdtemp(prefix="plk", dir=parent_folder)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CHILD_PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=os.environ | _environment(cluster) | {SCRATCH: self._scratch},
            # Only the user's process receives Ctrl-C; it then ends the child.
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._pipe = Pipe(self._process.stdout, self._process.stdin)
        try:
            self.send((cluster, function, arguments))
        except BaseException:
            self.close()
            raise

    def send(self, message: Any) -> None:
        """Send a message to the function."""
        try:
            self._pipe.send(message)
        except BrokenPipeError:
            raise self._death_error() from None

    def receive(self, deadline: float, timeout_message: str) -> tuple[str, Any]:
        """Return the next message; an exception of the child is raised here, a ClusterError at the deadline."""
        while True:
            seconds = min(_POLL_SECONDS, max(deadline - time.monotonic(), 0))
            try:
                kind, content = self._pipe.receive(seconds)
            except TimeoutError:
                if time.monotonic() >= deadline:
                    raise ClusterError(timeout_message) from None
                continue
            except EOFError:
                raise self._death_error() from None
            if kind == "failed":
                raise rebuild_error(content)
            return kind, content

    def finish(self, seconds: float) -> None:
        """Wait until the function has returned, at most ``seconds``."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self._pipe.closed.is_set():
            with suppress(TimeoutError, EOFError):
                if self._pipe.receive(_POLL_SECONDS)[0] == "over":
                    return

    def _death_error(self) -> PlackettError:
        location = self._cluster.location
        try:
            code = self._process.wait(timeout=_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            return ClusterError(f"the process connected to {location} closed its pipe.")
        self._log.seek(0)
        text = self._log.read().decode(errors="replace")
        # After the reason, Ray writes its state in thousands of lines.
        output = "\n".join(line for line in text.splitlines() if "[state-dump]" not in line).strip()[-_SHOWN:]
        if any(sign in output + text[-_SHOWN:] for sign in _HEAD_LOST):
            return ClusterError(
                f"the connection to {location} is lost: its head is gone. Start the cluster again, "
                "then run the same again: it continues from its checkpoint, if it has one."
            )
        return ClusterError(
            f"the process connected to {location} ended with code {code}. Run the same again: it continues from its "
            f"checkpoint, if it has one.{' Its output: ' + output if output else ''}"
        )

    def close(self) -> None:
        """End the child process and with it all workers."""
        with suppress(BrokenPipeError):
            self._pipe.outgoing.close()
        try:
            self._process.wait(timeout=_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._pipe.join()
        self._pipe.incoming.close()
        self._log.close()
        shutil.rmtree(self._scratch, ignore_errors=True)


def record_error(error: BaseException) -> ErrorRecord:
    """Describe the exception that is being handled, for another process."""
    name = next((kind.__name__ for kind in type(error).mro() if kind.__name__ in _ERRORS), type(error).__name__)
    return name, str(error), traceback.format_exc()


def rebuild_error(record: ErrorRecord) -> Exception:
    """Make an exception from its record: of the same class if its text is for the user."""
    name, text, trace = record
    return _ERRORS[name](text) if name in _ERRORS else RuntimeError(trace)


def _environment(cluster: Cluster) -> dict[str, str]:
    """Environment variables of the child and of the processes that Ray starts for it."""
    variables = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DEDUP_LOGS": "0",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "RAY_gcs_rpc_server_reconnect_timeout_s": str(max(1, round(cluster.answer_seconds))),
        "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
        "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S": str(cluster.answer_seconds),
        "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": str(cluster.start_seconds),
        "RAY_TRAIN_COLLECTIVE_TIMEOUT_S": str(cluster.start_seconds),
        # This watches for cloud machines that are about to be reclaimed; it costs a process per attempt.
        "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
        "RAY_TRAIN_METRICS_ENABLED": "0",
        "OMP_WAIT_POLICY": "passive",
        "PYTHONWARNINGS": "ignore",
    }
    if cluster.address is None or cluster.address.startswith(_LOOPBACK):
        # No other setting makes Ray use the loopback address as its own.
        variables["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    if cluster.address is None:
        # Keep other users of this machine out. Ray would write its token into the user's home.
        variables |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    return variables


_WORK_SECONDS = 600.0  # for the work to arrive, which may be large
_SHUTDOWN_SECONDS = 8.0  # for Ray to shut down


def child_main() -> None:
    """Run the function that the parent sends. The program of the child process."""
    # Output that libraries print must not be mixed with the messages.
    outgoing = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")
    pipe = Pipe(sys.stdin.buffer, outgoing)
    threading.Thread(target=_exit_with_parent, args=(pipe,), daemon=True).start()
    try:
        cluster, function, arguments = pipe.receive(_WORK_SECONDS)
        assert isinstance(cluster, Cluster)
        with ray_session(cluster):
            function(pipe, *arguments)
            pipe.send(("over", None))
    except Exception as error:
        pipe.send(("failed", record_error(error)))
    pipe.closed.wait()


def _exit_with_parent(pipe: Pipe) -> None:
    """Exit when the parent has ended, after shutting Ray down if that is quick."""
    pipe.closed.wait()
    shutdown = threading.Thread(target=disconnect, daemon=True)
    shutdown.start()
    shutdown.join(_SHUTDOWN_SECONDS)
    os._exit(0)
