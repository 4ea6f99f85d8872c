"""Make docs/results/auto.md: AutoRanker against other libraries, on real and synthetic data.

    python benchmarks/auto_results.py DATA... [--synthetic] [--systems TEXT] [--minutes 1,5]
    python benchmarks/auto_results.py --page

DATA are folders with folds. Every system learns from the training and validation lists of a fold and
is measured on its test lists; nothing is chosen on test lists. Each (system, data, fold) runs in a
process of its own with one thread, and budgets are processor time, so that other work on the machine
changes nothing. Outcomes are lines of a file in the store: a rerun goes on where the last one
stopped. The second form writes the page from the store, and keeps the outcomes beside this script, so
that a rerun elsewhere goes on from them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import plackett as pk
from plackett.models.auto.distillation import distill_trees, is_sum_of_trees
from plackett.models.auto.portfolio import find_candidates
from plackett.models.crossfit import with_threads
from plackett.models.fit_context import FitContext, no_watch
from plackett.models.recipes.search_spaces import Choice, Whole, search_space, with_settings

METRICS = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10")
PEERS = {"LightGBM": "lightgbm-lambdarank", "XGBoost": "xgboost-ndcg", "CatBoost": "catboost-yetirank"}
OURS = {"ours": "e-lambdaloss-mart"}
AUTO, DISTILLED = "AutoRanker", "AutoRanker, distilled"
CONTEXT = "ours, cross-fitted with list-context"
STORE = Path("auto-results")
SYNTHETIC = {"letor": 400, "web": 150}  # lists to learn from
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*")
    parser.add_argument("--synthetic", action="store_true", help="also use synthetic data")
    parser.add_argument("--folds", type=int, default=5, help="folds of each data set to use")
    parser.add_argument("--systems", default="", help="run only systems whose name matches this pattern")
    parser.add_argument("--minutes", default="1,5", help="budgets of processor time")
    parser.add_argument("--workers", type=int, default=1, help="processes at a time")
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--page", action="store_true", help="write the page from the store")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        run_job(options.store, *json.loads(options.job))
    elif options.page:
        from auto_page import write_page

        write_page(*(_keep(options.store, name) for name in ("outcomes.jsonl", "trials.jsonl")))
    else:
        options.store.mkdir(parents=True, exist_ok=True)
        minutes = [float(text) for text in options.minutes.split(",")]
        chains: dict[tuple[str, int, str], list[Job]] = {}
        for job in _jobs(options, minutes):  # a larger budget goes on from a smaller one: one after the other
            chains.setdefault((job[0], job[1], job[2].removesuffix(", distilled")), []).append(job)
        with ThreadPoolExecutor(options.workers) as pool:
            list(pool.map(lambda chain: [_start(options.store, job) for job in chain], chains.values()))


Job = tuple[str, int, str, float]
"""Path or name of the data, number of the fold, system, and minutes (0: no budget)."""


def _jobs(options: argparse.Namespace, minutes: list[float]) -> list[Job]:
    """The cheap systems first, then fold by fold one budget after the other."""
    data = [(name, len(pk.read_folds(name))) for name in options.data]
    data += [(f"synthetic {world}", 2) for world in SYNTHETIC] if options.synthetic else []
    cheap = [(f"{name}{how}", 0.0) for how in ("", ", cross-fitted") for name in (*PEERS, *OURS)]
    cheap.append((CONTEXT, 0.0))
    jobs: list[Job] = [(name, fold, *s) for s in cheap for name, folds in data for fold in range(folds)]
    systems = [AUTO, DISTILLED, *(f"{name}, tuned" for name in PEERS)]
    jobs += [
        (name, fold, system, budget)
        for fold in range(options.folds)
        for name, folds in data
        for budget in minutes
        for system in systems
        if fold < folds
    ]
    return [job for job in jobs if job[1] < options.folds and re.search(options.systems, job[2])]


def _start(store: Path, job: Job) -> None:
    data, fold, system, minutes = job
    key = (Path(data).name, fold, system, minutes)
    if any(key == (o["data"], o["fold"], o["system"], o["minutes"]) for o in read_outcomes(store)):
        return
    print(f"{time.strftime('%H:%M:%S')} {key}", flush=True)
    command = [sys.executable, __file__, "--store", str(store), "--job", json.dumps(job)]
    done = subprocess.run(command, env=os.environ | _ONE_THREAD, check=False, capture_output=True, text=True)
    if done.returncode:
        print(f"{key} failed:\n{done.stderr[-2000:]}", flush=True)


def read_outcomes(store: Path, name: str = "outcomes.jsonl") -> list[dict[str, Any]]:
    """The outcomes of all runs so far: those that are kept beside this script, and those in the store."""
    kept, path = _kept(name), store / name
    text = gzip.decompress(kept.read_bytes()).decode() if kept.is_file() else ""
    text += path.read_text() if path.is_file() else ""
    return [json.loads(line) for line in dict.fromkeys(text.splitlines())]


def _kept(name: str) -> Path:
    return Path(__file__).with_name(f"auto_{name}.gz")


def _keep(store: Path, name: str) -> list[dict[str, Any]]:
    outcomes = read_outcomes(store, name)
    text = "".join(json.dumps(outcome) + "\n" for outcome in outcomes)
    if outcomes:
        _kept(name).write_bytes(gzip.compress(text.encode(), mtime=0))
    return outcomes


def processor_time() -> float:
    """Seconds of processor time of this process and of its finished children."""
    return sum(os.times()[:4])


def read_fold(data: str, fold: int) -> pk.Fold:
    """A fold of a folder or of a synthetic world."""
    if not data.startswith("synthetic "):
        return pk.read_folds(data)[fold]
    world = data.removeprefix("synthetic ")
    train, validation = pk.split(pk.synthetic(world, n_lists=SYNTHETIC[world], seed=10 + fold), (0.75, 0.25))
    return pk.Fold(f"Fold{fold + 1}", train, validation, pk.synthetic(world, n_lists=700, seed=20 + fold))


def run_job(store: Path, data: str, number: int, system: str, minutes: float) -> None:
    """Fit one system, measure it on the test lists and append the outcome."""
    fold = read_fold(data, number)
    folder = store / "work" / f"{Path(data).name}-{number}-{system.removesuffix(', distilled')}"
    start = processor_time()
    ranker, extra = _fit(system, fold, minutes, folder)
    seconds = processor_time() - start + extra.pop("spent", 0.0)
    values = pk.per_list(ranker.predict(fold.test), fold.test, list(METRICS))
    outcome = {
        "data": Path(data).name,
        "fold": number,
        "system": system,
        "minutes": minutes,
        "seconds": round(seconds, 1),
        "milliseconds": _latency(ranker, fold.test),
        "megabytes": _size(ranker, folder.with_suffix(f".{os.getpid()}.plackett")),
        **extra,
        "values": {m: [None if np.isnan(x) else round(float(x), 5) for x in v] for m, v in values.items()},
    }
    with (store / "outcomes.jsonl").open("a") as file:
        file.write(json.dumps(outcome) + "\n")


def _fit(system: str, fold: pk.Fold, minutes: float, folder: Path) -> tuple[pk.models.Ranker, dict[str, Any]]:
    name, _, how = system.partition(", ")
    if name == AUTO:
        return _fit_auto(fold, minutes, folder, distilled=bool(how))
    if how == "tuned":
        return _tune(name, fold, minutes, folder)
    ranker = with_threads(_base(name), 1)
    if how.startswith("cross-fitted"):
        ranker = pk.CrossFit(ranker, transforms=("list-context",) if system == CONTEXT else ())
    return ranker.fit(fold.train, fold.validation, "ndcg@10"), {}


def _base(name: str) -> pk.models.Ranker:
    if name == "LightGBM":
        (candidate,) = find_candidates("lightgbm-defaults")
        return candidate.build(seed=0, threads=1)
    return pk.recipe((PEERS | OURS)[name])


def _fit_auto(
    fold: pk.Fold, minutes: float, folder: Path, *, distilled: bool
) -> tuple[pk.models.Ranker, dict[str, Any]]:
    """AutoRanker by processor time; a larger budget goes on from a smaller one."""
    pk.AutoRanker.clock = staticmethod(processor_time)
    ranker = pk.AutoRanker(minutes=minutes, threads=1)
    saved = folder / f"{minutes:g}.plackett"
    if not distilled:
        work = folder / "search"
        spent = json.loads((work / "spent.json").read_text())["seconds"] if work.is_dir() else 0.0
        ranker.fit(fold.train, fold.validation, checkpoint=work)
        shutil.rmtree(saved, ignore_errors=True)
        ranker.save(saved)
    else:
        ranker, spent = pk.load(saved), 0.0
    ensemble = ranker.leaderboard_[0]
    shares = {name: round(float(w), 3) for name, w in zip(ranker.member_names_, ranker.weights_, strict=True)}
    trees = sum(float(w) for m, w in zip(ranker.members_, ranker.weights_, strict=True) if is_sum_of_trees(m))
    found = {"spent": spent, "weights": shares, "trees_share": trees, "out_of_fold": ensemble.value}
    if not distilled:
        return ranker, found | {"board": [row.to_dict() for row in ranker.leaderboard_]}
    data = pk.concat([fold.train, fold.validation]).canonical()
    result = distill_trees(
        ranker.members_,
        ranker.weights_,
        data,
        FitContext((pk.metric("ndcg@10"),), None, lambda *_: None, no_watch),
        seed=0,
        threads=1,
        seconds=60 * minutes,
        clock=processor_time,
    )
    ranker._set_distilled(result)
    return ranker, found | {"distillation": result.to_dict()}


def _tune(name: str, fold: pk.Fold, minutes: float, folder: Path) -> tuple[pk.models.Ranker, dict[str, Any]]:
    """The defaults, then Optuna, on the validation lists; a larger budget goes on from a smaller one."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folder.mkdir(parents=True, exist_ok=True)
    space, base = search_space(PEERS[name]), _base(name)
    study = optuna.create_study(
        storage=f"sqlite:///{folder.resolve()}/study.db",
        study_name="tune",
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=round(minutes)),
        load_if_exists=True,
    )
    known = study.user_attrs
    spent = known.get("spent", 0.0)
    start = processor_time() - spent

    def fit(settings: dict[str, Any]) -> float:
        """Fit, and keep the model if it is the best so far."""
        ranker = with_threads(with_settings(base, settings), 1)
        ranker.fit(fold.train, fold.validation, "ndcg@10")
        value = pk.evaluate(ranker.predict(fold.validation), fold.validation, "ndcg@10")["ndcg@10"]
        if value > study.user_attrs.get("best", 0.0):
            shutil.rmtree(folder / "best.plackett", ignore_errors=True)
            ranker.save(folder / "best.plackett")
            study.set_user_attr("best", value)
            study.set_user_attr("settings", settings)
        study.set_user_attr("spent", processor_time() - start)
        return value

    def objective(trial: optuna.Trial) -> float:
        return fit({path: _suggest(trial, path, dimension) for path, dimension in space.items()})

    if "best" not in known:
        fit({})
    while processor_time() - start < 60 * minutes:
        study.optimize(objective, n_trials=1)
    known = study.user_attrs
    found = {
        "spent": spent,
        "trials": 1 + len(study.trials),
        "validation": known["best"],
        "settings": known["settings"],
    }
    return pk.load(folder / "best.plackett"), found


def _suggest(trial: Any, path: str, dimension: Any) -> Any:
    if isinstance(dimension, Choice):
        return trial.suggest_categorical(path, dimension.options)
    suggest = trial.suggest_int if isinstance(dimension, Whole) else trial.suggest_float
    return suggest(path, dimension.low, dimension.high, log=dimension.log)


def _latency(ranker: pk.models.Ranker, data: pk.Dataset) -> float:
    """Milliseconds of processor time for one list of about 100 documents, the best of several times."""
    rows = np.ascontiguousarray(np.asarray(data.features[:100], dtype=np.float32))
    ids = np.zeros(len(rows), np.int64)
    return 1000 * min(_time(lambda: ranker.predict(rows, query_ids=ids)) for _ in range(8))


def _time(call: Callable[[], Any]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def _size(ranker: pk.models.Ranker, path: Path) -> float:
    ranker.save(path)
    total = sum(file.stat().st_size for file in _files(path))
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return total / 1e6


def _files(path: Path) -> Iterator[Path]:
    return (file for file in [path, *path.rglob("*")] if file.is_file())


if __name__ == "__main__":
    main()
