"""What a search is: all that determines its trials, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Literal

from plackett.experiments.protocols import Source
from plackett.experiments.running.code import code_version
from plackett.experiments.running.system import System
from plackett.experiments.store import Identity
from plackett.experiments.tuning.divisions import Divisions
from plackett.models.ranker import Ranker
from plackett.models.recipes.search_spaces import Dimension

Pruner = Literal["median", "hyperband", "none"]


@dataclass(frozen=True, eq=False)
class Plan:
    """A search before it is run; the data are beside it."""

    name: str
    """Of the system, for people."""
    ranker: Ranker
    """What is tuned, with the settings that stay as they are."""
    space: Mapping[str, Dimension]
    metric: str
    """What is chosen by, within a fit and between settings; of several the first between them."""
    divisions: Divisions
    pruner: Pruner = "median"
    seed: int = 0

    @property
    def judge(self) -> str:
        """The metric that settings are compared by."""
        return self.metric.split(",")[0]

    def identity(self, source: Source) -> Identity:
        """What determines the search: the number of trials, threads and processes do not."""
        system = System(self.name, self.ranker)
        settings: dict[str, Any] = system.settings(self.seed)
        space = {name: str(each) for name, each in self.space.items()}
        return Identity(
            data=self.divisions.fingerprint(source),
            system=self.name,
            settings=settings | {"$space": space, "$pruner": self.pruner},
            seed=self.seed,
            part=f"tuning: {self.divisions}",
            metric=self.metric,
            code=code_version(),
            libraries=system.libraries() | {"optuna": version("optuna")},
        )
