"""Experiments: comparisons, tuning, robustness, the papers' tables, reports.

Every experiment has the same steps: a plan lists trials (system, split, seed), a runner turns trials
into outcomes, which are stored, results are read from the store, and reports are made from results.
"""

from plackett.base.errors import StoreError
from plackett.experiments.compare import CompareResult, compare
from plackett.experiments.protocols import protocol
from plackett.experiments.quickstart import quickstart
from plackett.experiments.report import Report, write_report
from plackett.experiments.report.write import write_files
from plackett.experiments.results import Leaderboard, leaderboard
from plackett.experiments.significance import (
    Comparison,
    benjamini_hochberg,
    bootstrap_intervals,
    compare_paired,
    holm,
    randomisation_test,
    randomization_test,
)
from plackett.experiments.store import RunStore
from plackett.experiments.tuning import TuneResult, tune

__all__ = [
    "CompareResult",
    "Comparison",
    "Leaderboard",
    "Report",
    "RunStore",
    "StoreError",
    "TuneResult",
    "benjamini_hochberg",
    "bootstrap_intervals",
    "compare",
    "compare_paired",
    "holm",
    "leaderboard",
    "protocol",
    "quickstart",
    "randomisation_test",
    "randomization_test",
    "tune",
    "write_files",
    "write_report",
]
