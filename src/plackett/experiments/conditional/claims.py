"""What Dubey et al. (2009) say of their systems, counted in the cells at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plackett.experiments.conditional.protocol import BASELINES, Results

_GAINS = ("auc", "map", "ndcg")
_CONVEX = tuple(f"logrank-convex-{gain}" for gain in _GAINS)
_EXPGAIN = tuple(f"logrank-expgain-{gain}" for gain in _GAINS)
_L3 = tuple(f"logrank-l3-{gain}" for gain in _GAINS)
_MLE = ("logrank-mle",)


@dataclass(frozen=True)
class Claim:
    """The best of some systems against the best of others, cell by cell."""

    text: str
    paper: str
    """What the paper counts."""
    wins: int
    cells: int

    @property
    def holds(self) -> bool:
        """Whether it is so in most cells."""
        return 2 * self.wins > self.cells


_CLAIMS = (
    ("MLE beats all baselines", "16 of 32", _MLE, BASELINES),
    ("ExpGain (its best) beats all baselines", "26 of 32", _EXPGAIN, BASELINES),
    ("ExpGain (its best) beats MLE", "21 of 32", _EXPGAIN, _MLE),
    ("ExpGain-MAP beats SVM-MAP", "said", ("logrank-expgain-map",), ("svmmap",)),
    ("ExpGain-AUC beats RankSVM", "said", ("logrank-expgain-auc",), ("ranksvm",)),
    (
        "ConvexLoss (its best) is the best of all",
        "26 of 32",
        _CONVEX,
        (*_MLE, *_EXPGAIN, *_L3, *BASELINES),
    ),
    ("ConvexLoss (its best) beats MLE", "29 of 32", _CONVEX, _MLE),
    ("ConvexLoss (its best) beats ExpGain (its best)", "25 of 32", _CONVEX, _EXPGAIN),
    (
        "ConvexLoss-NDCG beats ExpGain-NDCG",
        "25",
        ("logrank-convex-ndcg",),
        ("logrank-expgain-ndcg",),
    ),
    ("ConvexLoss-MAP beats SVM-MAP", "said", ("logrank-convex-map",), ("svmmap",)),
    ("ConvexLoss-AUC beats RankSVM", "said", ("logrank-convex-auc",), ("ranksvm",)),
    (
        "ConvexLoss-NDCG is the best of all",
        "said",
        ("logrank-convex-ndcg",),
        (*_MLE, *_EXPGAIN, *_L3, *BASELINES, "logrank-convex-auc", "logrank-convex-map"),
    ),
)


def claims(results: Results) -> tuple[Claim, ...]:
    """The paper's claims about the systems that were run."""
    known = set(results.systems)
    found = []
    for text, paper, ours, others in _CLAIMS:
        if known >= {*ours, *others}:
            wins = _wins(results, ours, others)
            found.append(Claim(text, paper, wins, len(results.cells())))
    return tuple(found)


def _wins(results: Results, ours: Sequence[str], others: Sequence[str]) -> int:
    """Cells in which the best of ours is above the best of the others."""
    wins = 0
    for data, metric in results.cells():
        best = max(results.mean(system, data, metric) for system in ours)
        wins += best > max(results.mean(system, data, metric) for system in others)
    return wins
