"""The page docs/results/auto.md from the outcomes of auto_results.py and auto_trials.py."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from auto_trials import TRIALS
from plackett.experiments.significance import compare_paired, holm

METRICS = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10")
PAGE = Path(__file__).parents[1] / "docs" / "results" / "auto.md"
PEERS = ("LightGBM", "XGBoost", "CatBoost")
AUTO = "AutoRanker"
SETS = {"OHSUMED": 5, "MQ2007_partial": 5, "synthetic letor": 2, "synthetic web": 2}
MINUTES = (1.0, 5.0, 20.0)

_INTRODUCTION = """\
# The best ranking for a budget: results

Made by `benchmarks/auto_results.py` and `benchmarks/auto_trials.py`; the page is written by
`python benchmarks/auto_results.py --page`. Every system learns from the training and validation lists of a fold and
is measured on its test lists, pooled over folds; lists without relevant documents are dropped. Nothing is chosen on
test lists.

Each fit runs on **one core**, and budgets are **processor time**, so that other work on the machine changes nothing.
*Tuned*: the library's defaults, then Optuna (TPE) on the validation lists until the budget is used up; a trial that
has begun is finished. *Cross-fitted*: five members that rotate over training and validation lists. *Ours* is
`e-lambdaloss-mart`; *with list-context*: its trees also get features of the whole list. *p*: paired randomization test
against the best peer (the highest NDCG@10 of the systems that are not ours), corrected by Holm's method over the
systems of a table. *ms*: processor time of one call of `predict` with 100 documents. *s*: processor time of training
(*distilled*: without the search). *MB*: the saved model. These three are means over folds.
"""

_FINDINGS = """\
## Findings

- AutoRanker with 5 minutes of one core is above every peer of these tables at NDCG@5 and @10 on every set, peers tuned
  for the same minutes included. Over all sets together the difference is beyond chance at both, as it is on the
  synthetic letor set, and at NDCG@10 on the synthetic web set; on MQ2007 and OHSUMED alone it is not (see p).
  Mind that its portfolio was made from data of the same kinds.
- One kind of cross-fitted trees with features of the whole list (*ours, cross-fitted with list-context*) is as good on
  MQ2007 and on the synthetic letor set, in an eighth of the time or less, but below on OHSUMED and on the synthetic web
  set. AutoRanker finds out which kind a data set needs: it is the only system here that is above all peers everywhere.
- Its price is the time of a request: on small sets nets and linear models are cross-fitted three times, and 100
  documents take 20 ms on OHSUMED, 2 to 6 ms on the other sets. `presets="good"` or `distill="trees"` gives trees.
- Tuning on the validation lists of a fold gains little here. CatBoost tuned for 5 minutes is above its defaults at
  NDCG@10 on MQ2007 and OHSUMED, and below them on the synthetic sets, which have few validation lists. Over all sets,
  cross-fitting the defaults gains more.
- Our cross-fitted trees, without list features, are level with cross-fitted CatBoost, in a fourth of its time or less.
- Distilled into trees that see one document at a time, AutoRanker is on test lists within .003 of NDCG@10 of the
  ensemble on three sets, and .010 below it on the synthetic letor set, where features of the whole list, which such
  trees do not have, carry the ensemble. At NDCG@5 it is also .009 below on OHSUMED. On out-of-fold lists it loses up to
  .017 (table below).
- Where 20 minutes have been run, they bring at most .003 more than 5: small sets have no candidates left before the
  time is up.
- No setting of cross-fitted trees is better than the recipe as it is on all sets beyond chance: see the trials. Larger
  trees with smoothed leaves (32 leaves, path_smooth 100) come nearest: +.0010 on short lists, -.0004 on OHSUMED, +.0012
  on MQ2007, each with a standard error as large.
"""


def write_page(outcomes: list[dict[str, Any]], trials: list[dict[str, Any]]) -> None:
    """Write the page from what has been run."""
    lines = [_INTRODUCTION]
    missing = _not_run(outcomes, trials)
    if missing:
        lines += [
            "Not everything has been run: the end of the page says what is missing. Mind the numbers of lists.",
            "",
        ]
    lines.append(_FINDINGS)
    budgets = [minutes for minutes in (0.0, *MINUTES) if any(o["minutes"] == minutes for o in outcomes)]
    for minutes in budgets:
        lines += _budget(outcomes, minutes)
    lines += _distillation(outcomes)
    lines += _trials(trials)
    lines += missing
    PAGE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    print(f"{PAGE} written")


def _budget(outcomes: list[dict[str, Any]], minutes: float) -> list[str]:
    """The tables of one budget, with the systems that have none beside them."""
    title = f"## {minutes:g} minute{'s' if minutes > 1 else ''} on one core" if minutes else "## Without a budget"
    lines = [title, ""]
    pooled: list[dict[str, dict[str, Any]]] = []
    for data in SETS:
        table, folds = _rows([o for o in outcomes if o["data"] == data and o["minutes"] in (0.0, minutes)], minutes)
        if not table or (minutes and not any(name.startswith(AUTO) for name in table)):
            continue
        numbers = ", ".join(str(fold + 1) for fold in folds)
        n_lists = np.sum(~np.isnan(next(iter(table.values()))["values"]["ndcg@10"]))
        measured = f"Fold{'s' if len(folds) > 1 else ''} {numbers} of {SETS[data]}: {n_lists} lists."
        lines += [f"### {data}", "", measured, "", *_format(table), ""]
        pooled.append(table)
    if minutes and len(pooled) > 1:
        names = [name for name in pooled[0] if all(name in table for table in pooled)]
        together = {
            name: {"values": {m: np.concatenate([t[name]["values"][m] for t in pooled]) for m in METRICS}}
            for name in names
        }
        lines += ["### All sets together", "", *_format(together), ""]
    return lines


def _rows(outcomes: list[dict[str, Any]], minutes: float) -> tuple[dict[str, dict[str, Any]], list[int]]:
    """Systems with their values over the folds of AutoRanker, or, without a budget, of most systems."""
    by_system: dict[str, dict[int, dict[str, Any]]] = {}
    for outcome in outcomes:
        by_system.setdefault(outcome["system"], {})[outcome["fold"]] = outcome
    budgeted = [set(folds) for folds in by_system.values() if next(iter(folds.values()))["minutes"] == minutes]
    if not budgeted:
        return {}, []
    # A system that has not run on all of these folds is left out.
    most = max(budgeted, key=lambda f: (sum(f <= other for other in budgeted), len(f)))
    folds = sorted(by_system.get(AUTO, most))
    table = {}
    for name, by_fold in by_system.items():
        if not set(folds) <= set(by_fold):
            continue
        parts = [by_fold[fold] for fold in folds]
        table[name] = {
            "values": {m: np.concatenate([np.array(p["values"][m], float) for p in parts]) for m in METRICS},
            **{key: float(np.mean([p[key] for p in parts])) for key in ("seconds", "milliseconds", "megabytes")},
        }
    return table, folds


def _format(table: dict[str, dict[str, Any]]) -> list[str]:
    means = {name: {m: float(np.nanmean(v)) for m, v in row["values"].items()} for name, row in table.items()}
    peers = [name for name in table if name.startswith(PEERS)]
    best = max(peers, key=lambda name: means[name]["ndcg@10"], default=None)
    others = [name for name in table if name != best]
    p_values: dict[tuple[str, str], float] = {}
    for metric in ("ndcg@5", "ndcg@10") if best else ():
        raw = [compare_paired(table[n]["values"][metric], table[best]["values"][metric]).randomization for n in others]
        p_values |= {(name, metric): float(p) for name, p in zip(others, holm(raw), strict=True)}
    lines = [
        f"| system | {' | '.join(m.upper() for m in METRICS)} | p @5 | p @10 | s | ms | MB |",
        "|---|" + "---|" * (len(METRICS) + 5),
    ]
    for name in sorted(table, key=lambda name: -means[name]["ndcg@10"]):
        cells = [f"{means[name][m]:.4f}" for m in METRICS]
        cells += ["best peer" if name == best else _p_value(p_values.get((name, m))) for m in ("ndcg@5", "ndcg@10")]
        for key, digits in (("seconds", 0), ("milliseconds", 2), ("megabytes", 1)):
            cells.append(f"{table[name][key]:.{digits}f}" if key in table[name] else "")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _p_value(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _distillation(outcomes: list[dict[str, Any]]) -> list[str]:
    rows = [o for o in outcomes if "distillation" in o]
    if not rows:
        return []
    lines = [
        "## What distillation loses",
        "",
        "Members that are trees stay as they are; the others are replaced by one tree model. *loss*: NDCG@10 of the",
        "ensemble less that of the distilled model, on lists that neither the student nor its teachers have seen.",
        "",
        "| data | fold | minutes | share of trees | loss | p | lists |",
        "|---|---|---|---|---|---|---|",
    ]
    for o in sorted(rows, key=lambda o: (o["data"], o["minutes"], o["fold"])):
        d = o["distillation"]
        loss = None if d["value"] is None else d["ensemble_value"] - d["value"]
        text = "0 (all trees)" if not d["trees"] else "not measured" if loss is None else f"{loss:.4f}"
        lines.append(
            f"| {o['data']} | {o['fold'] + 1} | {o['minutes']:g} | {o['trees_share']:.2f} | {text} | "
            f"{_p_value(d['p_value'])} | {d['lists']} |"
        )
    return [*lines, ""]


def _trials(trials: list[dict[str, Any]]) -> list[str]:
    if not trials:
        return []
    lines = [
        "## Trials of cross-fitted models",
        "",
        "Cross-fitted on the training lists of a fold, measured on its validation lists (NDCG@5 / @10): the mean of",
        "single members; the sum of scores, each divided by its deviation; the sum of ranks. *difference*: of the sum",
        "of scores at NDCG@10 from that of `e-lambdaloss-mart` as it is, on the same lists, with its standard error.",
        "",
        "A setting becomes the default of the recipe only if it is better on all sets beyond chance.",
        "",
    ]
    for data in dict.fromkeys(trial["data"] for trial in trials):
        chosen = [t for t in trials if t["data"] == data]
        if not chosen:
            continue
        lines += [f"### {data}", ""]
        lines += ["| trial | folds | single | sum of scores | sum of ranks | difference | s |", "|---" * 7 + "|"]
        known = {t["fold"] for t in chosen if t["trial"] == "as it is"}
        for name in dict.fromkeys(t["trial"] for t in chosen):
            folds = sorted(known & {t["fold"] for t in chosen if t["trial"] == name})
            if not folds:
                continue
            row, base = (_pooled(chosen, trial, folds) for trial in (name, "as it is"))
            cells = [
                " / ".join(f"{np.nanmean(row[how][m]):.4f}" for m in ("ndcg@5", "ndcg@10"))
                for how in ("single", "scale", "rank")
            ]
            gain = row["scale"]["ndcg@10"] - base["scale"]["ndcg@10"]
            error = np.nanstd(gain) / np.sqrt(np.sum(~np.isnan(gain)))
            difference = "" if name == "as it is" else f"{np.nanmean(gain):+.4f} ± {error:.4f}"
            numbers = ", ".join(str(fold + 1) for fold in folds)
            lines.append(f"| {name} | {numbers} | {' | '.join(cells)} | {difference} | {row['seconds']:.0f} |")
        lines.append("")
    return lines


def _pooled(trials: list[dict[str, Any]], name: str, folds: Iterable[int]) -> dict[str, Any]:
    by_fold = {t["fold"]: t for t in trials if t["trial"] == name}
    parts = [by_fold[fold] for fold in folds]
    pooled: dict[str, Any] = {
        how: {m: np.concatenate([np.array(p[how][m], float) for p in parts]) for m in ("ndcg@5", "ndcg@10")}
        for how in ("single", "scale", "rank")
    }
    return pooled | {"seconds": float(np.mean([p["seconds"] for p in parts]))}


def _not_run(outcomes: list[dict[str, Any]], trials: list[dict[str, Any]]) -> list[str]:
    """What of the whole grid is missing."""
    done = {(o["data"], o["fold"], o["system"], o["minutes"]) for o in outcomes}
    grid = [(f"{name}{how}", 0.0) for how in ("", ", cross-fitted") for name in (*PEERS, "ours")]
    grid.append(("ours, cross-fitted with list-context", 0.0))
    for minutes in MINUTES:
        grid += [(name, minutes) for name in (AUTO, *(f"{peer}, tuned" for peer in PEERS), f"{AUTO}, distilled")]
    lines = []
    for system, minutes in grid:
        missing = []
        for data, n_folds in SETS.items():
            folds = [fold + 1 for fold in range(n_folds) if (data, fold, system, minutes) not in done]
            if folds:
                missing.append(data if len(folds) == n_folds else f"{data} folds {', '.join(map(str, folds))}")
        if missing:
            budget = f", {minutes:g} min" if minutes else ""
            lines.append(f"- {system}{budget}: {'everywhere' if missing == list(SETS) else '; '.join(missing)}")
    tried = {trial["trial"] for trial in trials}
    untried = [name for name in TRIALS if name not in tried]
    lines += [f"- trials of cross-fitted models: {'; '.join(untried)}"] if untried else []
    return ["## What has not been run", "", *lines] if lines else []
