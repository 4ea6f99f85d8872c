"""The page of results that neural_quality.py writes: tables, paired tests, what holds."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import plackett as pk
from neural_curves import draw_curves, table_of_curves
from neural_speed import speed_section
from neural_systems import METRICS, SIDE, SYSTEMS
from neural_text import CLAIMS, FINDINGS, HEAD, PAPER, SETTINGS, STUDIES
from neural_words import row, short
from plackett.experiments.significance import Comparison, compare_paired, holm
from plackett.models.fit_context import LEXICOGRAPHIC

Values = dict[str, np.ndarray]
CLAIMED = ("ndcg@1", "ndcg@5", "ndcg@10")


class Results:
    """What was found on one set: values of each list, by system and seed."""

    def __init__(self, name: str, records: list[dict[str, Any]], folder: Path) -> None:
        self.name = name
        self.records = [r for r in records if r["set"] == name]
        self._folds = pk.read_folds(folder / name)
        self._scores: dict[str, dict[int, dict[int, np.ndarray]]] = defaultdict(dict)
        for r in self.records:
            self._scores[r["system"]].setdefault(r["seed"], {})[r["fold"]] = r["scores"]

    def seeds(self, system: str) -> list[int]:
        """Those whose folds are all there."""
        found = self._scores.get(system, {})
        return sorted(seed for seed, folds in found.items() if len(folds) == len(self._folds))

    def of(self, scores: dict[int, np.ndarray]) -> Values:
        """Values of the test lists of all folds, which are all lists of the set."""
        each = [pk.per_list(scores[i], fold.test, METRICS) for i, fold in enumerate(self._folds)]
        return {m: np.concatenate([values[m] for values in each]) for m in METRICS}

    @cached_property
    def by_seed(self) -> dict[str, list[Values]]:
        return {
            system: [self.of(self._scores[system][seed]) for seed in self.seeds(system)]
            for system in SYSTEMS
            if self.seeds(system)
        }

    def averaged(self, system: str) -> Values:
        """Of the sum over seeds of scores, each divided by its deviation."""
        total: dict[int, Any] = defaultdict(float)
        for seed in self.seeds(system):
            for i, scores in self._scores[system][seed].items():
                total[i] = total[i] + scores / scores.std()
        return self.of(total)

    def compared(self, system: str, baseline: str, metric: str) -> Comparison:
        """Of each list's mean over the seeds that both have."""
        count = min(len(self.by_seed[system]), len(self.by_seed[baseline]))
        a, b = (
            np.mean([values[metric] for values in self.by_seed[each][:count]], axis=0) for each in (system, baseline)
        )
        return compare_paired(a, b)


def page(records: list[dict[str, Any]], folder: Path, *, speed: Path | None, figures: Path | None) -> str:
    """The whole page; curves are drawn into the folder ``figures``, if there is one."""
    names = [n for n in ("OHSUMED", "MQ2007_partial") if any(r["set"] == n for r in records)]
    results = {name: Results(name, records, folder) for name in names}
    parts = [HEAD]
    for name, found in results.items():
        parts.append(f"## {name}\n")
        for ending, words in SETTINGS.items():
            if f"urank{ending}" in found.by_seed:
                parts += [words, main_table(found, ending), tests_table(found, ending)]
    parts.append("## Convergence\n")
    for name, found in results.items():
        parts += [draw_curves(name, found.records, figures), table_of_curves(name, found.records)]
    if "OHSUMED" in results:
        parts += [STUDIES, side_table(results["OHSUMED"])]
    parts += [FINDINGS, claims(results)]
    if speed is not None:
        parts.append(speed_section(speed))
    return "\n".join(parts).rstrip("\n") + "\n"


def means(values: Values) -> list[float]:
    return [float(np.nanmean(values[m])) for m in LEXICOGRAPHIC]


def recipes(found: Results, ending: str) -> list[str]:
    """The systems that are recipes with one way of training, which their names end in."""
    plain = [name for name in SYSTEMS if name not in SIDE]
    return [name + ending for name in plain if name + ending in found.by_seed]


def main_table(found: Results, ending: str) -> str:
    """Mean and deviation over seeds, and the average of their scores."""
    paper = PAPER.get(found.name, {})
    text = row("system", "seeds", "NDCG@1/3/5/10", "sd over seeds", "seeds averaged", "paper")
    text += row(*["---"] * 6)
    for system in recipes(found, ending):
        seeds, name = found.by_seed[system], system.removesuffix(ending)
        each = np.array([means(values) for values in seeds])
        spread = short(list(each.std(axis=0, ddof=1))) if len(seeds) > 1 else ""
        average = short(means(found.averaged(system))) if len(seeds) > 1 else ""
        numbers = short(list(each.mean(axis=0)))
        text += row(name, str(len(seeds)), numbers, spread, average, paper.get(name, ""))
    return text


def tests_table(found: Results, ending: str) -> str:
    """Each system against urank."""
    text = "\nAgainst `urank`, list by list (means over seeds; p of the randomization test):\n\n"
    text += row("system", "NDCG@1", "p", "NDCG@10", "p") + row(*["---"] * 5)
    for system in recipes(found, ending):
        name = system.removesuffix(ending)
        if name == "urank":
            continue
        cells = []
        for metric in ("ndcg@1", "ndcg@10"):
            c = found.compared(system, "urank" + ending, metric)
            cells += [f"{c.difference:+.4f}", f"{c.randomization:.3f}"]
        text += row(name, *cells)
    return text


def side_table(found: Results) -> str:
    """Variants, each against what it is a variant of, on the same seeds."""
    heads = ("variant", "seeds", "NDCG@1/3/5/10", "sd", "averaged", "NDCG@1", "p", "NDCG@10", "p")
    text = row(*heads) + row(*["---"] * len(heads))
    for system in SIDE:
        seeds = found.by_seed.get(system)
        if not seeds:
            continue
        each = np.array([means(values) for values in seeds])
        cells = ["", ""]
        if len(seeds) > 1:
            cells = [short(list(each.std(axis=0, ddof=1))), short(means(found.averaged(system)))]
        for metric in ("ndcg@1", "ndcg@10"):
            c = found.compared(system, system.rsplit(",", 1)[0], metric)
            cells += [f"{c.difference:+.4f}", f"{c.randomization:.3f}"]
        text += row(system, str(len(seeds)), short(list(each.mean(axis=0))), *cells)
    return text


Row = tuple[str, str, str, list[Comparison]]
"""A claim, a set, what is wanted, and what was found for each metric."""


def claims(results: dict[str, Results]) -> str:
    """Each claim that is an ordering of two systems, with what was found."""
    rows: list[Row] = []
    for claim, system, baseline, wanted in CLAIMS:
        for name, found in results.items():
            if system in found.by_seed and baseline in found.by_seed:
                each = [found.compared(system, baseline, m) for m in CLAIMED]
                slower = ", slower" if system.endswith("slower") else ""
                rows.append((claim + slower, name, wanted, each))
    adjusted = holm([c.randomization for *_, each in rows for c in each]).reshape(-1, len(CLAIMED))
    text = row("claim", "set", "NDCG@1", "NDCG@5", "NDCG@10", "p", "found")
    text += row(*["---"] * 7)
    for (claim, name, wanted, each), p in zip(rows, adjusted, strict=True):
        cells = [f"{c.difference:+.4f}" for c in each]
        text += row(claim, name, *cells, f"{p.min():.3f}", verdict(each, wanted, p.min() < 0.05))
    return text


def verdict(found: list[Comparison], wanted: str, clear: bool) -> str:
    """Whether the means have the sign that is claimed, and whether chance would do it too."""
    signs = [each.difference > 0 for each in found]
    if wanted == "equal":
        return "a difference beyond chance" if clear else "holds: no difference beyond chance"
    if all(signs):
        return "holds" if clear else "holds in the means, within chance"
    if not any(signs):
        return "the reverse" if clear else "the reverse in the means, within chance"
    return "mixed"
