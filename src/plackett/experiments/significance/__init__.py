r"""Is one ranking better than another? Paired tests on the values of the same lists.

All tests are made on the differences :math:`d_q` of a metric's values between two systems on the
same lists (or of their means in the same trials). Several systems compared with one baseline are
several chances of a false discovery, for which p-values are corrected.
"""

from plackett.experiments.significance.averaging import micro_average
from plackett.experiments.significance.bootstrap import bootstrap_intervals
from plackett.experiments.significance.comparison import Comparison, compare_paired
from plackett.experiments.significance.correction import benjamini_hochberg, holm
from plackett.experiments.significance.effects import cohens_d
from plackett.experiments.significance.randomisation import randomisation_test
from plackett.experiments.significance.student import mean_interval, resampled_t_test, t_test
from plackett.experiments.significance.wilcoxon import wilcoxon_test

__all__ = [
    "Comparison",
    "benjamini_hochberg",
    "bootstrap_intervals",
    "cohens_d",
    "compare_paired",
    "holm",
    "mean_interval",
    "micro_average",
    "randomisation_test",
    "resampled_t_test",
    "t_test",
    "wilcoxon_test",
]
