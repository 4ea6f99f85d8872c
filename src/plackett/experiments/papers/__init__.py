"""The papers' tables and figures, each made anew by one command."""

from __future__ import annotations

from plackett.base.errors import UsageError
from plackett.experiments.papers import conditional, stochastic, unique_ratings, xendcg
from plackett.experiments.papers.datasets import SETS, KnownSet, find_sets
from plackett.experiments.papers.paper import Budget, Claim, Drawing, Exhibit, Paper, Shown
from plackett.experiments.papers.report import reproduction_payload, write_reproduction
from plackett.experiments.papers.run import (
    Agenda,
    Listed,
    Reproduction,
    Shelf,
    forecast_agenda,
    list_exhibits,
    plan_exhibits,
    run_agenda,
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
    "PAPERS",
    "SETS",
    "Agenda",
    "Budget",
    "Claim",
    "Drawing",
    "Exhibit",
    "KnownSet",
    "Listed",
    "Paper",
    "Reproduction",
    "Shelf",
    "Shown",
    "find_sets",
    "forecast_agenda",
    "list_exhibits",
    "paper",
    "plan_exhibits",
    "reproduction_payload",
    "run_agenda",
    "write_reproduction",
]
