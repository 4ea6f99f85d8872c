"""The papers' tables and figures, each made anew by one command."""

from __future__ import annotations

from plackett.base.errors import UsageError
from plackett.experiments.papers import conditional, stochastic, unique_ratings, xendcg
from plackett.experiments.papers.datasets import DATASETS, KnownDataset, find_datasets
from plackett.experiments.papers.paper import Budget, Claim, Drawing, ItemContent, Paper, PaperItem
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
    each.PAPER.letter: each.PAPER for each in (stochastic, conditional, xendcg, unique_ratings)
}
"""By letter."""


def paper(letter: str) -> Paper:
    """One of the papers, by its letter."""
    found = PAPERS.get(letter.strip().upper())
    if found is None:
        listed = "; ".join(f"{p.letter}: {p.authors}" for p in PAPERS.values())
        raise UsageError(f"there is no paper {letter!r}. There are {listed}.")
    return found


__all__ = [
    "DATASETS",
    "PAPERS",
    "Budget",
    "Claim",
    "Drawing",
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
