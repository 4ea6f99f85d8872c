"""How fast the systems of Bruch et al. (2020) converge: a table and a figure for each set."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from neural_words import row
from plackett.experiments.figures import Line, LineChart, write_figure

EPOCHS = (1, 2, 3, 5, 8, 10, 15, 20, 30, 40)
DRAWN = ("crossentropy-net", "e-crossentropy-net", "approxndcg-net", "e-approxndcg-net")


def curves(records: list[dict[str, Any]], system: str) -> np.ndarray:
    """The best validation NDCG@5 so far, seeds x epochs, each the mean over the folds.

    A run that stopped early keeps its best value to the end of the longest run.
    """
    runs = [r for r in records if r["system"] == system and r.get("curve")]
    length = max((len(r["curve"]) for r in runs), default=0)
    seeds = defaultdict(list)
    for r in runs:
        best = np.maximum.accumulate(r["curve"])
        seeds[r["seed"]].append(np.pad(best, (0, length - len(best)), mode="edge"))
    return np.array([np.mean(folds, axis=0) for folds in seeds.values()])


def table_of_curves(name: str, records: list[dict[str, Any]]) -> str:
    text = f"{name}: the best NDCG@5 on validation within so many epochs\n\n"
    text += row("system", *map(str, EPOCHS)) + row(*["---"] * (len(EPOCHS) + 1))
    for system in DRAWN:
        means = curves(records, system).mean(axis=0)
        text += row(system, *(f"{means[e - 1]:.4f}" if e <= len(means) else "" for e in EPOCHS))
    return text


def draw_curves(name: str, records: list[dict[str, Any]], folder: Path | None) -> str:
    """The same as a figure, with intervals of 95 % over seeds; the words that show it."""
    if folder is None:
        return ""
    lines = []
    for system in DRAWN:
        found = curves(records, system)[:, : max(EPOCHS)]
        middle = found.mean(axis=0)
        half = 1.96 * found.std(axis=0, ddof=1) / np.sqrt(len(found))
        epochs = range(1, len(middle) + 1)
        lines.append(Line(system, epochs, middle, list(middle - half), list(middle + half)))
    title = f"{name}: best NDCG@5 on validation so far"
    stem = folder / f"neural-convergence-{name.lower().replace('_', '-')}"
    (file,) = write_figure(LineChart(title, "epoch", lines), stem, ("svg",))
    return f"![Convergence on {name}]({file.name})\n"
