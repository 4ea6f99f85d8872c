"""A server for minutes or hours at 80 % of its capacity, with reloads, bad clients and slow clients, then overload.

    python tests/soak/server.py [--minutes 60] [--share 0.8]

Fails if a request is dropped or answered wrongly, if memory grows by more than a tenth between the second and the last
quarter, or if a server beyond its capacity does anything but answer 200 or 503 with Retry-After. All on loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import plackett as pk
from server_harness import Process, message

CLIENTS, DOCUMENTS, FEATURES = 8, 100, 46
RELOAD_SECONDS = 5.0
BAD = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"POST /rank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\n{{{{{",
    b"POST /rank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n",
    b"POST /rank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 500\r\n\r\n{",  # and leaves
    b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: localhost\r\n\r\n",
    b"\x16\x03\x01\x02\x00" * 20,
]


class Client:
    """One connection that stays open, and opens again if the server closed it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer."""
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        try:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = head.split("\r\n")
            headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines[1:])}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            raise
        if headers.get("connection") == "close":
            self.close()
        return int(lines[0].split()[1]), headers, body

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


class Seen:
    """What the clients saw."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.dropped = self.wrong = 0
        self.latencies: list[float] = []

    def p(self, share: float) -> float:
        return float(np.quantile(self.latencies, share)) if self.latencies else float("nan")


async def send(port: int, request: bytes, right: list[list[float]], rate: float | None, end: float, seen: Seen) -> None:
    """Requests at an average rate, or one after another; latencies count from when a request was due."""
    client, due = Client(port), time.monotonic() + random.random() * (0.0 if rate is None else CLIENTS / rate)
    while due < end:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        try:
            status, headers, body = await client.ask(request)
        except (OSError, asyncio.IncompleteReadError):
            seen.dropped += 1
        else:
            seen.statuses[status] += 1
            seen.latencies.append(time.monotonic() - due)
            if status == 200:
                seen.wrong += json.loads(body)["scores"] not in right
            else:
                seen.wrong += status != 503 or "retry-after" not in headers
        due = time.monotonic() if rate is None else due + random.expovariate(rate / CLIENTS)
    client.close()


async def disturb(port: int, end: float, counts: Counter[str]) -> None:
    """Clients that send nonsense, leave, or send one byte at a time."""
    while time.monotonic() < end:
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            if random.random() < 0.3:
                for byte in b"POST /rank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\n{}":
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0.05)
                counts["slow"] += 1
            else:
                writer.write(random.choice(BAD))
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(reader.read(1000), 0.5)
                counts["bad"] += 1
            writer.close()
        await asyncio.sleep(0.2)


async def reload(models: list[pk.LinearRanker], folder: Path, end: float, counts: Counter[str]) -> None:
    """Two models in turn in the place of the served one."""
    while time.monotonic() < end:
        counts["reloads"] += 1
        await asyncio.to_thread(models[counts["reloads"] % 2].save, folder)
        await asyncio.sleep(RELOAD_SECONDS)


async def watch(process: int, end: float, memory: list[float]) -> None:
    """Megabytes of the server, every second."""
    while time.monotonic() < end:
        text = Path(f"/proc/{process}/status").read_text()
        memory.append(int(text.split("VmRSS:")[1].split()[0]) / 1024)
        await asyncio.sleep(1.0)


async def soak(server: Process, models: list[Any], folder: Path, request: bytes, right: Any, options: Any) -> bool:
    """The three phases; whether all is well."""
    port, process = server.port, server.process.pid
    capacity = Seen()
    begin = time.monotonic()
    await asyncio.gather(*(send(port, request, right, None, begin + 10, capacity) for _ in range(CLIENTS)))
    full = sum(capacity.statuses.values()) / (time.monotonic() - begin)
    rate = options.share * full
    print(f"capacity {full:,.0f} requests/s, p99 {1e3 * capacity.p(0.99):.0f} ms; then {rate:,.0f} requests/s")

    seen, counts, memory = Seen(), Counter(), []
    end = time.monotonic() + 60 * options.minutes
    work = [send(port, request, right, rate, end, seen) for _ in range(CLIENTS)]
    work += [disturb(port, end, counts) for _ in range(3)]
    await asyncio.gather(*work, reload(models, folder, end, counts), watch(process, end, memory))
    quarter = max(len(memory) // 4, 1)
    early, late = np.median(memory[quarter : 2 * quarter]), np.median(memory[-quarter:])
    print(
        f"{sum(seen.statuses.values()):,} requests {dict(seen.statuses)}, {seen.dropped} dropped, {seen.wrong} wrong, "
        f"p50 {1e3 * seen.p(0.5):.1f} ms, p99 {1e3 * seen.p(0.99):.0f} ms; {dict(counts)}; "
        f"memory {early:.0f} -> {late:.0f} MB"
    )

    beyond = Seen()
    end = time.monotonic() + 15
    await asyncio.gather(*(send(port, request, right, None, end, beyond) for _ in range(200)))
    after = Seen()
    await send(port, request, right, None, time.monotonic() + 2, after)
    print(
        f"200 clients at once: {dict(beyond.statuses)}, {beyond.dropped} dropped, {beyond.wrong} wrong, p99 "
        f"{1e3 * beyond.p(0.99):.0f} ms; one client afterwards: p99 {1e3 * after.p(0.99):.0f} ms"
    )
    lost = sum(s.dropped + s.wrong for s in (capacity, seen, beyond, after))
    return not lost and not seen.statuses[503] and late < 1.1 * early and set(after.statuses) == {200}


def main() -> int:
    """Run the soak; 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--share", type=float, default=0.8, help="of the capacity")
    options = parser.parse_args()
    data = pk.synthetic("letor", n_lists=100, seed=0)
    models: list[Any] = [pk.TreeRanker(trees=100, leaves=32, seed=seed, list_fraction=0.8).fit(data) for seed in (0, 1)]
    rows = np.random.default_rng(0).normal(size=(DOCUMENTS, FEATURES)).astype(np.float32)
    body = json.dumps({"documents": rows.tolist()}).encode()
    with tempfile.TemporaryDirectory(prefix="soak-") as base:
        folder = Path(base) / "model"
        models[0].save(folder)
        server = Process([folder], "--watch", "0.5", "--quiet", log=Path(base) / "log").wait_until_ready()
        try:
            right = [[float(score) for score in model.predict(rows)] for model in models]
            is_well = asyncio.run(soak(server, models, folder, message("POST", "/rank", body), right, options))
        finally:
            server.stop()
    print("well" if is_well else "NOT WELL")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
