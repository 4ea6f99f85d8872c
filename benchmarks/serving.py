"""Requests per second and latency of ``plackett serve`` beside LightGBM in FastAPI.

    python benchmarks/serving.py
    python benchmarks/serving.py --against before=../other-checkout
    python benchmarks/serving.py --soak 600

Both serve the same model (500 trees x 64 leaves) on loopback; lists of 100 documents x 136 features
are sent by wrk, or by a Python client if wrk is not installed. FastAPI runs under uvicorn with
uvloop and httptools, once with LightGBM's default number of threads and once with one thread per
request; the better of the two is the peer. Another row serves a linear model, which is scored in
batches, and another one decodes JSON with msgspec instead of the compiled scanner. ``--against
NAME=PATH`` adds rows for ``plackett serve`` of another checkout. Servers take turns; each row
shows the best turn, and the least processor time of a turn. Scores must be equal before and after
the measurement. ``--soak`` then keeps the load on and prints the server's memory.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from scoring import N_FEATURES, TREES, make_features, make_labels
from serving_client import Load, ask, load, metric

LEAVES, DOCUMENTS, BODIES = 64, 100, 16
TARGET_RATE, TARGET_P99 = 7.0, 0.2  # of the peer's
JSON, BYTES = "application/json", "application/octet-stream"
PEER = Path(__file__).with_name("serving_peer.py")
OURS, COMPACT, LINEAR = "plackett", "plackett, compact bodies", "plackett, linear model"
MSGSPEC = "plackett, msgspec without the scanner"
# The same server without the compiled scanner: msgspec decodes the lists, and struct packs their numbers.
WITHOUT_SCANNER = """
import struct
import msgspec
import numpy as np
from plackett.serving.server import requests
from plackett.serving.server.scanner import Lists
from plackett.serving.server.schemas import ListRequest

decode = msgspec.json.Decoder(ListRequest).decode

def read_lists(body, *_):
    documents = decode(body).documents
    pack = struct.Struct(f"{len(documents[0])}d").pack
    features = np.frombuffer(b"".join([pack(*row) for row in documents])).reshape(len(documents), -1)
    return Lists(features.astype(np.float32), np.array([0, len(features)]), (None,))

requests.scan_body = read_lists
from plackett.cli import main
main()
"""
PEERS = {"FastAPI + LightGBM": 0, "FastAPI + LightGBM, 1 thread": 1}


@dataclass
class Server:
    """A server under load, and what its clients measured."""

    port: int
    process: int
    bodies: list[Path]
    kind: str = JSON
    path: str = "/rank"
    turns: list[Load] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    """Processor seconds per request in each turn; they depend less on other programs."""

    def take_turn(self, options: argparse.Namespace) -> None:
        before = processor_seconds(self.process)
        turn = load(self.port, self.bodies, self.kind, options.connections, options.seconds, self.path)
        self.turns.append(turn)
        self.processor.append((processor_seconds(self.process) - before) / turn.requests)

    def best(self, what: str) -> float:
        if what == "processor":
            return min(self.processor)
        values = [getattr(turn, what) for turn in self.turns]
        return max(values) if what == "rate" else min(values)


def prepare(folder: Path, options: argparse.Namespace) -> None:
    """Write the models and the bodies of requests."""
    text = folder / "model.txt"
    features = make_features(options.train, options.seed + 1)
    labels = make_labels(features, options.seed)
    if not text.exists():
        import lightgbm

        settings = {"num_leaves": LEAVES, "learning_rate": 0.05, "verbosity": -1}
        data = lightgbm.Dataset(features, labels)
        lightgbm.train(settings | {"min_data_in_leaf": 5}, data, TREES).save_model(text)
    if not (folder / "model.plackett").exists():
        from plackett import Dataset, LinearRanker
        from plackett.models.ensembles import import_model

        import_model(text).save(folder / "model.plackett")
        grades = np.clip(labels.round(), 0, 4).astype(int)
        query_ids = np.arange(len(features)) // DOCUMENTS
        linear = LinearRanker(objective="listnet", max_iterations=200)
        data = Dataset.from_arrays(features, grades, query_ids)
        linear.fit(data).save(folder / "linear.plackett")
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
    """Processor time of a process with all its threads since its start; NaN if unknown."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start(stack: ExitStack, command: list[str], port: int, log: Path, checkout: Path | None = None) -> int:
    """Start a server and wait until it answers."""
    environment = dict(os.environ)
    if checkout is not None:
        environment["PYTHONPATH"] = str(checkout.resolve() / "src")
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
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


def start_all(stack: ExitStack, folder: Path, options: argparse.Namespace) -> dict[str, Server]:
    texts = [folder / f"body-{k}.json" for k in range(BODIES)]
    raw = [folder / f"body-{k}.bin" for k in range(BODIES)]
    servers = {}
    others = {name: Path(path) for name, _, path in (o.partition("=") for o in options.against)}
    for name, checkout in ({"": None} | others).items():
        port = free_port()
        models = [folder / "model.plackett", folder / "linear.plackett"]
        command = [sys.executable, "-m", "plackett", "serve", *map(str, models)]
        command += ["--port", str(port), *(["--quiet"] if options.quiet else [])]
        process = start(stack, command, port, folder / f"plackett{name}.log", checkout)
        suffix = f" ({name})" if name else ""
        servers[OURS + suffix] = Server(port, process, texts)
        servers[COMPACT + suffix] = Server(port, process, raw, BYTES)
        servers[LINEAR + suffix] = Server(port, process, texts, JSON, "/models/linear/rank")
    port = free_port()
    command = [sys.executable, "-c", WITHOUT_SCANNER, "serve", str(folder / "model.plackett")]
    command += ["--port", str(port), *(["--quiet"] if options.quiet else [])]
    process = start(stack, command, port, folder / "msgspec.log")
    servers[MSGSPEC] = Server(port, process, texts)
    for name, threads in PEERS.items():
        port = free_port()
        command = [sys.executable, str(PEER), str(folder / "model.txt"), str(port), str(threads)]
        process = start(stack, command, port, folder / f"peer-{threads}.log")
        servers[name] = Server(port, process, texts)
    return servers


def check(servers: dict[str, Server]) -> None:
    """Stop if a server gives other scores or another order than the others."""
    for k in range(BODIES):
        expected = {
            path: ask(servers[name].port, servers[name].bodies[k].read_bytes(), path=path)
            for name, path in ((OURS, "/rank"), (LINEAR, "/models/linear/rank"))
        }
        for name, server in servers.items():
            answer = ask(server.port, server.bodies[k].read_bytes(), server.kind, server.path)
            for what in ("scores", "order"):
                if not np.array_equal(answer[what], expected[server.path][what]):
                    raise SystemExit(f"{name}: other {what} than {OURS} for body {k}")


def show(servers: dict[str, Server], options: argparse.Namespace) -> None:
    if options.json:
        content = {
            name: {"turns": [asdict(turn) for turn in s.turns], "processor_seconds": s.processor}
            for name, s in servers.items()
        }
        print(json.dumps(content, indent=1))
        return
    title = (
        f"{TREES} trees x {LEAVES} leaves, lists of {DOCUMENTS} x {N_FEATURES}, "
        f"{options.connections} connections, best of {options.rounds} turns of "
        f"{options.seconds:g} s"
    )
    table = Table("server", "requests/s", "p50 ms", "p99 ms", "processor ms", "errors", title=title)
    for name, server in servers.items():
        table.add_row(
            name,
            f"{server.best('rate'):.0f}",
            f"{1e3 * server.best('p50'):.1f}",
            f"{1e3 * server.best('p99'):.1f}",
            f"{1e3 * server.best('processor'):.2f}",
            str(sum(turn.errors for turn in server.turns)),
        )
    peer = max((servers[name] for name in PEERS), key=lambda server: server.best("rate"))
    columns = ("rate", "p50", "p99", "processor")
    for name, server in servers.items():
        if name not in PEERS:
            ratios = [server.best(what) / peer.best(what) for what in columns]
            table.add_row(f"{name} / the better FastAPI", *(f"{r:.2f}" for r in ratios), "")
    table.add_row("target", f"{TARGET_RATE:g}", "", f"{TARGET_P99:g}", "", "0")
    Console(width=110).print(table)


def soak(server: Server, options: argparse.Namespace) -> None:
    """Keep the load on and record the memory of the process."""
    stop = time.monotonic() + options.soak
    readings: list[float] = []

    def watch() -> None:
        while time.monotonic() < stop:
            readings.append(metric(server.port, "process_resident_memory_bytes"))
            time.sleep(min(options.soak / 40, 5.0))

    watcher = threading.Thread(target=watch)
    watcher.start()
    loads = []
    while time.monotonic() < stop:
        left = min(30.0, max(stop - time.monotonic(), 1.0))
        loads.append(load(server.port, server.bodies, server.kind, options.connections, left))
    watcher.join()
    memory = np.array(readings) / 1e6
    quarters = ", ".join(f"{np.median(part):.1f}" for part in np.array_split(memory, 4))
    print(
        f"soak: {options.soak:g} s, {sum(turn.requests for turn in loads):,} requests, "
        f"{sum(turn.errors for turn in loads)} errors; memory in MB: {memory[0]:.1f} at the start, "
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
    parser.add_argument("--folder", type=Path, help="where the models are kept for the next run")
    parser.add_argument("--against", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--soak", type=float, default=0.0, help="seconds of load at the end")
    parser.add_argument("--quiet", action="store_true", help="plackett logs no requests")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder: Path = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        prepare(folder, options)
        servers = start_all(stack, folder, options)
        check(servers)
        for _ in range(options.rounds):
            for server in servers.values():
                server.take_turn(options)
        check(servers)
        show(servers, options)
        if options.soak:
            soak(servers[OURS], options)


if __name__ == "__main__":
    main()
