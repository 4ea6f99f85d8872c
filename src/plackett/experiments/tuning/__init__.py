"""Tuning: the settings of a model that are best on validation lists."""

from plackett.experiments.tuning.divisions import Divisions
from plackett.experiments.tuning.plan import Plan
from plackett.experiments.tuning.result import Tried, Tuned
from plackett.experiments.tuning.tuning import plan_search, run_search, tune, with_validation
from plackett.models.recipes.search_spaces import Choice, Real, Whole, search_space

__all__ = [
    "Choice",
    "Divisions",
    "Plan",
    "Real",
    "Tried",
    "Tuned",
    "Whole",
    "plan_search",
    "run_search",
    "search_space",
    "tune",
    "with_validation",
]
