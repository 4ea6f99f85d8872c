"""What a report shows, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plackett.data.describe import Description
from plackett.experiments.leaderboard import Leaderboard
from plackett.experiments.report.looking import Look


@dataclass(frozen=True)
class Report:
    """What a report shows."""

    title: str
    lead: str
    board: Leaderboard
    description: Description
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Validation metric by iteration, for the models that have it."""
    curve_metric: str = "ndcg@5"
    curve_label: str = "trees"
    """What an iteration is."""
    notes: Sequence[str] = ()
    """How the numbers were made, a sentence each."""
    trials: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Mean of the primary metric in each trial, by system."""
    resampled: Mapping[str, float] = field(default_factory=dict)
    """p-values of the primary metric, corrected for overlapping splits, by system."""
    look: Look | None = None
    """Single queries."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Of each system."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Versions and machine."""
    command: str | None = None
    """What repeats it."""
