"""Paper C: an alternative cross entropy loss for learning to rank (Bruch 2021)."""

from collections.abc import Sequence

from plackett.experiments.papers import paper
from plackett.experiments.papers.curve_figures import LearningCurves, NoiseCurves
from plackett.experiments.papers.result_tables import ResultTable, TableTests, claim_better
from plackett.experiments.protocols import DataSource, Protocol, Splits
from plackett.experiments.robustness import NOISE_KINDS, NoiseProtocol

WEB, YAHOO = "MSLR-WEB30K", "Yahoo set 1"
_METRICS = ("ndcg@5", "ndcg@10")
_SELECT = "ndcg@5"
_PRESETS = {WEB: "C-web30k", YAHOO: "C-yahoo"}
_RECIPES = {"ListNet": "listnet-mart", "λMART": "lambdamart", "XE-NDCG-MART": "xendcg-mart"}
_LAMBDA, _XENDCG = "λMART", "XE-NDCG-MART"
_ALPHA = 0.01
_TRIALS = {"clicks": (20, 4)}  # of the paper and of a quick run, where they are not those of the table


def _pooled(source: DataSource) -> DataSource:
    """All lists of the official splits together, to be split again."""
    return DataSource(source.name, whole=source.pooled)


def _study(data: str, budget: paper.Budget, names: Sequence[str], protocol: Protocol) -> paper.Study:
    systems = {name: budget.ranker(_RECIPES[name], _PRESETS[data]) for name in names}
    return paper.Study(systems, protocol, _METRICS, _SELECT, baseline=names[0])


def _splits(budget: paper.Budget, kind: str = "") -> Splits:
    return Splits(budget.count_trials(*_TRIALS.get(kind, (100, 4))), budget.seed)


def _noisy(data: str, budget: paper.Budget, kinds: Sequence[str]) -> list[paper.Study]:
    return [
        _study(
            data,
            budget,
            (_LAMBDA, _XENDCG),
            NoiseProtocol(_splits(budget, kind), NOISE_KINDS[kind], NOISE_KINDS[kind].levels),
        )
        for kind in kinds
    ]


def _claims(_: str, judged: TableTests, __: paper.FinishedStudy) -> Sequence[paper.Claim]:
    pairs = ((_XENDCG, _LAMBDA), (_LAMBDA, "ListNet"), (_XENDCG, "ListNet"))
    return [claim_better(judged, above, below) for above, below in pairs]


_LOST = "The paper's text has lost its numbers, but not its statements about them."

PAPER = paper.Paper(
    letter="C",
    authors="Bruch (2021)",
    title="An alternative cross entropy loss for learning-to-rank",
    items=(
        ResultTable(
            1, "NDCG on test lists, means over random splits (the paper: 100)", (WEB, YAHOO),
            study=lambda data, budget: _study(data, budget, list(_RECIPES), _splits(budget)),
            against=lambda _: {_LAMBDA: "ListNet", _XENDCG: (_LAMBDA, "ListNet")},
            alpha=_ALPHA, percent=True, spread=True,
            claims=_claims,
            notes=(
                _LOST,
                "The paper tests without a correction: there △ ▽ count as well.",
                "Random splits share most of their lists, so the p-values of the paper's t-test are too small; "
                "p of the corrected resampled test (Nadeau & Bengio 2003) is shown next to them.",
            ),
        ),
        LearningCurves(
            1, "NDCG@5 on validation lists as trees are added", (WEB, YAHOO),
            study=lambda data, budget: _study(data, budget, (_LAMBDA, _XENDCG), _splits(budget)),
            panels={"validation": (_LAMBDA, _XENDCG)}, faster=((_XENDCG, _LAMBDA),),
            notes=("The paper shows one trial; thick lines are means over those of Table 1.", _LOST),
        ),
        NoiseCurves(
            2, "NDCG@5 under sampled negatives and perturbed labels", (WEB, YAHOO),
            noisy=lambda data, budget: _noisy(data, budget, ("negatives", "labels")),
            claim=(_XENDCG, _LAMBDA),
            notes=(
                "Noise in the training lists only; validation and test lists stay as they are. "
                "Trials without noise are those of Table 1.",
                "The paper names the levels 40 % and 60 %; the other ones are ours.",
                _LOST,
            ),
        ),
        NoiseCurves(
            3, "NDCG@5 learned from simulated clicks", (WEB, YAHOO),
            noisy=lambda data, budget: _noisy(data, budget, ("clicks",)),
            claim=(_XENDCG, _LAMBDA),
            notes=(
                "Training and validation lists become clicks of a cascade: 10 impressions a list "
                "in random order, read down to the first click, chances of a click by label .05, "
                ".3, .5, .7, .95; the first of these is the level. Test lists keep their labels.",
                "Impressions without a click, or with one document, teach nothing and are dropped.",
                _LOST,
            ),
        ),
    ),
    convention="NDCG with gain 2^label - 1 and discount 1/log2(1 + rank); lists without a relevant "
    "document left out.",
    view="first",
    prepare=_pooled,
)  # fmt: skip
