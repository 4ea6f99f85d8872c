"""One comparison that a table or figure rests on: which systems, on what data, measured how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from plackett.experiments.gathering import Gathered, gather
from plackett.experiments.planning import Plan, plan_comparison
from plackett.experiments.protocols import Protocol, Source
from plackett.experiments.robustness import RobustnessCurves, curves_of
from plackett.experiments.store import RunStore
from plackett.models.ranker import Ranker


@dataclass(frozen=True, eq=False)
class Study:
    """What is to be run on one data set.

    Two studies may share trials: the store knows a trial by what determines it and runs it once.
    """

    data: str
    """Name of the set."""
    systems: Mapping[str, Ranker]
    """By the names that the paper gives them."""
    protocol: Protocol
    metrics: tuple[str, ...]
    select: str
    """What models are chosen by on the validation lists; several with commas between."""
    baseline: str | None = None
    name: str = ""
    """Tells the studies of one exhibit and data set apart."""

    def plan(self, source: Source) -> Plan:
        """Its trials on these data."""
        return plan_comparison(
            source,
            self.systems,
            protocol=self.protocol,
            metrics=self.metrics,
            baseline=self.baseline,
            select=self.select,
        )


@dataclass(frozen=True, eq=False)
class Done:
    """A study whose trials are all in the store."""

    study: Study
    plan: Plan
    store: RunStore

    @cached_property
    def gathered(self) -> Gathered:
        """Values of its systems."""
        return gather(
            self.plan.jobs,
            store=self.store,
            source=self.plan.source,
            protocol=self.plan.protocol,
            metrics=self.plan.metrics,
            select=self.plan.select.split(",")[0],
        )

    @cached_property
    def under_noise(self) -> RobustnessCurves:
        """Its curves, if it is a study under noise."""
        return curves_of(self.plan, store=self.store)
