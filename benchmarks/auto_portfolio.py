"""Measure the candidates of AutoRanker: seconds of a fit, and what each adds to an ensemble.

On each data set all candidates are cross-fitted, with one thread; seconds are processor time. Then candidates are
added in random orders to an ensemble that begins with the two that AutoRanker always tries. A candidate is accepted if
it raises the value of the ensemble on a bootstrap sample of the lists; its gain is what it then adds on the other
lists. Mean gains, and the median seconds of a fit, are written to ``portfolio.json`` in the package.

    python benchmarks/auto_portfolio.py DATA... [--synthetic] [--work FOLDER] [--write]

DATA are files or fold folders; of a fold, only the training lists are used. With ``--work`` a rerun goes on
where the last one stopped. Size classes without a data set keep their numbers.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np

import plackett as pk
from auto_results import SYNTHETIC, processor_time
from plackett.data.folds import is_folds
from plackett.metrics import metric
from plackett.models.auto import portfolio
from plackett.models.auto.search import Search, TimeBudget, read_spent

METRIC = metric("ndcg@10")
SAMPLES = 60
MIN_GAIN = 1e-4
FIRST = ("listnet-linear", portfolio.BASELINE)
SECONDS_PER_FIT = portfolio.SECONDS_PER_FIT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", type=Path)
    parser.add_argument("--synthetic", action="store_true", help="also use synthetic data")
    parser.add_argument("--work", type=Path, help="folder that keeps finished candidates")
    parser.add_argument("--minutes", type=float, default=60.0, help="limit for each data set")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--lists", type=int, default=1000, help="lists of each data set to use")
    parser.add_argument("--write", action="store_true", help="replace portfolio.json")
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp(prefix="auto-portfolio-"))
    seconds: dict[str, list[float]] = defaultdict(list)
    gains: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    described = []
    for name, data in _data_sets(options.data, options.synthetic).items():
        data = data.select(np.arange(min(options.lists, data.n_lists)))
        search = _cross_fit(data, work / name, options.folds, options.minutes)
        millions = data.n_docs * data.n_features / 1e6
        for result in search.finished:
            rest = result.seconds / (options.folds * result.candidate.repeats_on(data)) - SECONDS_PER_FIT
            seconds[result.candidate.name].append(max(rest, 0.01) / millions)
        size = portfolio.size_of(data)
        for candidate, gain in _mean_gains(search).items():
            gains[candidate][size].append(gain)
        _print_set(name, search, size)
        described.append(f"{name}: {data.n_lists} lists ({size})")
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
        known["measured"] = {
            "on": described,
            "how": f"{options.folds} members each, one thread, processor time; sizes without data hold estimates",
        }
        path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def _data_sets(paths: list[Path], synthetic: bool) -> dict[str, pk.Dataset]:
    sets = {}
    for path in paths:
        if is_folds(path):
            sets[path.name] = pk.read_folds(path)[0].train
        else:
            sets[path.stem] = pk.read(path)
    if synthetic:
        sets |= {f"synthetic {world}": pk.synthetic(world, n_lists=n, seed=31) for world, n in SYNTHETIC.items()}
    return sets


def _cross_fit(data: pk.Dataset, folder: Path, folds: int, minutes: float) -> Search:
    folder.mkdir(parents=True, exist_ok=True)

    def make_crossfit(candidate: portfolio.Candidate) -> pk.CrossFit:
        ranker = candidate.build(seed=0, threads=1)
        repeats, transforms = candidate.repeats_on(data), candidate.transforms
        return pk.CrossFit(ranker, folds=folds, repeats=repeats, stop_on="next", transforms=transforms)

    def report(text: str, done: int, total: int) -> None:
        print(f"\r{folder.name}: {text} {done}/{total}   ", end="", flush=True)

    budget = TimeBudget(60 * minutes, read_spent(folder), processor_time)
    search = Search(folder, data, (METRIC,), budget, make_crossfit, report)
    search.run(portfolio.find_candidates("auto"))
    print()
    return search


def _mean_gains(search: Search) -> dict[str, float]:
    """What each candidate adds to an ensemble of some of the others, on lists that did not decide about it."""
    rng = np.random.default_rng(0)
    n_lists = search.data.n_lists
    scores = {result.candidate.name: result.scores for result in search.finished}
    first = [name for name in FIRST if name in scores]
    others = [name for name in scores if name not in first]
    total = dict.fromkeys(scores, MIN_GAIN)
    for _ in range(SAMPLES):
        drawn = rng.multinomial(n_lists, np.full(n_lists, 1 / n_lists)).astype(float)
        unseen = (drawn == 0).astype(float)
        ensemble = sum(scores[name] for name in first)
        for place, name in enumerate(rng.permutation(others)):
            # The better of adding it once and of adding it as much as all before.
            sums = [ensemble + factor * scores[name] for factor in (1, len(first) + place)]
            better = max(sums, key=lambda s: _mean(search, s, drawn))
            if _mean(search, better, drawn) > _mean(search, ensemble, drawn):
                gain = _mean(search, better, unseen) - _mean(search, ensemble, unseen)
                total[name] += gain / SAMPLES
                ensemble = better
    return {name: max(gain, MIN_GAIN) for name, gain in total.items()}


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
