"""An epoch of training a net: ragged lists through compiled kernels against padded PyTorch.

    python benchmarks/neural.py            # time and memory beside the padded way
    python benchmarks/neural.py --urank    # what the losses of Zhu & Klabjan (2020) cost

The net, the batches, the optimizer and the loss are the same. The padded way is allRank's: the
lists of a batch padded to the longest of them, no document left out, the loss in dense tensors. The
sides take turns in processes of their own; the fastest epoch counts, and the highest memory of an
epoch beyond what the process held before it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import plackett as pk

BATCH, RATE = 128, 1e-3
LOSSES = ("listmle", "approxndcg", "lambdaloss")
FASTER, LEANER = 3.0, 0.5


def data(n_lists: int) -> pk.Dataset:
    """The web set, scaled once for both sides."""
    from plackett.data.transforms import Log1p, Standard, chain

    made = pk.synthetic("web", n_lists=n_lists, seed=0)
    fitted = chain(Log1p(), Standard()).fit(made)
    return made.with_features(fitted.apply(made.features, made.offsets))


def ours(train: pk.Dataset, loss: str, layers: tuple[int, ...], threads: int) -> None:
    pk.NeuralRanker(
        objective=loss, layers=layers, epochs=1, batch_lists=BATCH, learning_rate=RATE, transforms=(), threads=threads
    ).fit(train)


def padded(train: pk.Dataset, loss: str, layers: tuple[int, ...], threads: int) -> None:
    """The same epoch with dense tensors."""
    import torch

    import padded_torch as peer

    torch.set_num_threads(threads)
    widths = [train.n_features, *layers]
    parts: list[torch.nn.Module] = []
    for a, b in pairwise(widths):
        parts += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    net = torch.nn.Sequential(*parts, torch.nn.Linear(widths[-1], 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
    order = np.random.default_rng(0).permutation(train.n_lists)
    for start in range(0, len(order), BATCH):
        features, labels, present = dense(train, order[start : start + BATCH])
        scores = net(features).squeeze(-1)
        values = getattr(peer, loss)(scores, peer.Padded(scores, labels, present))
        optimizer.zero_grad()
        values.mean().backward()
        optimizer.step()


def dense(train: pk.Dataset, lists: np.ndarray) -> tuple[Any, Any, Any]:
    """Features, labels and what is no padding, lists x longest."""
    import torch

    sizes = np.diff(train.offsets)[lists]
    present = np.arange(sizes.max()) < sizes[:, None]
    features = np.zeros((*present.shape, train.n_features), np.float32)
    labels = np.full(present.shape, -1.0, np.float32)
    for row, q in enumerate(lists):
        low, high = train.offsets[q], train.offsets[q + 1]
        features[row, : high - low] = train.features[low:high]
        labels[row, : high - low] = train.labels[low:high]
    return torch.from_numpy(features), torch.from_numpy(labels), torch.from_numpy(present)


SIDES: dict[str, Callable[..., None]] = {"padded": padded, "ours": ours}


def serve(pipe: Any, side: str, options: argparse.Namespace) -> None:
    """Run epochs of one side when asked: seconds, and megabytes beyond those held before."""
    import torch  # noqa: F401 - loaded before memory is looked at

    train = data(options.lists)
    while (loss := pipe.recv()) is not None:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from here
        before = memory("VmRSS")
        start = time.perf_counter()
        SIDES[side](train, loss, tuple(options.layers), options.threads)
        pipe.send((time.perf_counter() - start, memory("VmHWM") - before))


def memory(what: str) -> float:
    text = Path("/proc/self/status").read_text()
    found = re.search(rf"{what}:\s+(\d+) kB", text)
    assert found is not None
    return int(found.group(1)) / 1024


def started(options: argparse.Namespace) -> dict[str, Any]:
    """A process for each side, and the pipes to them."""
    context = multiprocessing.get_context("spawn")
    pipes = {}
    for side in SIDES:
        pipes[side], theirs = context.Pipe()
        context.Process(target=serve, args=(theirs, side, options), daemon=True).start()
    return pipes


def compare(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds and megabytes of both sides, in turns."""
    rows = []
    for loss in LOSSES:
        pipes = started(options)  # anew for each loss: memory once taken is not given back
        found: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
        for _ in range(options.rounds + 1):
            for side, pipe in pipes.items():
                pipe.send(loss)
                found[side].append(pipe.recv())
        for pipe in pipes.values():
            pipe.send(None)
        times = {side: min(t for t, _ in turns[1:]) for side, turns in found.items()}
        # The first epoch of a process takes the memory that later ones reuse.
        space = {side: max(m for _, m in turns) for side, turns in found.items()}
        rows.append({"loss": loss, "seconds": times, "megabytes": space})
    return rows


def costs(options: argparse.Namespace) -> dict[str, float]:
    """Seconds of an epoch with one list as a batch, as Zhu & Klabjan train, by loss."""
    from turns import fastest
    from urank_torch import looped, tensors, train_with

    train = pk.synthetic("letor", n_lists=options.lists // 4, seed=0)

    def epoch(name: str) -> Callable[[], object]:
        settings = {"layers": (100, 50), "epochs": 1, "batch_lists": 1, "transforms": ()}
        ranker = pk.NeuralRanker(objective=name, threads=options.threads, **settings)
        return lambda: ranker.fit(train)

    works = {name: epoch(name) for name in ("urank", "plistmle", "mdprank")}
    works["urank in torch, tensors"] = lambda: train_with(tensors, train, options.threads)
    works["urank in torch, loops"] = lambda: train_with(looped, train, options.threads)
    return fastest(works, options.rounds)


def show(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    title = f"one epoch, {options.lists:,} lists of the web set, net {options.layers}"
    table = Table("loss", "padded s", "ours s", "times as fast", title=title, title_justify="left")
    for heading in ("padded MB", "ours MB", "share of memory"):
        table.add_column(heading)
    for row in rows:
        s, m = row["seconds"], row["megabytes"]
        numbers = [s["padded"], s["ours"], s["padded"] / s["ours"]]
        table.add_row(
            row["loss"],
            *(f"{value:.2f}" for value in numbers),
            *(f"{m[side]:.0f}" for side in SIDES),
            f"{m['ours'] / m['padded']:.2f}",
        )
    console = Console(width=110)
    console.print(table)
    console.print(f"wanted: at least {FASTER} times as fast with at most {LEANER} of the memory")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lists", type=int, default=1000)
    parser.add_argument("--layers", type=int, nargs="+", default=[128, 64])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--urank", action="store_true", help="costs of losses instead")
    parser.add_argument("--json", action="store_true", help="both, for the page of results")
    options = parser.parse_args()
    if options.json:
        print(json.dumps({"epoch": compare(options), "costs": costs(options)}))
    elif options.urank:
        found = costs(options)
        for name, seconds in found.items():
            print(f"{name:26} {seconds:7.3f} s  {seconds / found['urank']:6.2f} times urank")
    else:
        show(compare(options), options)


if __name__ == "__main__":
    main()
