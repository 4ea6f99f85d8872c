"""Speed of scoring tree ensembles, beside the libraries that trained them.

    python benchmarks/scoring.py --leaves 64 255 400

Models of 500 trees are trained on made-up web search features; each library then scores the same
documents in a process of its own, lists of 120 and single documents on one thread, all documents
on ``--threads``. The processes take turns. Medians and 99th percentiles are taken within a turn;
the table shows the best turn of each. Scores must agree before the clock runs: LightGBM's to the
bit, and XGBoost's too. ``--folder`` keeps the models, which take minutes to train.
"""

from __future__ import annotations

import os

# Idle threads of one tool would otherwise keep spinning through the first part of another's turn.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import argparse
import json
import math
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from scoring_worker import LIBRARIES, LIST

N_FEATURES, TREES = 136, 500
WORKER = Path(__file__).with_name("scoring_worker.py")
# Who is compared with whom: a library that reads the model with the one that trained it.
PEERS = {"plackett, LightGBM's model": "LightGBM", "plackett, XGBoost's model": "XGBoost"}
WANTED = {"list": 0.08, "all": 0.06}  # of LightGBM's time, with 64 leaves


@dataclass
class Times:
    """Seconds of the best turn so far; ``start`` is from the file to the first scores."""

    start: float
    list50: float = math.inf
    list99: float = math.inf
    document: float = math.inf
    all: float = math.inf

    def take(self, turn: dict[str, Any]) -> None:
        self.list50 = min(self.list50, float(np.percentile(turn["list"], 50)))
        self.list99 = min(self.list99, float(np.percentile(turn["list"], 99)))
        self.document = min(self.document, float(np.percentile(turn["document"], 50)))
        self.all = min(self.all, turn["all"])


def make_features(n_docs: int, seed: int) -> Any:
    """Counts, scores, log-probabilities and long-tailed numbers, a quarter of the columns each."""
    rng = np.random.default_rng(seed)
    columns = [
        [
            rng.geometric(0.05, n_docs) - 1.0,
            rng.gamma(1.0, 8.0, n_docs),
            -rng.gamma(9.0, 2.0, n_docs),
            np.floor(rng.pareto(0.7, n_docs) * 50).clip(max=1e8),
        ][j % 4]
        for j in range(N_FEATURES)
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def make_labels(features: Any, seed: int) -> Any:
    """Something to learn from all features, and more from some."""
    rng = np.random.default_rng(seed)
    scaled = np.log1p(np.abs(features))
    scaled = (scaled - scaled.mean(0)) / scaled.std(0)
    bends = np.sin(2 * scaled[:, :20]).sum(1)
    return scaled @ rng.normal(size=N_FEATURES) + 2 * bends + 3 * rng.normal(size=len(features))


def prepare(folder: Path, leaves: int, options: argparse.Namespace) -> None:
    """Train what the folder does not hold yet."""
    import lightgbm
    import xgboost

    if not (folder / f"features-{options.docs}.npy").exists():
        np.save(folder / f"features-{options.docs}.npy", make_features(options.docs, options.seed))
    ours, theirs = folder / f"lightgbm-{leaves}.txt", folder / f"xgboost-{leaves}.ubj"
    if ours.exists() and theirs.exists():
        return
    features = make_features(options.train, options.seed + 1)
    labels = make_labels(features, options.seed)
    settings = {"num_leaves": leaves, "learning_rate": 0.05, "verbosity": -1, "min_data_in_leaf": 5}
    lightgbm.train(settings, lightgbm.Dataset(features, labels), TREES).save_model(ours)
    settings = {"max_leaves": leaves, "learning_rate": 0.05, "max_depth": 0}
    settings.update({"grow_policy": "lossguide", "tree_method": "hist"})
    xgboost.train(settings, xgboost.DMatrix(features, labels), TREES).save_model(theirs)


def ask(worker: subprocess.Popen[str]) -> dict[str, Any]:
    """The next answer of a worker."""
    assert worker.stdout is not None
    line = worker.stdout.readline()
    if not line:
        raise SystemExit("a worker ended early; its error stands above")
    answer: dict[str, Any] = json.loads(line)
    return answer


def measure(folder: Path, leaves: int, options: argparse.Namespace) -> dict[str, Times]:
    """Times of all libraries, taken in turns."""
    with ExitStack() as stack:
        workers, times = {}, {}
        for name in LIBRARIES:
            numbers = (leaves, options.threads, options.docs)
            command = [sys.executable, WORKER, name, folder, *map(str, numbers), options.clock]
            worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.callback(worker.communicate)  # closes its input, at which it ends
            workers[name], times[name] = worker, Times(ask(worker)["start"])
        for turn in range(options.rounds):
            for name, worker in workers.items():
                assert worker.stdin is not None
                worker.stdin.write("\n")
                worker.stdin.flush()
                times[name].take(ask(worker))
                if turn == 0:
                    compare(folder, name)
    return times


def compare(folder: Path, name: str) -> None:
    """Stop if a library gives other scores than the one that trained the model."""
    if name in PEERS.values():
        ours = next(ours for ours, peer in PEERS.items() if peer == name)
        if not np.array_equal(np.load(folder / f"{ours}.npy"), np.load(folder / f"{name}.npy")):
            raise SystemExit(f"{ours}: other scores than {name}")


def show(leaves: int, times: dict[str, Times], options: argparse.Namespace) -> None:
    if options.json:
        found = {name: asdict(t) for name, t in times.items()}
        Console().print_json(json.dumps({"leaves": leaves, "seconds": found}))
        return
    title = (
        f"{TREES} trees x {leaves} leaves; lists of {LIST} and documents on 1 thread "
        f"({options.clock} time), "
        f"all {options.docs:,} on {options.threads}"
    )
    headings = ("list p50 us", "list p99 us", "document us", "all ms", "start s")
    table = Table("library", *headings, title=title, title_justify="left")
    for name, t in times.items():
        figures = (1e6 * t.list50, 1e6 * t.list99, 1e6 * t.document, 1e3 * t.all)
        table.add_row(name, *(f"{figure:.0f}" for figure in figures), f"{t.start:.2f}")
    for name, peer in PEERS.items():
        ratios = [
            f"{getattr(times[name], kind) / getattr(times[peer], kind):.3f}"
            for kind in ("list50", "list99", "document", "all", "start")
        ]
        table.add_row(f"{name} / {peer}", *ratios)
    list_wanted, all_wanted = str(WANTED["list"]), str(WANTED["all"])
    table.add_row("wanted with 64 leaves", list_wanted, list_wanted, "", all_wanted, "")
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leaves", type=int, nargs="+", default=[64])
    parser.add_argument("--docs", type=int, default=200_000)
    parser.add_argument("--train", type=int, default=20_000, help="documents to train on")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where models are kept for the next run")
    parser.add_argument(
        "--clock",
        choices=["wall", "processor"],
        default="wall",
        help="for lists and documents; on a busy machine only processor time means anything",
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for leaves in options.leaves:
            prepare(folder, leaves, options)
            show(leaves, measure(folder, leaves, options), options)


if __name__ == "__main__":
    main()
