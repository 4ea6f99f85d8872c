"""Measure the candidates of AutoRanker: seconds of a fit, and what each adds to an ensemble.

On each data set all candidates are cross-fitted. Then an order is made greedily: the next candidate
is the one that raises the out-of-fold value of the ensemble most per second. What it adds is its
gain. Gains are averaged over the data sets of a size class and over the orders of several bootstrap
samples of the lists, and written with the seconds to ``portfolio.json`` in the package.

    python benchmarks/auto_portfolio.py DATA... [--synthetic] [--work FOLDER] [--write]

DATA are files or fold folders; of a fold, only the training lists are used.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np

import plackett as pk
from plackett.data.folds import is_folds
from plackett.metrics import metric
from plackett.models.auto import portfolio
from plackett.models.auto.search import Budget, Search, read_spent

METRIC = metric("ndcg@10")
SAMPLES = 5
SECONDS_PER_FIT = portfolio.SECONDS_PER_FIT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", type=Path)
    parser.add_argument("--synthetic", action="store_true", help="also use synthetic data")
    parser.add_argument("--work", type=Path, help="folder that keeps finished candidates")
    parser.add_argument("--minutes", type=float, default=60.0, help="limit for each data set")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="replace portfolio.json")
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp(prefix="auto-portfolio-"))
    seconds: dict[str, list[float]] = defaultdict(list)
    gains: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, data in _data_sets(options.data, options.synthetic).items():
        search = _cross_fit(data, work / name, options.folds, options.minutes)
        millions = data.n_docs * data.n_features / 1e6
        for result in search.finished:
            rest = result.seconds / options.folds - SECONDS_PER_FIT
            seconds[result.candidate.name].append(max(rest, 0.01) / millions)
        size = portfolio.size_of(data)
        for candidate, gain in _marginal_gains(search).items():
            gains[candidate][size].append(gain)
        _print_set(name, search, size)
    measured = {
        candidate: {
            "seconds": round(float(np.median(seconds[candidate])), 3),
            "gains": {size: round(1000 * float(np.mean(v)), 2) for size, v in by_size.items()},
        }
        for candidate, by_size in gains.items()
    }
    print(json.dumps(measured, indent=1))
    if options.write:
        path = Path(portfolio.__file__).with_name("portfolio.json")
        known = json.loads(path.read_text())
        for candidate, numbers in measured.items():
            old = known.get(candidate, {"gains": {}})
            numbers["gains"] = old["gains"] | numbers["gains"]
            known[candidate] = numbers
        path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def _data_sets(paths: list[Path], synthetic: bool) -> dict[str, pk.Dataset]:
    sets = {}
    for path in paths:
        if is_folds(path):
            sets[path.name] = pk.read_folds(path)[0].train
        else:
            sets[path.stem] = pk.read(path)
    if synthetic:
        sets["web"] = pk.synthetic("web", n_lists=600, seed=11)
        sets["yahoo"] = pk.synthetic("yahoo", n_lists=5000, seed=11)
    return sets


def _cross_fit(data: pk.Dataset, folder: Path, folds: int, minutes: float) -> Search:
    folder.mkdir(parents=True, exist_ok=True)

    def make_crossfit(candidate: portfolio.Candidate) -> pk.CrossFit:
        ranker = candidate.build(seed=0, threads=None)
        return pk.CrossFit(ranker, folds=folds, stop_on="next")

    def report(text: str, done: int, total: int) -> None:
        print(f"\r{folder.name}: {text} {done}/{total}   ", end="", flush=True)

    budget = Budget(60 * minutes, read_spent(folder))
    search = Search(folder, data, (METRIC,), budget, make_crossfit, report)
    search.run(portfolio.find_candidates("auto"))
    print()
    return search


def _marginal_gains(search: Search) -> dict[str, float]:
    """What each candidate adds to those before it in the greedy order."""
    rng = np.random.default_rng(0)
    n_lists = search.data.n_lists
    total: dict[str, float] = defaultdict(float)
    for _ in range(SAMPLES):
        weights = rng.multinomial(n_lists, np.full(n_lists, 1 / n_lists)).astype(float)
        for name, gain in _greedy(search, weights).items():
            total[name] += gain / SAMPLES
    return dict(total)


def _greedy(search: Search, weights: np.ndarray) -> dict[str, float]:
    data = search.data
    left = {r.candidate.name: r for r in search.finished}
    chosen = np.zeros(data.n_docs)
    value = _mean(search, np.zeros(data.n_docs), weights)
    gains = {}
    while left:
        best = None
        for name, result in left.items():
            # The better of adding it once and of adding it as much as all before.
            sums = [chosen + result.scores, chosen + max(len(gains), 1) * result.scores]
            scores = max(sums, key=lambda s: _mean(search, s, weights))
            gain = _mean(search, scores, weights) - value
            density = gain / result.seconds if gain > 0 else gain * result.seconds
            if best is None or density > best[0]:
                best = (density, name, gain, scores)
        assert best is not None
        _, name, gain, scores = best
        gains[name] = max(gain, 0.0)
        if gain > 0:
            chosen, value = scores, value + gain
        del left[name]
    return gains


def _mean(search: Search, scores: np.ndarray, weights: np.ndarray) -> float:
    data = search.data
    values = METRIC(scores, data.labels, data.offsets, data.document_ids, data.keys)
    counted = ~np.isnan(values)
    return float(values[counted] @ weights[counted] / weights[counted].sum())


def _print_set(name: str, search: Search, size: str) -> None:
    print(f"{name} ({size}, {search.data.n_lists} lists)")
    for result in sorted(search.results.values(), key=lambda r: -np.nan_to_num(r.value)):
        text = result.note or f"{result.value:.4f}"
        print(f"  {result.candidate.name:<26} {text:<10} {result.seconds:8.1f} s")


if __name__ == "__main__":
    main()
