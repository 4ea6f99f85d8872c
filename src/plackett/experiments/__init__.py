"""Comparisons: significance, leaderboards, reports, the quickstart."""

from plackett.experiments.leaderboard import Leaderboard, leaderboard
from plackett.experiments.quickstart import quickstart
from plackett.experiments.report import Report, write_report
from plackett.experiments.significance import (
    Comparison,
    compare_paired,
    holm,
    randomisation_test,
)

__all__ = [
    "Comparison",
    "Leaderboard",
    "Report",
    "compare_paired",
    "holm",
    "leaderboard",
    "quickstart",
    "randomisation_test",
    "write_report",
]
