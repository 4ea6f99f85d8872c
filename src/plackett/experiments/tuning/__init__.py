"""Tuning: the settings of a model that are best on validation lists."""

from plackett.experiments.tuning.plan import SearchPlan, ValidationSplits
from plackett.experiments.tuning.tune import TrialResult, TuneResult, plan_search, run_search, tune, with_validation
from plackett.models.recipes.search_spaces import Choice, Real, Whole, search_space

__all__ = [
    "Choice",
    "Real",
    "SearchPlan",
    "TrialResult",
    "TuneResult",
    "ValidationSplits",
    "Whole",
    "plan_search",
    "run_search",
    "search_space",
    "tune",
    "with_validation",
]
