"""The papers' tables and figures, each made anew by one command."""

from plackett.experiments.papers.budget import Budget
from plackett.experiments.papers.catalogue import PAPERS, paper
from plackett.experiments.papers.exhibit import Claim, Drawing, Exhibit, Paper, Shown
from plackett.experiments.papers.finding import find_sets
from plackett.experiments.papers.listing import Listed, list_exhibits
from plackett.experiments.papers.reproducing import (
    Agenda,
    Reproduction,
    forecast_agenda,
    plan_exhibits,
    run_agenda,
)
from plackett.experiments.papers.sets import SETS, KnownSet
from plackett.experiments.papers.shelf import Shelf
from plackett.experiments.papers.writing import reproduction_payload, write_reproduction

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
