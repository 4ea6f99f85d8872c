"""Labels replaced by clicks of simulated users (Bruch 2021, section 5.5).

Each list is shown several times in a random order. The user reads from the top, clicks a document
with a chance that depends on its label, and stops at the first click; what was read is one list to
learn from, with the label 1 for the clicked document and 0 for the others. Impressions without a
click, or whose first document was clicked, teach no order and are left out. The level of noise is
the chance of a click on a document of label 0; at level 0 the lists keep their labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plackett.base.errors import UsageError
from plackett.data.clicks import CascadeModel, click_model, simulate
from plackett.data.dataset import Dataset
from plackett.experiments.robustness.corruption import Corruption

LEVELS = (0.05, 0.1, 0.15, 0.2, 0.25)
"""Chances of a click on an irrelevant document: below that of label 1, which is .3."""
_PAPER = click_model("bruch2021")


@dataclass(frozen=True)
class Clicks(Corruption):
    """Turns training and validation lists into clicks of a cascade.

    Parameters
    ----------
    impressions
        How often each list is shown.
    clicks
        Chances of a click on documents of the labels 0, 1, 2 ...; the first is the level's.
    """

    name: ClassVar[str] = "simulated clicks"
    unit: ClassVar[str] = "chance of a click on an irrelevant document"
    validation: ClassVar[bool] = True

    impressions: int = 10
    clicks: tuple[float, ...] = _PAPER.clicks

    def __post_init__(self) -> None:
        if self.impressions < 1:
            raise UsageError(f"lists are shown at least once, got {self.impressions} impressions.")
        CascadeModel(self.clicks)  # checks the chances

    def _corrupted(self, train: Dataset, level: float, rng: np.random.Generator) -> Dataset:
        if level > 1:
            raise UsageError(f"the chance of a click is at most 1, got {level}.")
        log = simulate(
            train,
            CascadeModel(self.clicks).with_noise(level),
            impressions=self.impressions,
            seed=int(rng.integers(2**63)),
            log="examined",
        )
        return Dataset.from_clicks(log, train)
