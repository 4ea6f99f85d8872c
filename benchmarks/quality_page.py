"""The page about how well tree recipes rank, made of the runs that ``quality.py`` kept."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import plackett as pk
from plackett.data.dataset import Dataset
from plackett.experiments.significance import Comparison, compare_paired
from plackett.models.crossfit import pooled_deviation

METRICS = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10")
MAIN = "e-lambdaloss-mart"
PEERS = ("LightGBM lambdarank", "LightGBM rank_xendcg", "XGBoost rank:ndcg", "CatBoost YetiRank")
FEW = (5, 10, 20, 50, 100)

Values = dict[str, NDArray[np.float64]]
"""Metric to the values of all test lists of all folds."""
Runs = dict[tuple[str, int], dict[int, dict[str, Any]]]
"""System and seed to fold to its record."""


def page(records: list[dict[str, Any]], choice: list[dict[str, Any]], data: Path) -> str:
    """The whole page in Markdown."""
    parts = [HEAD, FINDINGS, *_choice(choice, data)]
    for name in dict.fromkeys(record["set"] for record in records):
        tests = [fold.test for fold in pk.read_folds(data / name)]
        runs: Runs = defaultdict(dict)
        for record in records:
            if record["set"] == name:
                runs[record["system"], record["seed"]][record["fold"]] = record
        whole = {key: folds for key, folds in runs.items() if len(folds) == len(tests)}
        parts.append(_of_set(name, whole, tests))
    return "\n\n".join(parts) + "\n"


def _choice(records: list[dict[str, Any]], data: Path) -> list[str]:
    """The recipes compared without any test list."""
    if not records:
        return []
    sets = list(dict.fromkeys(record["set"] for record in records))
    judged = {name: [fold.validation for fold in pk.read_folds(data / name)] for name in sets}
    table: dict[str, list[float]] = {}
    for system in dict.fromkeys(record["system"] for record in records):
        table[system] = []
        for name in sets:
            kept = [r for r in records if r["set"] == name and r["system"] == system]
            values = [pk.per_list(r["scores"], judged[name][r["fold"]], ["ndcg@5"])["ndcg@5"] for r in kept]
            table[system].append(float(np.nanmean(np.concatenate(values))))
    rows = [f"| recipe | {' | '.join(sets)} | mean |", "|---" * (len(sets) + 2) + "|"]
    for system, found in sorted(table.items(), key=lambda item: -np.mean(item[1])):
        cells = [f"{value:.4f}" for value in (*found, np.mean(found))]
        rows.append(f"| {' | '.join([system, *cells])} |")
    seeds = len({record["seed"] for record in records})
    return ["## The choice", CHOICE.format(seeds=seeds), "\n".join(rows)]


def _of_set(name: str, runs: Runs, tests: list[Dataset]) -> str:
    seeds: dict[str, list[Values]] = defaultdict(list)
    for (system, _), folds in sorted(runs.items()):
        seeds[system].append(_values([folds[i]["scores"] for i in range(len(tests))], tests))
    means = {s: {m: np.mean([v[m] for v in each], axis=0) for m in METRICS} for s, each in seeds.items()}
    merged = {s: _merged(s, runs, tests) for s in seeds if len(seeds[s]) > 1}
    counted = int(np.isfinite(next(iter(means.values()))["ndcg@5"]).sum())
    return "\n\n".join(
        [
            f"## {name}: {counted:,} test lists that count",
            "Single models",
            _singles(seeds, means, runs),
            "Scores averaged over the seeds, each divided by its spread within lists",
            _averages(merged, seeds),
            "The papers' claims, on values averaged over seeds",
            _claims(means),
            "NDCG@5 on the validation lists by number of trees, mean over folds and seeds",
            _by_trees(runs),
        ]
    )


def _values(scores: list[Any], tests: list[Dataset]) -> Values:
    return {
        m: np.concatenate([pk.per_list(s, test, [m])[m] for s, test in zip(scores, tests, strict=True)])
        for m in METRICS
    }


def _merged(system: str, runs: Runs, tests: list[Dataset]) -> Values:
    """Values of the mean of the scores of all seeds."""
    seeds = [folds for (name, _), folds in sorted(runs.items()) if name == system]
    scores = [
        np.mean([f[i]["scores"] / pooled_deviation(f[i]["scores"], test.offsets) for f in seeds], axis=0)
        for i, test in enumerate(tests)
    ]
    return _values(scores, tests)


def _singles(seeds: dict[str, list[Values]], means: dict[str, Values], runs: Runs) -> str:
    rows = ["| system | seeds | NDCG@1 | @3 | @5 | @10 | p of @5 | p of @10 | validation @5 | trees |"]
    rows.append("|---" * 10 + "|")
    for system, each in seeds.items():
        cells = [_spread([np.nanmean(v[m]) for v in each]) for m in METRICS]
        ps = [_p(means, MAIN, system, m) for m in ("ndcg@5", "ndcg@10")]
        kept = [r for (name, _), folds in runs.items() if name == system for r in folds.values()]
        # Members of a cross-fit have learnt from the validation lists.
        fair = "cross-fitted" not in system
        validation = f"{np.mean([r['validation'] for r in kept]):.4f}" if fair else ""
        trees = [r["trees"] for r in kept if "trees" in r]
        count = f"{np.median(trees):.0f}" if trees else ""
        rows.append(f"| {' | '.join([system, str(len(each)), *cells, *ps, validation, count])} |")
    return "\n".join(rows)


def _averages(merged: dict[str, Values], seeds: dict[str, list[Values]]) -> str:
    rows = ["| system | seeds | NDCG@1 | @3 | @5 | @10 | p of @5 | p of @10 |"]
    rows.append("|---" * 8 + "|")
    for system, values in merged.items():
        cells = [f"{np.nanmean(values[m]):.4f}" for m in METRICS]
        ps = [_p(merged, MAIN, system, m) for m in ("ndcg@5", "ndcg@10")]
        rows.append(f"| {' | '.join([system, str(len(seeds[system])), *cells, *ps])} |")
    return "\n".join(rows)


CLAIMS = (
    ("Bruch (2021): xendcg-mart over lambdamart", "xendcg-mart", "lambdamart"),
    ("Bruch (2021): lambdamart over listnet-mart", "lambdamart", "listnet-mart"),
    ("Bruch et al. (2020): e-lambdamart over lambdamart", "e-lambdamart", "lambdamart"),
    ("Zhu & Klabjan (2020): umart (window 2) over lambdamart", "umart", "lambdamart"),
    ("Zhu & Klabjan (2020): window 2 over window 1", "umart", "umart, window 1"),
    ("Zhu & Klabjan (2020): window 2 over 5", "umart", "umart, window 5"),
    ("Zhu & Klabjan (2020): window 2 over 10", "umart", "umart, window 10"),
    ("Zhu & Klabjan (2020): window 2 over all", "umart", "umart, window all"),
    ("Zhu & Klabjan (2020): umart over RankLib's LambdaMART", "umart", "lambdamart-ranklib"),
    (
        "Zhu & Klabjan (2020), Table 6: umart over lambdamart, both chosen on test",
        "umart, on test",
        "lambdamart, on test",
    ),
)


def _claims(means: dict[str, Values]) -> str:
    rows = ["| claim | difference @5 | p | difference @10 | p |", "|---|---|---|---|---|"]
    for claim, better, worse in CLAIMS:
        if better not in means or worse not in means:
            continue
        cells = []
        for m in ("ndcg@5", "ndcg@10"):
            found = _compare(means, better, worse, m)
            cells += [f"{found.difference:+.4f}", f"{found.randomization:.3f}"]
        rows.append(f"| {' | '.join([claim, *cells])} |")
    return "\n".join(rows)


def _by_trees(runs: Runs) -> str:
    systems = ("lambdamart", "e-lambdamart", "xendcg-mart", "e-xendcg-mart", "listnet-mart", MAIN)
    rows = ["| system | " + " | ".join(f"{n} trees" for n in FEW) + " |", "|---" * 6 + "|"]
    for system in systems:
        curves = [r["curve"] for (name, _), folds in runs.items() if name == system for r in folds.values()]
        if curves:
            # A fit that stopped earlier keeps its last value.
            cells = [f"{np.mean([c[min(n, len(c)) - 1] for c in curves]):.4f}" for n in FEW]
            rows.append(f"| {' | '.join([system, *cells])} |")
    return "\n".join(rows)


def _compare(values: dict[str, Values], one: str, other: str, metric: str) -> Comparison:
    return compare_paired(values[one][metric], values[other][metric])


def _p(values: dict[str, Values], one: str, other: str, metric: str) -> str:
    if one == other or one not in values or other not in values:
        return ""
    return f"{_compare(values, one, other, metric).randomization:.3f}"


def _spread(means: list[Any]) -> str:
    if len(means) == 1:
        return f"{means[0]:.4f}"
    return f"{np.mean(means):.4f} ± {np.std(means, ddof=1):.4f}"


FINDINGS = """## Findings

- The recipe chosen without any test list, `e-lambdaloss-mart`, is above LightGBM and XGBoost at
  NDCG@5 and @10 on both sets as a single model: beyond chance on MQ2007, and on OHSUMED at @10
  against LightGBM. It is level with CatBoost: above it at @5 and @10 on OHSUMED and at @10 on
  MQ2007, .0001 below at @5 there; no difference is beyond chance. Averaged over seeds it is above
  CatBoost averaged the same way at @5 and @10 on both sets, again not beyond chance.
  Cross-fitting adds .02 and .01 on OHSUMED and .004 and .003 on MQ2007.
- Bruch (2021): XE-NDCG above LambdaMART on MQ2007 (p .06 and .07) and below it on OHSUMED, neither
  beyond chance; LambdaMART above ListNet on OHSUMED only. XE-NDCG leads LambdaMART most with few
  trees on MQ2007, as in the paper's Figure 1; on OHSUMED it never leads.
- Bruch et al. (2020): E[LambdaMART] and LambdaMART end level. With 5 and 10 trees the stochastic
  form is ahead on both sets: the faster convergence of the paper's Figure 3c is there.
- Zhu & Klabjan (2020): uMart is not above LambdaMART under the same settings, nor under the
  protocol of Table 6; small windows are better than large ones, and window 1, which is LambdaMART
  with normalised scores, is as good as 2. It is above RankLib's LambdaMART, not beyond chance."""

CHOICE = """NDCG@5 on the validation lists of recipes that stopped on a quarter of the training
lists and learnt from the rest, {seeds} seeds; no test list takes part. The recipe with the highest
mean over both sets is the one that the tables below compare with peers."""

HEAD = f"""# Trees

How well the tree recipes rank, compared with the rankers of LightGBM, XGBoost and CatBoost. Made by

```
python benchmarks/quality.py choose DATA --out choice.jsonl
python benchmarks/quality.py run DATA --out runs.jsonl
python benchmarks/quality.py page DATA --out runs.jsonl --choice choice.jsonl --page PAGE.md
```

Five folds with the parts as they come; everything is chosen on the validation part by NDCG@5; the
test lists of all folds are pooled. NDCG with gain 2^label - 1 and discount 1/log2(1 + rank); lists
without a relevant document are left out. Our recipes have their default settings, the same
for all of them but the objective (`lambdamart-ranklib` has those of RankLib); the peers have their
own defaults, at most 1,000 trees, and stop by the same metric after 50 trees without progress.
Figures are means over seeds ± their standard deviation. p: two-sided randomization test over
paired lists against `{MAIN}`, on values averaged over seeds, not corrected for the number of
comparisons. *Cross-fitted* members rotate over
training and validation lists together; no test list takes part. *On test* is the protocol of
Zhu & Klabjan's Table 6, whose number of trees is chosen on the test lists: not a fair estimate."""
