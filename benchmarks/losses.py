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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import plackett as pk
from plackett.data.folds import Fold
from plackett.experiments.significance import holm, randomisation_test
from plackett.models.ranker import Ranker
from plackett.objectives import OBJECTIVES

FOLDS = {"MQ2007_partial": 1, "OHSUMED": 5}
"""Number of folds of each set."""
LISTS = {"MQ2007_partial": (300, 150)}
"""Training and validation lists that are taken; of other sets, all."""
METRIC = "ndcg@10"
LIMIT, RECIPE_LIMIT = 12, 60
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


def jobs(seeds: int, kinds: list[str]) -> Iterator[Job]:
    """Every fit, in rounds of one fit of each system, so that an early stop leaves whole rounds."""
    places = [(name, fold, seed) for seed in range(seeds) for name, folds in FOLDS.items() for fold in range(folds)]
    systems = [(kind, objective.name) for kind in KINDS if kind in kinds for objective in OBJECTIVES]
    recipes = [("recipes", name) for name in RECIPES if "recipes" in kinds]
    for some in (systems, recipes):
        for place in places:
            yield from (Job(*place, *system) for system in some)


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
    for job in jobs(options.seeds, options.kinds):
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


System = tuple[str, str]
"""Kind and name."""


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
        p_values = holm([randomisation_test(d[~np.isnan(d)]) for d in differences])
        self.p_values = dict(zip(others, map(float, p_values), strict=True))

    def _has(self, seed: int, job: Job, table: dict[tuple[int, int], np.ndarray]) -> bool:
        repeats = replace(job, seed=seed).is_repetition and (self.folds[0], 0) in table
        return repeats or all((fold, seed) in table for fold in self.folds)

    def cell(self, name: str) -> str:
        if name not in self.means:
            return "–"
        mean = f"{self.means[name]:.4f}"
        return f"**{mean}**" if name == self.best else f"{mean} ({_format_p(self.p_values[name])})"


def _format_p(p: float) -> str:
    return "<.001" if p < 0.001 else "1" if p > 0.995 else f"{p:.3f}"[1:] if p < 0.01 else f"{p:.2f}"[1:]


def page(options: argparse.Namespace) -> str:
    lines = list(records(options.out))
    tables = {
        (name, kind): [line for line in lines if line["set"] == name and line["kind"] == kind]
        for name in FOLDS
        for kind in KINDS
    }
    columns = {place: Column(table) for place, table in tables.items() if any("values" in line for line in table)}
    names = [objective.name for objective in OBJECTIVES]
    places = {name: _mean_place(name, columns) for name in names}
    heading = ["objective", *(f"{name.split('_')[0]} {kind}" for name, kind in columns), "mean place"]
    rows = [
        [f"`{name}`", *(column.cell(name) for column in columns.values()), f"{places[name]:.1f}"]
        for name in sorted(names, key=places.__getitem__)
    ]
    return PAGE.format(
        heading="| " + " | ".join(heading) + " |\n|" + "---|" * len(heading),
        rows="\n".join("| " + " | ".join(row) + " |" for row in rows),
        protocol=_describe(columns),
        winners=_winners(columns),
        recipes=_recipes(lines),
        slow=_failures(columns),
    )


def _mean_place(name: str, columns: dict[tuple[str, str], Column]) -> float:
    """The mean place of an objective over the columns that it is in."""
    places = [
        1 + sum(mean > column.means[name] for mean in column.means.values())
        for column in columns.values()
        if name in column.means
    ]
    return float(np.mean(places)) if places else math.inf


def _describe(columns: dict[tuple[str, str], Column]) -> str:
    rows = ["| set | model | folds | training lists | test lists that count | seeds |", "|---|---|---|---|---|---|"]
    for (name, kind), column in columns.items():
        folds = ", ".join(str(fold + 1) for fold in column.folds)
        cells = [name, kind, folds, str(LISTS.get(name, ("all",))[0]), str(column.n_lists), str(column.n_seeds)]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _winners(columns: dict[tuple[str, str], Column]) -> str:
    rows = ["| set | model | best | NDCG@10 | sd of seeds | p < .05 | median seconds of a fit, all objectives |"]
    rows.append("|---|---|---|---|---|---|---|")
    for (name, kind), column in columns.items():
        worse = sum(p < 0.05 for p in column.p_values.values())
        cells = [name, kind, f"`{column.best}`", f"{column.means[column.best]:.4f}"]
        deviation = f"{np.median(list(column.deviations.values())):.4f}" if column.n_seeds > 1 else "–"
        cells += [deviation, f"{worse} of {len(column.p_values)}"]
        rows.append("| " + " | ".join([*cells, f"{np.median(list(column.seconds.values())):.1f}"]) + " |")
    return "\n".join(rows)


def _recipes(lines: list[dict[str, Any]]) -> str:
    rows = [
        "| set | folds | seeds | " + " | ".join(f"`{name}`" for name in RECIPES) + " |",
        "|---|---|---|" + "---|" * len(RECIPES),
    ]
    for name in FOLDS:
        table = [line for line in lines if line["set"] == name and line["kind"] == "recipes"]
        if any("values" in line for line in table):
            column = Column(table)
            folds = ", ".join(str(fold + 1) for fold in column.folds)
            cells = [name, folds, str(column.n_seeds), *(column.cell(recipe) for recipe in RECIPES)]
            rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) if len(rows) > 2 else "None has been run yet."


def _failures(columns: dict[tuple[str, str], Column]) -> str:
    parts = [
        f"- `{name}` in {kind} on {data}: {error}"
        for (data, kind), column in columns.items()
        for name, error in sorted(column.errors.items())
    ]
    return "\n".join(parts) or "None."


PAGE = """# Which loss should I use?

Every objective in every kind of model on two real sets. Made by

```
python benchmarks/losses.py run DATA --out losses.jsonl
python benchmarks/losses.py page DATA --out losses.jsonl --page docs/results/losses.md
```

## Findings

Read from the table below; they hold for two small sets (MQ2007_partial is MQ2007 with 15 % of the documents missing),
small budgets and the few seeds that have been run.

- There is no best loss. In every column most objectives are within chance of the best one, and the best one changes
  with the set and the kind of model. Start with one that is never beyond chance below the best in any column:
  `umart`, which has the highest mean place, `calibrated-softmax`, `rankboost`, `lambdarank`, `ranknet`, `ranksvm`,
  `listnet`, `xendcg` and others.
- Trees gain from smooth forms of the metric: `neuralndcg`, `stochasticrank`, `approxmap` and `fastsoftrank` are at the
  top there and in the middle elsewhere. `pirank` and `softsort` fail in trees, which start where all scores are equal
  and these have a kink; under `Stochastic` they learn.
- `calibrated-softmax` costs nothing against `listnet` here, and its scores have a scale.
- Losses of single documents (`squared`, `logistic`, `ordinal`) are as good as others in linear models on OHSUMED, whose
  lists are alike, and below the best on MQ2007.
- Losses over sampled rankings (`*-map`, `*-ndcg` of the conditional models, `boltzrank`) are below closed forms over
  pairs (`*-auc`, `mle`) with these budgets; `mdprank` is last in nearly every column.
- Nets that see the whole list (`dlcm`, `setrank`, `dasalc`): `dlcm` has the highest value on OHSUMED of all, with one
  seed, and is beyond chance above `dasalc` only; on MQ2007 none of them is above RankBoost.

## How it was measured

{protocol}

Seeds are averaged per list; a linear model whose objective draws nothing is the same for every seed. Every fit is
stopped, or its penalty chosen, by NDCG@10 on the validation part of its fold; the test part is scored once. All
objectives have their default parameters and the same small budget: linear models with five penalties from 10^-6 to
100, trees of 15 leaves (at most 300, rate 0.1), nets with layers of 64 and 32 units (at most 60 epochs). With tuned
settings the order of near equals will change.

{winners}

## NDCG@10 on the test lists

The best of each column is bold; in brackets the p-value of each other objective against it: two-sided randomisation
test over paired lists, corrected by Holm's method for the number of objectives in the column. The best is picked on
the same lists, so p-values are a little too small. The rows are sorted by the mean place over the columns; a dash
means that the objective was given up (below) or has not been run there.

{heading}
{rows}

## Models with a loss of their own

NDCG@10 on the test lists of the folds that have been run, with p-values against the best of the row as above.
RankBoost, AdaRank and coordinate ascent as their recipes are; the nets that see the whole list with at most 20 epochs.

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
