"""What training on many machines costs, measured on one and extrapolated to a thousand.

    python benchmarks/distributed.py [--lists 250 500 1000 2000] [--trees 8] [--leaves 255] [--ray]

One worker, and two that use LightGBM's data-parallel learner, grow trees on the synthetic web set
(136 features) with our XE-NDCG objective, one thread each. Seconds are processor time, which other
work on the machine hardly changes; bytes are counted on a loopback device in a network namespace
without other traffic. From these follow the cost of a document-feature-tree, the traffic and the
memory of a worker, and from them the time for a billion documents. ``--ray`` adds what Ray itself
costs: two workers by ``cluster="local:2"``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import plackett as pk
from plackett.distributed.training_job import split_lists
from plackett.models.trees.lightgbm_data import dataset_from_bins, find_bins

BIN_BYTES = 16  # a sum of gradients and one of curvatures, double precision each
BILLION = 1_000_000_000
FEATURES = 136
TREES = 500
MACHINES = (1, 10, 30, 100, 300, 1000, 3000)
CORES = 32
WIRE = {"10 Gbit/s": 1.25e9, "100 Gbit/s": 12.5e9}
DATA, BINS = "data.pkdata", "bins"
LATENCY = 50e-6  # seconds for a message between two machines of a data centre
SETTINGS = {
    "verbosity": -1,
    "metric": "None",
    "num_threads": 1,
    "deterministic": True,
    "force_col_wise": True,
    "learning_rate": 0.05,
    "min_data_in_leaf": 50,
}


def received() -> int:
    """Bytes that have come in over the loopback device."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[0])
    return 0


def work(options: argparse.Namespace) -> None:
    """One worker: prints what its trees cost."""
    import lightgbm

    settings = SETTINGS | {"num_leaves": options.leaves}
    before = status("VmRSS")
    data = pk.read(options.data / DATA)
    bins = (options.data / BINS).read_bytes()
    own = data.lists(*split_lists(data.offsets, len(options.ports) or 1)[options.rank])
    n_docs = own.n_docs
    derivatives = pk.objective("xendcg").bind(own.labels, own.offsets, own.keys, own.weights).float32_gradient
    made = lightgbm.Dataset(
        own.features, np.zeros(n_docs, np.float32), reference=dataset_from_bins(bins, settings, []), free_raw_data=False
    )
    marks: list[tuple[float, float, int]] = []

    def objective(scores: Any, _: Any) -> Any:
        marks.append((time.process_time(), time.perf_counter(), received()))
        return derivatives(scores, len(marks))

    if options.ports:
        settings |= {
            "tree_learner": "data",
            "pre_partition": True,
            "num_machines": len(options.ports),
            "machines": ",".join(f"127.0.0.1:{port}" for port in options.ports),
            "local_listen_port": options.ports[options.rank],
        }
    booster = lightgbm.train(settings | {"objective": objective}, made, options.trees + 2)
    # The first tree waits for compilers and allocates.
    (cpu, wall, wire), (cpu_end, wall_end, wire_end) = marks[1], marks[-1]
    trees = len(marks) - 2
    counts = [tree["num_leaves"] for tree in booster.dump_model()["tree_info"][1:-1]]
    facts = {
        "docs": data.n_docs,
        "own": n_docs,
        "cpu": (cpu_end - cpu) / trees,
        "wall": (wall_end - wall) / trees,
        "bytes": (wire_end - wire) / trees,
        "memory": status("VmHWM") - before,
        "bins": int(sum(made.feature_num_bin(j) for j in range(data.n_features))),
        "splits": float(np.mean(counts)) - 1,
    }
    options.out.write_text(json.dumps(facts))


def status(name: str) -> int:
    """Bytes of memory: now (VmRSS), or the most there were (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def in_namespace() -> list[str]:
    """What to put before a command so that its loopback device is its own."""
    if shutil.which("unshare") and shutil.which("ip") and os.geteuid() == 0:
        tried = subprocess.run(["unshare", "--net", "ip", "link", "set", "lo", "up"], check=False)
        if tried.returncode == 0:
            return ["unshare", "--net"]
    return []


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def prepare(n_lists: int, folder: Path, options: argparse.Namespace) -> None:
    """Write data and bins, so that workers begin with nothing in memory."""
    data = pk.synthetic("web", n_lists=n_lists, seed=1)
    pk.write(data, folder / DATA)
    bins = find_bins(data, SETTINGS | {"num_leaves": options.leaves}, [])
    (folder / BINS).write_bytes(bins)


def measure(data: Path, workers: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run workers, and read what they write."""
    ports = free_ports(workers) if workers > 1 else []
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    environment |= {"OMP_WAIT_POLICY": "passive", "PYTHONWARNINGS": "ignore"}
    with tempfile.TemporaryDirectory() as folder:
        outs = [Path(folder) / str(rank) for rank in range(workers)]
        commands = []
        for rank, out in enumerate(outs):
            command = [sys.executable, __file__, "--rank", rank, "--out", out, "--data", data]
            command += ["--trees", options.trees, "--leaves", options.leaves, "--ports", *ports]
            commands.append(" ".join(map(str, command)))
        script = "ip link set lo up 2>/dev/null; " + " & ".join(commands) + " & wait"
        subprocess.run(
            [*in_namespace(), "sh", "-c", script], capture_output=True, env=environment, timeout=900, check=True
        )
        return [json.loads(out.read_text()) for out in outs]


def line_through(x: list[float], y: list[float]) -> tuple[float, float]:
    slope, intercept = np.polyfit(x, y, 1)
    return float(intercept), float(slope)


def report(options: argparse.Namespace) -> None:
    print(f"{FEATURES} features, {options.leaves} leaves, one thread per worker\n")
    print("| documents | workers | processor s/tree of a worker | MB/tree received | memory, MB |")
    print("|---|---|---|---|---|")
    rows = []
    for n_lists in options.lists:
        with tempfile.TemporaryDirectory() as folder:
            prepare(n_lists, Path(folder), options)
            for workers in (1, 2):
                found = measure(Path(folder), workers, options)
                each = {name: float(np.mean([row[name] for row in found])) for name in found[0]}
                # Both workers share the device: each receives half of what comes in.
                each["bytes"] /= workers
                rows.append((workers, each))
                traffic = each["bytes"] / 1e6 if workers > 1 else 0
                print(
                    f"| {each['docs']:,.0f} | {workers} | {each['cpu']:.3f} | {traffic:.1f} | "
                    f"{each['memory'] / 1e6:.0f} |",
                    flush=True,
                )
    predict(rows, options)


def predict(rows: list[tuple[int, dict[str, float]]], options: argparse.Namespace) -> None:
    ones = [row for workers, row in rows if workers == 1]
    twos = [row for workers, row in rows if workers == 2]
    fixed, slope = line_through([r["own"] for r in ones], [r["cpu"] for r in ones])
    talk, slope_of_two = line_through([r["own"] for r in twos], [r["cpu"] for r in twos])
    cost = slope / FEATURES
    held, per_document = line_through([r["own"] for r in ones], [r["memory"] for r in ones])
    histogram = twos[-1]["bins"] * BIN_BYTES
    splits = twos[-1]["splits"]
    print(
        f"\ncost of a document-feature-tree: {cost * 1e9:.2f} ns with one worker, "
        f"{slope_of_two / FEATURES * 1e9:.2f} ns with two; "
        f"of a tree: {fixed:.3f} s and {talk:.3f} s"
    )
    print(
        f"traffic: {splits:.0f} histograms of {histogram / 1e6:.3f} MB, half of each received: "
        f"{splits * histogram / 2e6:.1f} MB/tree at most, {twos[-1]['bytes'] / 1e6:.1f} measured"
    )
    print(
        f"memory: {per_document:.0f} bytes per document ({4 * FEATURES} of features, {FEATURES} of "
        f"bins), and {held / 1e6:.0f} MB (histograms: at most {splits * histogram / 1e6:.0f})"
    )
    for row in twos:
        guess = talk + slope * row["own"]
        print(
            f"2 workers, {row['docs']:,.0f} documents: predicted {guess:.3f} s/tree of a worker, "
            f"measured {row['cpu']:.3f} ({row['cpu'] / guess - 1:+.0%})"
        )
    table(cost, talk, histogram, options.leaves - 1, per_document)


def seconds_per_tree(machines: int, cost: float, talk: float, traffic: float, splits: int, wire: float) -> float:
    """Work that is shared out, work and traffic that are not, and rounds of messages."""
    shared = cost * BILLION * FEATURES / machines / CORES
    if machines == 1:
        return shared
    rounds = 3 * splits * math.ceil(math.log2(machines))
    return shared + talk + traffic * (machines - 1) / machines / wire + rounds * LATENCY


def table(cost: float, talk: float, histogram: float, splits: int, per_document: float) -> None:
    traffic = histogram * splits
    print(f"\n{BILLION:,} documents x {FEATURES} features, {TREES} trees, {CORES} cores each:\n")
    print("| machines | " + " | ".join(f"{name}: hours (efficiency)" for name in WIRE) + " | GB each |")
    print("|---|" + "---|" * (len(WIRE) + 1))
    for machines in MACHINES:
        cells = []
        for wire in WIRE.values():
            each = seconds_per_tree(machines, cost, talk, traffic, splits, wire)
            alone = seconds_per_tree(1, cost, talk, traffic, splits, wire)
            cells.append(f"{each * TREES / 3600:.2f} ({alone / machines / each:.0%})")
        memory = BILLION / machines * per_document / 1e9 + traffic / 1e9
        print(f"| {machines} | " + " | ".join(cells) + f" | {memory:,.1f} |")
    for name, wire in WIRE.items():
        for machines in range(2, 100_000):
            each = seconds_per_tree(machines, cost, talk, traffic, splits, wire)
            twice = seconds_per_tree(2 * machines, cost, talk, traffic, splits, wire)
            if twice > 0.9 * each:
                print(f"\n{name}: from {machines} machines on, twice as many save less than a tenth.")
                break


def through_ray(options: argparse.Namespace) -> None:
    data = pk.synthetic("web", n_lists=options.lists[0], seed=1)
    ranker = pk.TreeRanker(objective="xendcg", trees=30, leaves=options.leaves, threads=1)
    begin, marks = time.perf_counter(), []
    ranker.fit(data, cluster="local:2", progress=lambda _, done, __: marks.append((time.perf_counter(), done)))
    end = time.perf_counter()
    (first, low), (last, high) = marks[1], marks[-1]
    print(
        f"\nRay, 2 workers on this machine: first tree after {first - begin:.1f} s, then "
        f"{(last - first) / max(high - low, 1):.3f} s/tree, {end - last:.1f} s to end"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lists", type=int, nargs="+", default=[250, 500, 1000, 2000])
    parser.add_argument("--trees", type=int, default=8)
    parser.add_argument("--leaves", type=int, default=255)
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ports", type=int, nargs="*", default=[], help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank is not None:
        work(options)
        return
    report(options)
    if options.ray:
        through_ray(options)


if __name__ == "__main__":
    main()
