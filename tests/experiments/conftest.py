"""A run store of each kind: a SQLite file, and a PostgreSQL server where one can be started."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest


def _binaries() -> Path | None:
    """Folder of initdb and postgres; Debian keeps them off the path."""
    actual = shutil.which("initdb")
    if actual is not None:
        return Path(actual).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return versions[-1].parent if versions else None


def _account() -> str | None:
    """PostgreSQL refuses to run as root: the account to run it as then."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in known), None)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A PostgreSQL server of our own, on the loopback address and without fsync."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.folder, self.binaries, self.account = folder, binaries, _account()
        if self.account is not None:
            shutil.chown(folder, self.account)
        self._run("initdb", "-D", folder / "data", "-A", "trust", "-U", "plackett", "--no-sync")
        self.port = _free_port()
        self.start()

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self.binaries / program), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, user=self.account, cwd="/", check=False)
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        options = f"-p {self.port} -k {self.folder} -F -c listen_addresses=127.0.0.1 -c max_connections=20"
        log = self.folder / "log"
        data = self.folder / "data"
        self._run("pg_ctl", "-D", data, "-l", log, "-o", options, "-w", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-w", "stop")

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://plackett@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The URL of an empty database."""
        import psycopg

        name = f"t{uuid.uuid4().hex}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra: team)")
    binaries = _binaries()
    if binaries is None:
        pytest.skip("there is no PostgreSQL server here (Debian's package: postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="plackett-postgresql-"))
    server = Server(binaries, folder)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty store may be made."""
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    server: Server = request.getfixturevalue("postgresql")
    return server.new_database()
