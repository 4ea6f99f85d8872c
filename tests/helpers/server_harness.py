"""Asking an app without a network, and starting real servers on loopback."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass

from plackett.serving.server import App, Examples, ModelRegistry, Settings
from plackett.serving.server.registry import ModelSource
from plackett.serving.server.telemetry import Log

JSON = "application/json"
TOKEN = "correct-horse-battery"


@dataclass
class Answer:
    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def detail(self):
        return self.json["detail"]


async def call(app, method, path, body=b"", headers=None, chunks=None, kind=JSON, pause=0.0):
    """One request through ASGI; ``chunks`` are parts of a body, each after a pause."""
    parts = [body] if chunks is None else list(chunks)
    sent = {}
    inputs = {"host": "127.0.0.1:8000", "content-type": kind, **(headers or {})}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [(k.encode(), v.encode("latin-1")) for k, v in inputs.items()],
    }

    async def receive():
        await asyncio.sleep(pause)
        if not parts:
            return {"type": "http.disconnect"}
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message):
        if message["type"] == "http.response.start":
            sent["status"] = message["status"]
            sent["headers"] = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            sent["body"] = sent.get("body", b"") + message["body"]

    await app(scope, receive, send)
    return Answer(sent["status"], sent["headers"], sent["body"]) if sent else None


def ask(app, method, path, body=b"", **options):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return asyncio.run(call(app, method, path, body, **options))


@contextmanager
def app_of(models, **settings):
    """An app over saved models, and what it logs."""
    stream = io.StringIO()
    registry = ModelRegistry([ModelSource(name, path) for name, path in models.items()])
    examples = settings.pop("examples", None)
    app = App(registry, Settings(**settings), log=Log(stream), examples=examples or Examples())
    app.stream = stream
    try:
        yield app
    finally:
        app.close()


def logged(app):
    return [json.loads(line) for line in app.stream.getvalue().splitlines()]


# ---- real servers -------------------------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """``plackett serve`` in a process of its own."""

    def __init__(self, models, *options, port=None, token=None, log):
        self.port = port or free_port()
        self.log = log
        command = [sys.executable, "-m", "plackett", "serve", *map(str, models)]
        command += ["--port", str(self.port), *options]
        environment = {k: v for k, v in os.environ.items() if k != "PLACKETT_TOKEN"}
        if token is not None:
            environment["PLACKETT_TOKEN"] = token
        with log.open("a") as out:
            self.process = subprocess.Popen(command, stderr=out, stdout=out, env=environment)

    def wait_until_ready(self, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log.read_text()
            try:
                if self.ask("GET", "/ready")[0] == 200:
                    return self
            except OSError:
                time.sleep(0.05)
        raise AssertionError(f"not ready: {self.log.read_text()}")

    def connect(self, timeout=30):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def ask(self, method, path, body=b"", headers=None, timeout=30):
        """Status and body of an answer, over a connection of its own."""
        with self.connect(timeout) as connection:
            connection.sendall(message(method, path, body, headers))
            return answer_of(connection)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=30)

    def lines(self):
        return [json.loads(line) for line in self.log.read_text().splitlines() if line[:1] == "{"]


def message(method, path, body=b"", headers=None):
    inputs = {"Host": "127.0.0.1", "Content-Type": JSON, "Content-Length": str(len(body))}
    inputs |= headers or {}
    lines = "".join(f"{k}: {v}\r\n" for k, v in inputs.items() if v is not None)
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def answer_of(connection):
    """Status and body of the next answer; OSError if the connection ends before it."""
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(65536)
        if not part:
            raise ConnectionError(f"closed after {received!r}")
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    length = int(fields.get(b"content-length", 0))
    while len(body) < length:
        part = connection.recv(65536)
        if not part:
            raise ConnectionError("closed within a body")
        body += part
    return int(head.split()[1]), body
