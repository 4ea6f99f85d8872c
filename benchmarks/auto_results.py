"""Make docs/results/auto.md: AutoRanker against other libraries, on real and synthetic data.

    python benchmarks/auto_results.py DATA... [--synthetic] [--minutes 1,5,20] [--store FOLDER]

DATA are fold folders. Every system learns from the training and validation lists of a fold and is
measured on its test lists; nothing is chosen on test lists. Each finished (system, data, fold) is a
file in the store, so an interrupted run goes on, and several runs add systems to one page.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import plackett as pk
from plackett.experiments.significance import compare_paired, holm
from plackett.models.recipes.search_spaces import with_settings

METRICS = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10")
PEERS = ("lightgbm-lambdarank", "xgboost-ndcg", "catboost-yetirank")
OURS = "e-lambdaloss-mart"
PAGE = Path(__file__).parents[1] / "docs" / "results" / "auto.md"
_LIGHTGBM_DEFAULTS = {
    "trees": 100, "learning_rate": 0.1, "leaves": 31, "min_documents": 20, "feature_fraction": 1.0,
    "smoothing": 1,
}  # fmt: skip

_INTRODUCTION = f"""\
Made by `benchmarks/auto_results.py` on {os.cpu_count()} cores. Every system learns from the
training and validation lists of a fold and is measured on its test lists, pooled; lists without
relevant documents are dropped. *Tuned*: Optuna on the validation lists for the minutes given. *p*:
paired randomization test against the best peer (the highest NDCG@10 of those that are not ours),
corrected by Holm's method over the systems of a table. *ms*: one list of 100 documents, one call of
`predict`. *seconds* of training and *MB* of the saved model are means over folds."""

Fit = Callable[[pk.Fold], pk.models.Ranker]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", type=Path)
    parser.add_argument("--synthetic", action="store_true")
    parser.add_argument("--minutes", default="1,5,20", help="budgets of AutoRanker")
    parser.add_argument("--tuned", type=float, default=5.0, help="minutes for tuned peers; 0: none")
    parser.add_argument("--folds", type=int, default=5, help="folds of each data set to use")
    parser.add_argument("--store", type=Path, default=Path("auto-results"))
    parser.add_argument("--only", help="systems, separated by commas, that are run")
    parser.add_argument("--page", action="store_true", help="write the page from the store only")
    options = parser.parse_args()
    budgets = [float(text) for text in options.minutes.split(",") if text]
    systems = _systems(budgets, options.tuned)
    if not options.page:
        wanted = options.only.split(",") if options.only else list(systems)
        for data, fold in _folds(options):
            for name in wanted:
                _run(options.store, data, fold, name, systems[name])
    PAGE.write_text(_page(options.store), encoding="utf-8")
    print(f"{PAGE} written")


def _systems(budgets: list[float], tuned: float) -> dict[str, Fit]:
    systems: dict[str, Fit] = {}
    for name in (*PEERS, OURS):
        systems[name] = lambda fold, name=name: _base(name).fit(
            fold.train, fold.validation, "ndcg@10"
        )
        systems[f"{name}, cross-fitted"] = lambda fold, name=name: pk.CrossFit(_base(name)).fit(
            fold.train, fold.validation, "ndcg@10"
        )
    for name in PEERS if tuned else ():
        systems[f"{name}, tuned {tuned:g} min"] = lambda fold, name=name: _tune(name, fold, tuned)
    for minutes in budgets:
        systems[f"AutoRanker, {minutes:g} min"] = lambda fold, minutes=minutes: pk.AutoRanker(
            minutes=minutes
        ).fit(fold.train, fold.validation)
    middle = budgets[len(budgets) // 2] if budgets else 5.0
    systems[f"AutoRanker, {middle:g} min, distilled"] = lambda fold: pk.AutoRanker(
        minutes=middle, distill="trees"
    ).fit(fold.train, fold.validation)
    return systems


def _base(name: str) -> pk.models.Ranker:
    if name == "lightgbm-lambdarank":
        return with_settings(pk.recipe(name), _LIGHTGBM_DEFAULTS)
    return pk.recipe(name)


def _tune(name: str, fold: pk.Fold, minutes: float) -> pk.models.Ranker:
    """Random and then model-based search by Optuna on the validation lists, for some minutes."""
    import optuna

    from plackett.models.recipes.search_spaces import Choice, Whole, search_space

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = search_space(name)
    models: dict[int, pk.models.Ranker] = {}

    def objective(trial: optuna.Trial) -> float:
        settings = {}
        for path, dimension in space.items():
            if isinstance(dimension, Choice):
                index = trial.suggest_categorical(path, range(len(dimension.options)))
                settings[path] = dimension.options[index]
            else:
                suggest = trial.suggest_int if isinstance(dimension, Whole) else trial.suggest_float
                settings[path] = suggest(path, dimension.low, dimension.high, log=dimension.log)
        ranker = with_settings(pk.recipe(name), settings)
        ranker.fit(fold.train, fold.validation, "ndcg@10")
        models[trial.number] = ranker
        scores = ranker.predict(fold.validation)
        return pk.evaluate(scores, fold.validation, "ndcg@10")["ndcg@10"]

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(objective, timeout=60 * minutes)
    return models[study.best_trial.number]


def _folds(options: argparse.Namespace) -> Iterator[tuple[str, pk.Fold]]:
    for path in options.data:
        for fold in pk.read_folds(path)[: options.folds]:
            yield path.name, fold
    if options.synthetic:
        for world, lists in (("web", 500), ("yahoo", 1500)):
            train, validation = pk.split(pk.synthetic(world, n_lists=lists, seed=1), (0.75, 0.25))
            test = pk.synthetic(world, n_lists=1000, seed=2)
            yield f"synthetic {world}", pk.Fold("Fold1", train, validation, test)


def _run(store: Path, data: str, fold: pk.Fold, name: str, fit: Fit) -> None:
    path = store / data / fold.name / f"{name.replace('/', '-')}.json"
    if path.is_file():
        return
    print(f"{data} {fold.name}: {name}", flush=True)
    begin, cpu = time.perf_counter(), time.process_time()
    ranker = fit(fold)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    values = pk.per_list(ranker.predict(fold.test), fold.test, list(METRICS))
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "seconds": seconds,
        "cpu": cpu,
        "milliseconds": _latency(ranker, fold.test),
        "megabytes": _size(ranker, path.with_suffix(".plackett")),
        "values": {m: [None if np.isnan(x) else float(x) for x in v] for m, v in values.items()},
    }
    path.write_text(json.dumps(content))


def _latency(ranker: pk.models.Ranker, data: pk.Dataset) -> float:
    """Milliseconds for one list of about 100 documents, the best of several times."""
    rows = np.ascontiguousarray(np.asarray(data.features[:100], dtype=np.float32))
    ids = np.zeros(len(rows), np.int64)
    ranker.predict(rows, query_ids=ids)
    times = []
    for _ in range(7):
        begin = time.perf_counter()
        ranker.predict(rows, query_ids=ids)
        times.append(time.perf_counter() - begin)
    return 1000 * min(times)


def _size(ranker: pk.models.Ranker, path: Path) -> float:
    import shutil

    ranker.save(path)
    total = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    shutil.rmtree(path)
    return total / 1e6


def _page(store: Path) -> str:
    lines = ["# The best ranking for a budget: results", "", _INTRODUCTION, ""]
    pooled: dict[str, dict[str, list[np.ndarray]]] = {}
    for folder in sorted(path for path in store.iterdir() if path.is_dir()):
        table = _read(folder)
        lines += [f"## {folder.name}", "", *_table(table), ""]
        for name, row in table.items():
            for metric in METRICS:
                pooled.setdefault(name, {}).setdefault(metric, []).append(row["values"][metric])
    n_sets = len({len(v["ndcg@5"]) for v in pooled.values()})
    if n_sets == 1 and len(next(iter(pooled.values()))["ndcg@5"]) > 1:
        together = {
            name: {"values": {m: np.concatenate(v) for m, v in by_metric.items()}}
            for name, by_metric in pooled.items()
        }
        lines += ["## All together", "", *_table(together), ""]
    return "\n".join(lines)


def _read(folder: Path) -> dict[str, dict]:
    """Systems that all folds have, with their pooled values."""
    folds = sorted(path for path in folder.iterdir() if path.is_dir())
    names = [path.stem for path in sorted(folds[0].glob("*.json"))]
    table = {}
    for name in names:
        files = [fold / f"{name}.json" for fold in folds]
        if not all(file.is_file() for file in files):
            continue
        parts = [json.loads(file.read_text()) for file in files]
        table[name] = {
            "values": {
                m: np.concatenate([np.array(p["values"][m], float) for p in parts]) for m in METRICS
            },
            **{
                key: float(np.mean([p[key] for p in parts]))
                for key in ("seconds", "milliseconds", "megabytes")
            },
        }
    return table


def _table(table: dict[str, dict]) -> list[str]:
    means = {
        name: {m: float(np.nanmean(v)) for m, v in row["values"].items()}
        for name, row in table.items()
    }
    peers = [name for name in table if name.startswith(PEERS)]
    best = max(peers, key=lambda name: means[name]["ndcg@10"], default=None)
    others = [name for name in table if name != best]
    p_values: dict[tuple[str, str], float] = {}
    for metric in ("ndcg@5", "ndcg@10") if best else ():
        raw = [
            compare_paired(table[n]["values"][metric], table[best]["values"][metric]).randomisation
            for n in others
        ]
        for name, p in zip(others, holm(raw), strict=True):
            p_values[name, metric] = float(p)
    lines = [
        f"| system | {' | '.join(m.upper() for m in METRICS)} | p @5 | p @10 | seconds | ms | MB |",
        "|---|" + "---|" * (len(METRICS) + 5),
    ]
    for name in sorted(table, key=lambda name: -means[name]["ndcg@10"]):
        row = table[name]
        cells = [f"{means[name][m]:.4f}" for m in METRICS]
        cells += [
            "best peer" if name == best else f"{p_values.get((name, m), float('nan')):.3f}"
            for m in ("ndcg@5", "ndcg@10")
        ]
        cells += [
            f"{row[key]:.{digits}f}" if key in row else ""
            for key, digits in (("seconds", 0), ("milliseconds", 2), ("megabytes", 1))
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main()
