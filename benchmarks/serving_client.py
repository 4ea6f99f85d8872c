"""Clients for ``serving.py``: wrk if it is installed, else a Python client; and checks.

Each client sends bodies in turn over some connections that stay open, for some seconds, and reports
requests per second and latencies. Both servers get the same client.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# wrk sends the bodies in turn and prints latencies in microseconds at the end.
LUA = """
local bodies = {}
for path in string.gmatch(os.getenv("BODIES"), "[^:]+") do
  local file = io.open(path, "rb"); bodies[#bodies + 1] = file:read("*a"); file:close()
end
local requests, turn = {}, 0
init = function(args)
  for i, body in ipairs(bodies) do
    local headers = {["Content-Type"] = os.getenv("KIND")}
    requests[i] = wrk.format("POST", os.getenv("TARGET"), headers, body)
  end
end
request = function() turn = turn % #requests + 1; return requests[turn] end
done = function(summary, latency, requests)
  io.write(string.format("RESULT %d %d %d %d %d %d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), summary.errors.status,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout))
end
"""


@dataclass(frozen=True)
class Load:
    """What a client saw in one turn."""

    requests: int
    seconds: float
    p50: float
    p99: float
    errors: int

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


def load(port: int, bodies: list[Path], kind: str, connections: int, seconds: float, target: str = "/rank") -> Load:
    """Send bodies in turn for some seconds."""
    if shutil.which("wrk"):
        return _run_wrk(port, bodies, kind, connections, seconds, target)
    requests = [_head(kind, target, path.stat().st_size) + path.read_bytes() for path in bodies]
    return asyncio.run(_run_client(port, requests, connections, seconds))


def _run_wrk(port: int, bodies: list[Path], kind: str, connections: int, seconds: float, target: str) -> Load:
    script = bodies[0].with_name("load.lua")
    script.write_text(LUA)
    command = ["wrk", "--threads", "1", "--connections", str(connections)]
    command += ["--duration", f"{max(round(seconds), 1)}s", "--timeout", "20s"]
    command += ["--script", str(script), f"http://127.0.0.1:{port}{target}"]
    environment = {"BODIES": ":".join(map(str, bodies)), "KIND": kind, "TARGET": target}
    environment["PATH"] = "/usr/bin:/bin"
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=seconds + 60)
    found = re.search(r"^RESULT (.*)$", run.stdout, re.M)
    assert found is not None, run.stdout + run.stderr
    n, duration, p50, p99, bad, lost = (int(word) for word in found.group(1).split())
    return Load(n, duration / 1e6, p50 / 1e6, p99 / 1e6, bad + lost)


async def _run_client(port: int, requests: list[bytes], connections: int, s: float) -> Load:
    end = time.perf_counter() + s
    times: list[float] = []
    errors = 0

    async def one(first: int) -> None:
        nonlocal errors
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        turn = first
        while time.perf_counter() < end:
            request = requests[turn % len(requests)]
            turn += 1
            start = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head, re.I)
            assert length is not None
            await reader.readexactly(int(length.group(1)))
            times.append(time.perf_counter() - start)
            errors += not head.startswith(b"HTTP/1.1 200")
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(one(i) for i in range(connections)))
    seconds = time.perf_counter() - began
    p50, p99 = (float(np.percentile(times, p)) for p in (50, 99))
    return Load(len(times), seconds, p50, p99, errors)


def _head(kind: str, target: str, length: int) -> bytes:
    return (
        f"POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def ask(port: int, body: bytes, kind: str = "application/json", path: str = "/rank") -> dict[str, Any]:
    """One answer of a server."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=body, headers={"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=30) as response:
        answer: dict[str, Any] = json.load(response)
    return answer


def metric(port: int, name: str) -> float:
    """A number from the server's metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
        text = response.read().decode()
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")))
