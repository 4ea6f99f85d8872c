"""Reproduce tables and figures of a paper: plan, say how long it takes, run, show."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from plackett.base.errors import ConvergenceWarning, DataError
from plackett.distributed import Cluster
from plackett.experiments.comparing import run_trials
from plackett.experiments.forecasting import forecast_plans
from plackett.experiments.papers.exhibit import Exhibit, Findings, Paper, Shown
from plackett.experiments.papers.shelf import Shelf
from plackett.experiments.papers.study import Done, Study
from plackett.experiments.planning import Forecast, Plan
from plackett.experiments.running.schedule import Progress
from plackett.experiments.store import RunStore


@dataclass(frozen=True, eq=False)
class Item:
    """An exhibit with the studies it rests on, by data set."""

    exhibit: Exhibit
    studies: dict[str, list[tuple[Study, Plan]]]


@dataclass(frozen=True, eq=False)
class Agenda:
    """What is going to be reproduced."""

    paper: Paper
    items: tuple[Item, ...]
    missing: tuple[str, ...]
    """Data that exhibits would need and that are not there, in words."""
    shelf: Shelf

    def plans(self) -> Iterator[Plan]:
        """All comparisons; some may share trials."""
        for item in self.items:
            for studies in item.studies.values():
                yield from (plan for _, plan in studies)


@dataclass(frozen=True, eq=False)
class Reproduction:
    """Exhibits of a paper, made anew."""

    agenda: Agenda
    shown: tuple[tuple[Exhibit, Shown], ...]
    ran: int
    """Trials that were run now; the others were in the store."""


def plan_exhibits(shelf: Shelf, exhibits: Sequence[Exhibit]) -> Agenda:
    """Lay out the trials of exhibits on the data that are there.

    An exhibit on several sets is made on those that were found; one that has none is left out, and
    what is missing is said. If nothing can be made at all, that is an error.
    """
    items: list[Item] = []
    missing: list[str] = []
    for exhibit in exhibits:
        there = [name for name in exhibit.sets if shelf.has(name)]
        absent = [name for name in exhibit.sets if not shelf.has(name)]
        if absent:
            what = "; ".join(shelf.lacking(name) for name in absent)
            left = "left out" if not there else f"on {', '.join(there)} only"
            missing.append(f"{exhibit.name} {left}: missing {what}")
        if there or not exhibit.sets:
            items.append(_item(shelf, exhibit, there))
    if not items:
        looked = f"in {shelf.folder}" if shelf.folder else "(no --data DIR was given)"
        raise DataError(
            f"none of the data that paper {shelf.paper.letter} needs here are there {looked}. "
            f"{'. '.join(missing)}. Give their folder with --data DIR, or use --quick for "
            "synthetic data in their place."
        )
    return Agenda(shelf.paper, tuple(items), tuple(missing), shelf)


def _item(shelf: Shelf, exhibit: Exhibit, sets: Sequence[str]) -> Item:
    return Item(
        exhibit,
        {
            name: [
                (study, study.plan(shelf.source(name)))
                for study in exhibit.studies(name, shelf.budget)
            ]
            for name in sets
        },
    )


def forecast_agenda(
    agenda: Agenda, *, store: RunStore, jobs: int = 1, threads: int | None = None
) -> Forecast:
    """Trials, those that the store has, and seconds for the rest; shared trials count once."""
    return forecast_plans(agenda.plans(), store=store, jobs=jobs, threads=threads)


def run_agenda(
    agenda: Agenda,
    *,
    store: RunStore,
    scratch: Path,
    jobs: int = 1,
    threads: int | None = None,
    cluster: Cluster | str | None = None,
    progress: Progress = lambda *_: None,
) -> Reproduction:
    """Run the trials that the store has not, and show every exhibit.

    Parameters
    ----------
    agenda
        What is to be done.
    store
        Of finished trials: each is durable as soon as it is finished.
    scratch
        A folder in which the data may be written for several processes to see.
    jobs, threads
        Trials at the same time, and threads of each.
    cluster
        Run the trials as tasks on Ray.
    progress
        Called with what is being done, trials done and trials in all.
    """
    total = len({job.identity.digest for plan in agenda.plans() for job in plan.jobs})
    done: set[str] = set()
    ran = 0
    for plan in agenda.plans():
        own = {job.identity.digest for job in plan.jobs}
        before, shared = len(done), len(own & done)

        def tell(text: str, some: int, _: int, at: int = before - shared) -> None:
            progress(text, at + some, total)

        with _quiet():
            ran += run_trials(
                plan,
                store=store,
                scratch=scratch,
                jobs=jobs,
                threads=threads,
                cluster=cluster,
                progress=tell,
            )
        done |= own
    shown = tuple((item.exhibit, _show(agenda, item, store)) for item in agenda.items)
    return Reproduction(agenda, shown, ran)


def _show(agenda: Agenda, item: Item, store: RunStore) -> Shown:
    done = {
        name: [Done(study, plan, store) for study, plan in studies]
        for name, studies in item.studies.items()
    }
    sources = {name: agenda.shelf.source(name) for name in item.studies}
    with _quiet():
        return item.exhibit.show(Findings(done, sources, agenda.shelf.budget))


@contextmanager
def _quiet() -> Iterator[None]:
    """Solvers that stop at their limit of iterations are part of the papers' protocols."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
