"""Which loss should I use? Every objective in every kind of model, and the ranking models beside them.

    python benchmarks/losses.py run DATA --out losses.jsonl --minutes 60   # may be killed and run again
    python benchmarks/losses.py page DATA --out losses.jsonl --page docs/results/losses.md

DATA is a folder with OHSUMED and MQ2007_partial in folds. Each (set, fold, seed, kind, name) is one line of the
file and is not run again. Every fit is stopped, and its penalty chosen, on the validation part of its fold; the test
part is scored once. A fit that takes more than ``LIMIT`` seconds of processor time is given up, and its system is
not run on that set again.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import plackett as pk
from plackett.data.folds import Fold
from plackett.experiments.significance import holm, randomization_test
from plackett.models.ranker import Ranker
from plackett.objectives import OBJECTIVES

FOLDS = {"MQ2007_partial": 1, "OHSUMED": 5}
"""Number of folds of each set."""
LISTS = {"MQ2007_partial": (300, 150)}
"""Training and validation lists that are taken; of other sets, all."""
METRIC = "ndcg@10"
LIMIT, RECIPE_LIMIT = 12, 60
LEVEL = 0.05
"""Of significance."""
UNSTABLE = 0.02
"""Deviation between seeds that is told."""
KINDS: dict[str, tuple[type[Ranker], dict[str, Any]]] = {
    "linear": (pk.LinearRanker, {"C": (1e-6, 1e-4, 1e-2, 1.0, 100.0), "starts": ("path",), "max_iterations": 100}),
    "trees": (
        pk.TreeRanker,
        {"trees": 300, "learning_rate": 0.1, "leaves": 15, "list_fraction": 0.7, "feature_fraction": 0.5}
        | {"patience": 30, "smoothing": 5},
    ),
    "nets": (
        pk.NeuralRanker,
        {"layers": (64, 32), "learning_rate": 1e-3, "clip": 5.0, "epochs": 60, "patience": 10, "batch_lists": 8}
        | {"transforms": ("query-minmax",)},
    ),
}
KIND_TITLES = {"linear": "Linear models", "trees": "Trees", "nets": "Nets"}
_FEW_EPOCHS = {"epochs": 20, "patience": 5}
RECIPES: dict[str, dict[str, Any]] = {
    "rankboost": {},
    "adarank": {},
    "coordinate-ascent": {},
    "dlcm": _FEW_EPOCHS,
    "setrank": _FEW_EPOCHS,
    "dasalc": _FEW_EPOCHS,
}
"""Models with a loss of their own, and what is changed of their recipes to bound the time of a fit."""


@dataclass(frozen=True)
class Job:
    """One fit."""

    set: str
    fold: int
    seed: int
    kind: str
    name: str

    def ranker(self) -> Ranker:
        if self.kind == "recipes":
            return pk.recipe(self.name, seed=self.seed, threads=1, **RECIPES[self.name])
        kind, settings = KINDS[self.kind]
        return kind(objective=self.name, seed=self.seed, threads=1, **settings)

    @property
    def is_repetition(self) -> bool:
        """Whether the seed changes nothing: a linear model whose objective draws nothing starts at zero."""
        if self.kind == "recipes":
            return self.seed > 0 and self.name in ("rankboost", "adarank")
        objective = pk.objective(self.name)
        is_random = self.kind != "linear" or objective.draw is not None or hasattr(objective, "samples")
        return self.seed > 0 and not is_random


def jobs(seeds: int, kinds: list[str], names: list[str]) -> Iterator[Job]:
    """Fits of the named systems, or of all, in rounds of one fit of each: an early stop leaves whole rounds."""
    places = [(name, fold, seed) for seed in range(seeds) for name, folds in FOLDS.items() for fold in range(folds)]
    systems = [(kind, objective.name) for kind in KINDS if kind in kinds for objective in OBJECTIVES]
    recipes = [("recipes", name) for name in RECIPES if "recipes" in kinds]
    for some in (systems, recipes):
        for place in places:
            yield from (Job(*place, *system) for system in some if not names or system[1] in names)


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of the file; one that a killed process left half written is passed over."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("}\n"):
                yield json.loads(line)


class TimeLimitError(Exception):
    """A fit took longer than the limit."""


def _give_up(*_: Any) -> None:
    raise TimeLimitError


def run(options: argparse.Namespace) -> None:
    end = time.monotonic() + 60 * options.minutes
    folds: dict[str, list[Fold]] = {}
    lines = list(records(options.out))
    finished = {Job(*(line[name] for name in Job.__dataclass_fields__)) for line in lines}
    failed = {(line["set"], line["kind"], line["name"]) for line in lines if "error" in line}
    signal.signal(signal.SIGPROF, _give_up)
    for job in jobs(options.seeds, options.kinds, options.names):
        if job in finished or job.is_repetition or (job.set, job.kind, job.name) in failed:
            continue
        if time.monotonic() > end:
            return
        if job.set not in folds:
            folds[job.set] = [_reduce(fold, LISTS.get(job.set)) for fold in pk.read_folds(options.data / job.set)]
        line: dict[str, Any] = vars(job) | fit(job, folds[job.set][job.fold])
        if "error" in line:
            failed.add((job.set, job.kind, job.name))
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _reduce(fold: Fold, lists: tuple[int, int] | None) -> Fold:
    if lists is None or fold.validation is None:
        return fold
    return replace(fold, train=fold.train.lists(0, lists[0]), validation=fold.validation.lists(0, lists[1]))


def fit(job: Job, fold: Fold) -> dict[str, Any]:
    """Processor time, and the metric of each test list; or why there is none."""
    start = time.process_time()
    limit = RECIPE_LIMIT if job.kind == "recipes" else LIMIT
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of convergence: the penalty is chosen on validation
            ranker = job.ranker().fit(fold.train, fold.validation, metric=METRIC)
        values = pk.per_list(ranker.predict(fold.test), fold.test, METRIC)[METRIC]
    except TimeLimitError:
        return {"error": f"more than {limit} s of processor time"}
    except pk.PlackettError as error:
        return {"error": str(error)}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = round(time.process_time() - start, 2)
    return {"seconds": seconds, "values": [None if math.isnan(v) else round(float(v), 6) for v in values]}


class Column:
    """Every system of a kind on a set: means, their deviation over seeds, and p-values against the best."""

    def __init__(self, lines: list[dict[str, Any]]) -> None:
        tables: dict[str, dict[tuple[int, int], np.ndarray]] = defaultdict(dict)
        self.errors = {line["name"]: line["error"] for line in lines if "error" in line}
        self.seconds: dict[str, float] = {}
        for line in lines:
            if "error" not in line and line["name"] not in self.errors:
                tables[line["name"]][line["fold"], line["seed"]] = np.array(line["values"], dtype=np.float64)
        # Folds and seeds that every system has, unless the seed does not matter to it.
        self.folds = sorted(set.intersection(*({fold for fold, _ in table} for table in tables.values())))
        by_name = {line["name"]: Job(*(line[name] for name in Job.__dataclass_fields__)) for line in lines}
        shared = [seed for seed in range(99) if all(self._has(seed, by_name[n], t) for n, t in tables.items())]
        self.n_seeds = len(shared)
        values, self.deviations = {}, {}
        for name, table in tables.items():
            seeds = [seed for seed in shared if (self.folds[0], seed) in table]
            runs = np.array([np.concatenate([table[fold, seed] for fold in self.folds]) for seed in seeds])
            values[name] = runs.mean(axis=0)
            means = np.nanmean(runs, axis=1)
            self.deviations[name] = float(means.std(ddof=1)) if len(means) > 1 else 0.0
        for name in values:
            self.seconds[name] = float(np.median([line["seconds"] for line in lines if line["name"] == name]))
        self.means = {name: float(np.nanmean(value)) for name, value in values.items()}
        self.best = max(self.means, key=self.means.__getitem__)
        self.n_lists = int(np.sum(~np.isnan(values[self.best])))
        others = [name for name in values if name != self.best]
        differences = [values[self.best] - values[name] for name in others]
        p_values = holm([randomization_test(d[~np.isnan(d)]) for d in differences])
        self.p_values = dict(zip(others, map(float, p_values), strict=True))

    def _has(self, seed: int, job: Job, table: dict[tuple[int, int], np.ndarray]) -> bool:
        repeats = replace(job, seed=seed).is_repetition and (self.folds[0], 0) in table
        return repeats or all((fold, seed) in table for fold in self.folds)

    def gap(self, name: str) -> float:
        """How much an objective is below the best."""
        return self.means[self.best] - self.means[name]

    def is_below(self, name: str) -> bool:
        """Whether it is below the best beyond chance."""
        return self.p_values.get(name, 1.0) < LEVEL

    def cell(self, name: str) -> str:
        if name not in self.means:
            return "–"
        mean = f"{self.means[name]:.4f}"[1:]
        deviation = f"{self.deviations[name]:.4f}"[1:]
        spread = f" ±{deviation}" if deviation != ".0000" else ""
        if name == self.best:
            return f"**{mean}**{spread}"
        return f"{mean}{spread} ({_format_p(self.p_values[name])})"


def _format_p(p: float) -> str:
    return "<.001" if p < 0.001 else "1" if p > 0.995 else f"{p:.3f}"[1:] if p < 0.01 else f"{p:.2f}"[1:]


Columns = dict[tuple[str, str], Column]
"""By set and kind of model."""


def page(options: argparse.Namespace) -> str:
    lines = list(records(options.out))
    columns = _columns(lines, KINDS)
    names = [objective.name for objective in OBJECTIVES]
    gaps = {name: _mean_gap(name, columns.values()) for name in names}
    heading = ["objective", *(f"{_short(name)} {kind}" for name, kind in columns), "mean gap", "seconds of a fit"]
    rows = [
        [f"`{name}`", *(column.cell(name) for column in columns.values()), _gap(gaps[name]), _times(name, columns)]
        for name in sorted(names, key=gaps.__getitem__)
    ]
    return PAGE.format(
        answer=_answer(columns),
        columns=_describe(columns),
        table=_table(heading, rows),
        families=_families(columns),
        recipes=_recipes(_columns(lines, ["recipes"])),
        slow=_failures(columns),
    )


def _columns(lines: list[dict[str, Any]], kinds: Iterable[str]) -> Columns:
    columns = {}
    for name in FOLDS:
        for kind in kinds:
            table = [line for line in lines if line["set"] == name and line["kind"] == kind]
            if any("values" in line for line in table):
                columns[name, kind] = Column(table)
    return columns


def _mean_gap(name: str, columns: Iterable[Column]) -> float:
    """The mean over the columns that it is in."""
    gaps = [column.gap(name) for column in columns if name in column.means]
    return float(np.mean(gaps)) if gaps else math.inf


def _answer(columns: Columns) -> str:
    """What to take, in sentences that follow from the table."""
    everywhere = set.intersection(*(set(column.means) for column in columns.values()))
    safe = _never_below(columns.values())
    least = min(
        sum(not column.is_below(n) for n in column.p_values) / len(column.p_values) for column in columns.values()
    )
    parts = [
        f"The {len(columns)} columns of the table below have {len({column.best for column in columns.values()})} "
        f"different best objectives; in each at least {least:.0%} of the others are within chance of the best. "
        f"{len(safe)} of the {len(everywhere)} that were run in all columns are so in every one."
    ]
    if safe:
        cost = {name: sum(column.seconds[name] for column in columns.values()) for name in safe[:10]}
        parts[0] = f"**Start with `{safe[0]}`.** {parts[0]} Of these it has the smallest mean gap to the best: " + (
            f"{_gap(_mean_gap(safe[0], columns.values()))} in NDCG@10. Next come {_names(safe[1:6])}. The quickest of "
            f"the first ten is `{min(cost, key=cost.__getitem__)}`."
        )
    for kind in dict.fromkeys(kind for _, kind in columns):
        parts.append(_answer_for(kind, {place[0]: column for place, column in columns.items() if place[1] == kind}))
    deviations = [d for column in columns.values() for d in column.deviations.values() if d]
    if deviations and len(safe) > 5:
        difference = _mean_gap(safe[5], columns.values()) - _mean_gap(safe[0], columns.values())
        word = "less" if difference < np.median(deviations) else "more"
        parts.append(
            f"The mean gaps of the first six differ by {_gap(difference)}, {word} than the median deviation between "
            f"seeds ({_gap(float(np.median(deviations)))}). They were ordered on these test lists: compare two or "
            "three of them on your own validation lists."
        )
    below = {n: sum(c.is_below(n) for c in columns.values()) for c in columns.values() for n in c.means}
    poor = sorted((n for n, count in below.items() if 2 * count >= len(columns)), key=lambda n: (-below[n], n))
    if poor:
        parts.append(
            f"Beyond chance below the best in at least half of the columns: {_names(poor)}. Default parameters and "
            "small budgets may do them injustice."
        )
    unstable = sorted({n for column in columns.values() for n, d in column.deviations.items() if d > UNSTABLE})
    if unstable:
        parts.append(f"The deviation between seeds is above {_gap(UNSTABLE)} in some column for {_names(unstable)}.")
    return "\n".join(f"- {part}" for part in parts)


def _never_below(columns: Iterable[Column]) -> list[str]:
    """Objectives that are in all columns and within chance of the best in each; the smallest mean gap first."""
    columns = list(columns)
    shared = set.intersection(*(set(column.means) for column in columns))
    safe = [name for name in shared if not any(column.is_below(name) for column in columns)]
    return sorted(safe, key=lambda name: (_mean_gap(name, columns), name))


def _answer_for(kind: str, by_set: dict[str, Column]) -> str:
    bests = [f"`{column.best}` on {_short(name)}" for name, column in by_set.items()]
    within = [f"{_count_within(column)} on {_short(name)}" for name, column in by_set.items()]
    first = _never_below(by_set.values())[:3]
    gaps = ", ".join(f"`{name}` ({_gap(_mean_gap(name, by_set.values()))})" for name in first)
    words = (f"the best {' and '.join(bests)}", f"within chance of it {' and '.join(within)}")
    return f"**{KIND_TITLES[kind]}**: {'; '.join(words)}. Smallest mean gaps over both sets: {gaps}."


def _count_within(column: Column) -> str:
    return f"{sum(not column.is_below(name) for name in column.p_values)} of {len(column.p_values)} others"


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _short(name: str) -> str:
    return name.split("_")[0]


def _gap(value: float) -> str:
    return f"{value:.4f}".removeprefix("0")


def _times(name: str, columns: Columns) -> str:
    """Median seconds of a fit over both sets, by kind of model."""
    by_kind: dict[str, list[float]] = {}
    for (_, kind), column in columns.items():
        by_kind.setdefault(kind, []).extend([column.seconds[name]] if name in column.seconds else [])
    return " / ".join(f"{np.mean(seconds):.1f}" if seconds else "–" for seconds in by_kind.values())


def _table(heading: list[str], rows: list[list[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _describe(columns: Columns) -> str:
    heading = ["set", "model", "folds", "training lists", "test lists that count", "seeds"]
    heading += ["best", "within chance of it", "median deviation of seeds", "median seconds of a fit"]
    rows = []
    for (name, kind), column in columns.items():
        spread = [d for d in column.deviations.values() if d]
        row = [name, kind, ", ".join(str(fold + 1) for fold in column.folds), str(LISTS.get(name, ("all",))[0])]
        row += [str(column.n_lists), str(column.n_seeds), f"`{column.best}` {_gap(column.means[column.best])}"]
        row += [_count_within(column).removesuffix(" others")]
        row += [_gap(float(np.median(spread))) if spread else "–", f"{np.median(list(column.seconds.values())):.1f}"]
        rows.append(row)
    return _table(heading, rows)


FAMILIES = {
    "softmax": "cross entropy of softmax scores",
    "urank": "unique ratings",
    "listmle": "Plackett-Luce likelihood and policy gradient",
    "pairwise": "pairs, all alike",
    "lambdarank": "pairs weighted by a metric",
    "approx": "smooth ranks",
    "relaxed": "relaxed sorting",
    "sampled": "rankings by noisy scores",
    "conditional": "conditional models",
    "svmmap": "structured hinge",
    "boltzrank": "sampled rankings",
    "pointwise": "single documents against a scale",
}
"""By the module of the objective."""


def _families(columns: Columns) -> str:
    kinds = list(dict.fromkeys(kind for _, kind in columns))
    rows = []
    for module, title in FAMILIES.items():
        names = [o.name for o in OBJECTIVES if o.__module__.split(".")[2] == module]
        by_kind = {kind: [c for place, c in columns.items() if place[1] == kind] for kind in kinds}
        gaps = {kind: {n: _mean_gap(n, found) for n in names} for kind, found in by_kind.items()}
        rows.append([title, _names(names), *(f"{_gap(float(np.median([*g.values()])))}" for g in gaps.values())])
    rows.sort(key=lambda row: float(np.mean([float(cell) for cell in row[2:]])))
    return _table(["family", "objectives", *kinds], rows)


def _recipes(columns: Columns) -> str:
    if not columns:
        return "None has been run yet."
    heading = ["recipe", *(f"{_short(name)} (seeds: {column.n_seeds})" for (name, _), column in columns.items())]
    rows = [
        [f"`{name}`", *(column.cell(name) for column in columns.values()), _times(name, columns)]
        for name in sorted(RECIPES, key=lambda name: _mean_gap(name, columns.values()))
    ]
    return _table([*heading, "seconds of a fit"], rows)


def _failures(columns: Columns) -> str:
    parts = [
        f"- `{name}` in {kind} on {data}: {error}"
        for (data, kind), column in columns.items()
        for name, error in sorted(column.errors.items())
    ]
    return "\n".join(parts) or "None."


PAGE = """# Which loss should I use?

{answer}

These sentences are derived from the table below. They hold for two small sets (MQ2007_partial is MQ2007 with 15 % of
the documents missing), default parameters of the objectives and small budgets. Which recipe to take, with tuned
settings and stochastic scores, is on [another page](../choose.md). Made by

```
python benchmarks/losses.py run DATA --out losses.jsonl
python benchmarks/losses.py page DATA --out losses.jsonl --page docs/results/losses.md
```

## NDCG@10 on the test lists

Means over lists and seeds ± the deviation between seeds; where there is none, nothing is random. The best of each
column is bold; in brackets the p-value of each other objective against it: two-sided randomization test over paired
lists, seeds averaged, corrected by Holm's method for the number of objectives in the column. The best is picked
on the same lists, so p-values are a little too small. *Mean gap*: how much an objective is below the best, mean over
the columns that it is in; rows are sorted by it. The last column has processor seconds on one thread in linear models,
trees and nets, mean over the two sets of the median fit. A dash: given up (below), or not run.

{table}

## By family

The median over the objectives of a family of their mean gap to the best.

{families}

## How it was measured

{columns}

Every fit is stopped, or its penalty chosen, by NDCG@10 on the validation part of its fold; the test part is scored
once. All objectives have the same small budget: linear models with five penalties from 10^-6 to 100, trees of 15 leaves
(at most 300, rate 0.1), nets with layers of 64 and 32 units (at most 60 epochs). With tuned settings the order of near
equals will change.

## Models with a loss of their own

RankBoost, AdaRank and coordinate ascent as their recipes are; the nets that see the whole list with at most 20 epochs.
Cells as above, with p-values against the best of this table.

{recipes}

## Given up

{slow}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["run", "page"])
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS, "recipes"], default=[*KINDS, "recipes"])
    parser.add_argument("--names", nargs="+", default=[], help="only these objectives or recipes")
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    if options.command == "run":
        run(options)
    else:
        text = page(options)
        print(text) if options.page is None else options.page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
