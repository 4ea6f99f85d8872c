"""Ray for tests: on the loopback address, in processes that the tests start and end themselves."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SECONDS = 120.0
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # the loopback address may be a node's own
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_worker_niceness": "0",  # by default 15: beside other tests, workers would have no core
    "OMP_WAIT_POLICY": "passive",
    "PYTHONWARNINGS": "ignore",
}


@dataclass
class Head:
    """A running Ray."""

    process: subprocess.Popen[bytes]
    port: int

    def cluster(self, **settings: object) -> str:
        settings = {"workers": 2, **settings}
        text = "&".join(f"{name}={value}" for name, value in settings.items())
        return f"127.0.0.1:{self.port}?{text}"

    def running(self, name: str) -> list[int]:
        """Process ids under this Ray whose command begins so."""
        return [pid for pid in descendants(self.process.pid) if command(pid).startswith(name)]

    def kill_server(self) -> None:
        """End the process without which no other can speak."""
        programs = {pid: os.readlink(f"/proc/{pid}/exe") for pid in self.running("/")}
        (server,) = [pid for pid, program in programs.items() if "gcs_server" in Path(program).name]
        os.kill(server, signal.SIGKILL)


def start(
    *arguments: str, prefix: tuple[str, ...] = (), environment: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """``ray start`` with these arguments, as a process that ends Ray when it ends."""
    ray = Path(sys.executable).with_name("ray")
    return subprocess.Popen(
        [*prefix, str(ray), "start", *arguments, "--block", "--disable-usage-stats"],
        env=os.environ | QUIET if environment is None else environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@contextmanager
def head() -> Iterator[Head]:
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")  # paths of sockets must be short
    port = free_port()
    process = start(
        "--head",
        "--node-ip-address=127.0.0.1",
        f"--port={port}",
        "--num-cpus=2",
        "--include-dashboard=false",
        "--object-store-memory=100000000",
        f"--temp-dir={folder}",
    )
    try:
        wait_for(lambda: _answers(port))
        yield Head(process, port)
    finally:
        end(process)
        shutil.rmtree(folder, ignore_errors=True)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all it has started, by their ids."""
    started = descendants(process.pid)
    process.kill()
    process.wait(timeout=20)
    for pid in started:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def descendants(process: int) -> list[int]:
    parents: dict[int, int] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                fields = (path / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents[int(path.name)] = int(fields[1])
    actual, new = [], [process]
    while new:
        new = [pid for pid, parent in parents.items() if parent in new]
        actual += new
    return actual


def command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def wait_for(condition: Callable[[], bool], seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
