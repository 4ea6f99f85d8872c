"""Requests per second and latency of ``plackett serve`` beside LightGBM in FastAPI.

    python benchmarks/serving.py
    python benchmarks/serving.py --soak 600

The same model (500 trees x 64 leaves) is served by both on loopback; lists of 100 documents x 136
features are sent by wrk (or a client of our own where it is not installed). FastAPI runs under
uvicorn with uvloop and httptools, with LightGBM's own number of threads and with one thread per
request; the better of the two is the peer. Servers take turns; each row shows the median turn.
Scores must be equal before the clock runs and after it has stopped. ``--soak`` then keeps the load
on and prints the server's memory.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from scoring import N_FEATURES, TREES, make_features, make_labels
from serving_client import Load, ask, load, metric

LEAVES, DOCUMENTS, BODIES = 64, 100, 16
WANTED = 3.0  # times the peer's requests per second, at a lower p99
JSON, BYTES = "application/json", "application/octet-stream"
PEER = Path(__file__).with_name("serving_peer.py")
OURS, COMPACT = "plackett serve", "plackett serve, compact bodies"
THEIRS = {"FastAPI + LightGBM": 0, "FastAPI + LightGBM, 1 thread": 1}


@dataclass
class Server:
    """A server under load, and what clients saw."""

    port: int
    process: int
    bodies: list[Path]
    kind: str = JSON
    turns: list[Load] = field(default_factory=list)
    processor: float = 0.0
    """Processor seconds of the process in these turns."""

    def take_turn(self, options: argparse.Namespace) -> None:
        before = processor_seconds(self.process)
        turn = load(self.port, self.bodies, self.kind, options.connections, options.seconds)
        self.turns.append(turn)
        self.processor += processor_seconds(self.process) - before

    @property
    def cost(self) -> float:
        """Processor seconds of a request; they tell something on a busy machine too."""
        return self.processor / sum(turn.requests for turn in self.turns)

    def median(self, what: str) -> float:
        return statistics.median(getattr(turn, what) for turn in self.turns)


def prepare(folder: Path, options: argparse.Namespace) -> None:
    """The model in both forms, and the bodies of requests."""
    text = folder / "model.txt"
    if not text.exists():
        import lightgbm

        features = make_features(options.train, options.seed + 1)
        labels = make_labels(features, options.seed)
        settings = {"num_leaves": LEAVES, "learning_rate": 0.05, "verbosity": -1}
        data = lightgbm.Dataset(features, labels)
        lightgbm.train(settings | {"min_data_in_leaf": 5}, data, TREES).save_model(text)
    if not (folder / "model.plackett").exists():
        from plackett.serving.importing import import_model

        import_model(text).save(folder / "model.plackett")
    features = make_features(BODIES * DOCUMENTS, options.seed)
    for k in range(BODIES):
        part = features[k * DOCUMENTS : (k + 1) * DOCUMENTS]
        (folder / f"body-{k}.json").write_text(json.dumps({"documents": part.tolist()}))
        (folder / f"body-{k}.bin").write_bytes(part.astype("<f4").tobytes())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def processor_seconds(process: int) -> float:
    """Time on a processor since the start, of a process with all its threads; NaN if unknown."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start(stack: ExitStack, command: list[str], port: int, log: Path) -> int:
    """Start a server and wait until it answers."""
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    deadline = time.monotonic() + 120
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/openapi.json", timeout=5).close()
            return process.pid
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"a server did not start:\n{log.read_text()}") from None
            time.sleep(0.1)


def servers(stack: ExitStack, folder: Path, options: argparse.Namespace) -> dict[str, Server]:
    texts = [folder / f"body-{k}.json" for k in range(BODIES)]
    raw = [folder / f"body-{k}.bin" for k in range(BODIES)]
    port = free_port()
    command = [sys.executable, "-m", "plackett", "serve", str(folder / "model.plackett")]
    command += ["--port", str(port), *(["--quiet"] if options.quiet else [])]
    process = start(stack, command, port, folder / "ours.log")
    found = {OURS: Server(port, process, texts), COMPACT: Server(port, process, raw, BYTES)}
    for name, threads in THEIRS.items():
        other = free_port()
        command = [sys.executable, str(PEER), str(folder / "model.txt"), str(other), str(threads)]
        process = start(stack, command, other, folder / f"peer-{threads}.log")
        found[name] = Server(other, process, texts)
    return found


def check(found: dict[str, Server]) -> None:
    """Stop if a server gives other scores or another order than the rest."""
    first = found[OURS]
    for k in range(BODIES):
        expected = ask(first.port, first.bodies[k].read_bytes())
        for name, server in found.items():
            answer = ask(server.port, server.bodies[k].read_bytes(), server.kind)
            same = np.array_equal(answer["scores"], expected["scores"])
            if not same or answer["order"] != expected["order"]:
                raise SystemExit(f"{name}: other scores than {OURS} for body {k}")


def show(found: dict[str, Server], options: argparse.Namespace) -> None:
    if options.json:
        content = {
            name: {"turns": [asdict(turn) for turn in s.turns], "processor_seconds": s.cost}
            for name, s in found.items()
        }
        print(json.dumps(content, indent=1))
        return
    title = (
        f"{TREES} trees x {LEAVES} leaves, lists of {DOCUMENTS} x {N_FEATURES}, "
        f"{options.connections} connections, {options.rounds} turns of {options.seconds:g} s"
    )
    headings = ("requests/s", "p50 ms", "p99 ms", "processor ms", "errors")
    table = Table("server", *headings, title=title)
    for name, server in found.items():
        table.add_row(
            name,
            f"{server.median('rate'):.0f}",
            f"{1e3 * server.median('p50'):.1f}",
            f"{1e3 * server.median('p99'):.1f}",
            f"{1e3 * server.cost:.2f}",
            str(sum(turn.errors for turn in server.turns)),
        )
    peer = max((found[name] for name in THEIRS), key=lambda server: server.median("rate"))
    for name in (OURS, COMPACT):
        ratios = [found[name].median(w) / peer.median(w) for w in ("rate", "p50", "p99")]
        ratios.append(found[name].cost / peer.cost)
        table.add_row(f"{name} / the better FastAPI", *(f"{r:.2f}" for r in ratios), "")
    table.add_row("wanted", f"{WANTED:.0f}", "", "below 1", "", "0")
    Console(width=110).print(table)


def soak(server: Server, options: argparse.Namespace) -> None:
    """Keep the load on, and look at the memory of the process."""
    stop = time.monotonic() + options.soak
    readings: list[tuple[float, float]] = []

    def watch() -> None:
        while time.monotonic() < stop:
            readings.append(
                (time.monotonic(), metric(server.port, "process_resident_memory_bytes"))
            )
            time.sleep(min(options.soak / 40, 5.0))

    watcher = threading.Thread(target=watch)
    watcher.start()
    loads = []
    while time.monotonic() < stop:
        left = min(30.0, max(stop - time.monotonic(), 1.0))
        loads.append(load(server.port, server.bodies, server.kind, options.connections, left))
    watcher.join()
    memory = np.array([reading for _, reading in readings]) / 1e6
    quarters = ", ".join(f"{np.median(part):.1f}" for part in np.array_split(memory, 4))
    print(
        f"soak: {options.soak:g} s, {sum(each.requests for each in loads):,} requests, "
        f"{sum(each.errors for each in loads)} errors; memory in MB: {memory[0]:.1f} at the start, "
        f"{quarters} in the middle of each quarter, {memory[-1]:.1f} at the end, "
        f"{memory.max():.1f} at most"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each turn")
    parser.add_argument("--train", type=int, default=20_000, help="documents to train on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where the model is kept for the next run")
    parser.add_argument("--soak", type=float, default=0.0, help="seconds of load at the end")
    parser.add_argument("--quiet", action="store_true", help="plackett logs no requests")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder: Path = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        prepare(folder, options)
        found: dict[str, Any] = servers(stack, folder, options)
        check(found)
        for _ in range(options.rounds):
            for server in found.values():
                server.take_turn(options)
        check(found)
        show(found, options)
        if options.soak:
            soak(found[OURS], options)


if __name__ == "__main__":
    main()
