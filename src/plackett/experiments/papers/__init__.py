"""The papers' tables and figures, each reproduced by one command."""

from __future__ import annotations

from plackett.base.errors import UsageError
from plackett.experiments.papers import conditional, stochastic, unique_ratings, xendcg
from plackett.experiments.papers.datasets import DATASETS, KnownDataset, find_datasets
from plackett.experiments.papers.paper import Budget, Claim, ItemContent, Paper, PaperItem
from plackett.experiments.papers.report import reproduction_payload, write_reproduction
from plackett.experiments.papers.run import (
    ListedItem,
    PaperDatasets,
    Reproduction,
    ReproductionPlan,
    forecast_reproduction,
    list_items,
    plan_reproduction,
    run_reproduction,
)

PAPERS: dict[str, Paper] = {
    module.PAPER.letter: module.PAPER
    for module in (stochastic, conditional, xendcg, unique_ratings)
}
"""The papers by letter."""


def paper(letter: str) -> Paper:
    """One of the papers, by its letter."""
    known = PAPERS.get(letter.strip().upper())
    if known is None:
        listed = "; ".join(f"{p.letter}: {p.authors}" for p in PAPERS.values())
        raise UsageError(f"there is no paper {letter!r}. There are {listed}.")
    return known


__all__ = [
    "DATASETS",
    "PAPERS",
    "Budget",
    "Claim",
    "ItemContent",
    "KnownDataset",
    "ListedItem",
    "Paper",
    "PaperDatasets",
    "PaperItem",
    "Reproduction",
    "ReproductionPlan",
    "find_datasets",
    "forecast_reproduction",
    "list_items",
    "paper",
    "plan_reproduction",
    "reproduction_payload",
    "run_reproduction",
    "write_reproduction",
]
