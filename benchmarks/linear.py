"""Linear models against what people use today.

Run ``python benchmarks/linear.py``; ``--help`` lists the options. Three claims:

- RankSVM against scikit-learn's LinearSVC on explicit differences of pairs, the same objective to
  the same value. LinearSVC is given the loosest tolerance that gets there; making the pairs is not
  counted.
- RankSVM's time against the number of documents, up to a million.
- ``listnet-linear`` on 2,000 synthetic web lists against full-batch L-BFGS in PyTorch (strong Wolfe
  line search, float32, segment operations), the same objective to the same value. The clock of
  PyTorch stops at the first evaluation that is as low.

All sides use the same number of threads.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable

import numba
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from plackett import Dataset, LinearRanker, objective, synthetic
from plackett.data.transforms import transform
from plackett.objectives import RankSVM
from turns import fastest

PAIR_C = 1e-3
GAP = 1e-3
TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
LISTNET_C = 10.0
CLOSE = 1e-5  # relative: how close to the minimum both must come


def make_standardized(kind: str, n_lists: int) -> Dataset:
    raw = synthetic(kind, n_lists=n_lists, seed=0)
    return raw.with_features(transform("standard").fit(raw).apply(raw.features, raw.offsets))


def differences(data: Dataset) -> NDArray[np.float64]:
    """The differences of all pairs with different labels, the better one first."""
    parts = []
    for low, high in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        x, y = data.features[low:high].astype(np.float64), data.labels[low:high]
        better, worse = np.nonzero(y[:, None] > y)
        parts.append(x[better] - x[worse])
    return np.concatenate(parts)


def total(Z: NDArray[np.float64], w: NDArray[np.float64], *, squared: bool) -> float:
    margins = np.maximum(0.0, 1.0 - Z @ w)
    return float(np.sum(margins**2 if squared else margins) + w @ w / PAIR_C)


def ranksvm(n_lists: int, rounds: int, *, squared: bool) -> dict[str, float]:
    from sklearn.svm import LinearSVC

    data = make_standardized("web", n_lists)
    Z = differences(data)
    # Every other pair turned round: the classifier needs two classes.
    signs = np.where(np.arange(len(Z)) % 2, 1.0, -1.0)
    turned = Z * signs[:, None]
    # C' = C / 2: scikit-learn has |w|^2 / 2 + C' sum.
    common = {"fit_intercept": False, "C": PAIR_C / 2, "max_iter": 100_000}
    kind = {"loss": "squared_hinge", "dual": False} if squared else {"loss": "hinge", "dual": True}
    ours = LinearRanker(RankSVM(squared=squared), C=PAIR_C, gap=GAP, transforms=())
    value = total(Z, ours.fit(data).coefficients_, squared=squared)
    for tolerance in TOLERANCES:
        peer = LinearSVC(**common, **kind, tol=tolerance, random_state=0)
        reached = total(Z, peer.fit(turned, signs).coef_[0], squared=squared)
        if reached <= value * (1.0 + GAP):
            break
    best = fastest({"ours": lambda: ours.fit(data), "peer": lambda: peer.fit(turned, signs)}, rounds)
    return {
        "documents": data.n_docs,
        "pairs": len(Z),
        "our seconds": best["ours"],
        "LinearSVC seconds": best["peer"],
        "times as fast": best["peer"] / best["ours"],
        "our value": value,
        "LinearSVC value": reached,
        "LinearSVC within our gap": float(reached <= value * (1.0 + GAP)),
    }


def growth(sizes: list[int]) -> dict[str, float]:
    """Seconds of a fit by number of documents, and the slope of their logarithms."""
    seconds, documents = [], []
    ours = LinearRanker(RankSVM(), C=PAIR_C, gap=GAP, transforms=())
    ours.fit(make_standardized("letor", 50))
    results: dict[str, float] = {}
    for n_lists in sizes:
        data = make_standardized("letor", n_lists)
        start = time.perf_counter()
        ours.fit(data)
        seconds.append(time.perf_counter() - start)
        documents.append(data.n_docs)
        results[f"{data.n_docs:,} documents"] = seconds[-1]
    results["slope"] = float(np.polyfit(np.log(documents), np.log(seconds), 1)[0])
    return results


def torch_listnet(data: Dataset, target: float, threads: int) -> Callable[[], float]:
    """Full-batch L-BFGS of the same objective; returns the seconds to the target."""
    import torch

    torch.set_num_threads(threads)
    X = torch.from_numpy(np.array(data.features))
    sizes = torch.from_numpy(np.diff(data.offsets).copy())
    lists = torch.repeat_interleave(torch.arange(data.n_lists), sizes)
    y = torch.from_numpy(data.labels.copy())
    n = data.n_lists

    def log_softmax(s: torch.Tensor) -> torch.Tensor:
        top = torch.full((n,), -torch.inf).scatter_reduce(0, lists, s.detach(), "amax")
        shifted = s - top[lists]
        sums = torch.zeros(n).index_add(0, lists, shifted.exp())
        return shifted - sums.log()[lists]

    # Lists with one label level say nothing, as in the library.
    top = torch.zeros(n).scatter_reduce(0, lists, y, "amax", include_self=False)
    low = torch.zeros(n).scatter_reduce(0, lists, y, "amin", include_self=False)
    targets = log_softmax(y).exp() * (top > low)[lists]

    def run() -> float:
        w = torch.zeros(X.shape[1], requires_grad=True)
        reached = math.inf
        optimizer = torch.optim.LBFGS(
            [w], max_iter=20, history_size=20, line_search_fn="strong_wolfe", tolerance_change=0
        )
        start = time.perf_counter()

        def closure() -> torch.Tensor:
            nonlocal reached
            optimizer.zero_grad()
            loss = -(targets * log_softmax(X @ w)).sum() + w.square().sum() / LISTNET_C
            loss.backward()
            if loss.item() <= target:
                reached = min(reached, time.perf_counter() - start)
                raise StopIteration
            return loss

        try:
            for _ in range(100):
                optimizer.step(closure)
        except StopIteration:
            pass
        return reached

    return run


def listnet(n_lists: int, rounds: int, threads: int) -> dict[str, float]:
    data = make_standardized("web", n_lists)
    exact = LinearRanker(objective("listnet"), C=LISTNET_C, transforms=(), tolerance=1e-9)
    target = exact.fit(data).convergence_.value * (1.0 + CLOSE)
    # Stops where the value per list is so close to the minimum.
    close = CLOSE * target / data.n_lists
    ours = LinearRanker(objective("listnet"), C=LISTNET_C, transforms=(), tolerance=close)
    value = ours.fit(data).convergence_.value
    theirs = torch_listnet(data, target, threads)
    mine, peer = math.inf, math.inf
    for _ in range(rounds):
        start = time.perf_counter()
        ours.fit(data)
        mine = min(mine, time.perf_counter() - start)
        peer = min(peer, theirs())
    return {
        "documents": data.n_docs,
        "our seconds": mine,
        "PyTorch seconds": peer,
        "times as fast": peer / mine,
        "our value over the target": value / target,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=["ranksvm", "squared", "growth", "listnet"])
    parser.add_argument("--pair-lists", type=int, default=60)
    parser.add_argument("--web-lists", type=int, default=2000)
    parser.add_argument("--sizes", type=int, nargs="*", default=[1600, 3200, 6400, 12800, 25600])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    numba.set_num_threads(options.threads)
    works: dict[str, Callable[[], dict[str, float]]] = {
        "ranksvm": lambda: ranksvm(options.pair_lists, options.rounds, squared=False),
        "squared": lambda: ranksvm(options.pair_lists, options.rounds, squared=True),
        "growth": lambda: growth(options.sizes),
        "listnet": lambda: listnet(options.web_lists, options.rounds, options.threads),
    }
    results = {name: works[name]() for name in options.only}
    if options.json:
        Console().print_json(json.dumps(results))
        return
    for name, rows in results.items():
        table = Table("what", "value", title=name)
        for key, value in rows.items():
            table.add_row(key, f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}")
        Console().print(table)


if __name__ == "__main__":
    main()
