"""The papers' tables and figures, each reproduced by one command."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plackett.base.errors import UsageError
from plackett.distributed import Cluster
from plackett.experiments.compare import open_store
from plackett.experiments.papers import conditional, stochastic, unique_ratings, xendcg
from plackett.experiments.papers.datasets import DATASETS, KnownDataset, find_datasets
from plackett.experiments.papers.paper import Budget, Claim, ItemContent, Paper, PaperItem
from plackett.experiments.papers.run import (
    ListedItem,
    PaperDatasets,
    Reproduction,
    ReproductionPlan,
    list_items,
    plan_reproduction,
    reproduction_payload,
    run_reproduction,
    silent_progress_bar,
    write_reproduction,
)
from plackett.models import Progress, no_progress

PAPERS: dict[str, Paper] = {
    module.PAPER.letter: module.PAPER for module in (stochastic, conditional, xendcg, unique_ratings)
}


def paper(letter: str) -> Paper:
    """One of the papers, by its letter."""
    known = PAPERS.get(letter.strip().upper())
    if known is None:
        listed = "; ".join(f"{p.letter}: {p.authors}" for p in PAPERS.values())
        raise UsageError(f"there is no paper {letter!r}. There are {listed}.")
    return known


def reproduce(
    letter: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    tables: Sequence[int] = (),
    figures: Sequence[int] = (),
    on: Sequence[str] = (),
    quick: bool = False,
    trials: int | None = None,
    systems: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    store: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    threads: int | None = None,
    cluster: Cluster | str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Reproduction:
    """Make the tables and figures of a paper, next to the published numbers.

    Parameters
    ----------
    letter
        ``"A"`` (stochastic scores), ``"B"`` (LogRank), ``"C"`` (XE-NDCG) or ``"D"`` (unique
        ratings).
    folder
        Folder with the data sets as distributed; missing ones are left out.
    tables, figures
        Numbers of the tables and figures to make; by default all.
    on
        Your own data sets, paths or names in ``folder``, to use instead of the paper's.
    quick
        Few trials, small models and few lists, with synthetic data in place of missing data sets.
    trials
        Number of repetitions; by default that of the paper.
    systems
        Systems to run, by their names in the tables; by default all.
    settings
        Parameters to change in the models that have them.
    out
        Folder for the report, tables and figures; None: none are written.
    store
        File or URL of the store of finished trials; None: ``runs.db`` in ``out``, or a temporary
        one.
    jobs, threads, cluster, seed, progress
        As for :func:`plackett.experiments.compare.compare`.

    Examples
    --------
    >>> import plackett as pk
    >>> result = pk.reproduce("B", quick=True, figures=[4])  # doctest: +SKIP
    >>> result.contents[0][0].title  # doctest: +SKIP
    """
    chosen = paper(letter)
    items = [chosen.item("table", n) for n in tables] + [chosen.item("figure", n) for n in figures]
    budget = Budget(quick, trials, dict(settings or {}), seed, tuple(systems))
    data = None if folder is None else Path(folder)
    datasets = PaperDatasets(chosen, budget, data, silent_progress_bar, tuple(on))
    plan = plan_reproduction(datasets, items or chosen.items)
    running: dict[str, Any] = {"jobs": jobs, "threads": threads, "cluster": cluster}
    with open_store(Path(out) / "runs.db" if store is None and out is not None else store) as (runs, scratch):
        result = run_reproduction(plan, store=runs, scratch=scratch, progress=progress or no_progress, **running)
    if out is not None:
        write_reproduction(result, Path(out), command=f"plackett.reproduce({letter!r})")
    return result


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
    "list_items",
    "paper",
    "plan_reproduction",
    "reproduce",
    "reproduction_payload",
    "run_reproduction",
    "write_reproduction",
]
