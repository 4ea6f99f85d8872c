"""The four papers by their letters."""

from __future__ import annotations

from plackett.base.errors import UsageError
from plackett.experiments.papers import conditional, ratings, stochastic, xendcg
from plackett.experiments.papers.exhibit import Paper

PAPERS: dict[str, Paper] = {
    each.PAPER.letter: each.PAPER for each in (stochastic, conditional, xendcg, ratings)
}
"""By letter."""


def paper(letter: str) -> Paper:
    """One of the papers, by its letter."""
    found = PAPERS.get(letter.strip().upper())
    if found is None:
        listed = "; ".join(f"{p.letter}: {p.authors}" for p in PAPERS.values())
        raise UsageError(f"there is no paper {letter!r}. There are {listed}.")
    return found
