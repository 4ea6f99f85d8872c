"""Paper A: a stochastic treatment of learning to rank scoring functions (Bruch et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plackett.experiments.papers import result_tables as tables
from plackett.experiments.papers.curve_figures import LearningCurves
from plackett.experiments.papers.paper import Budget, Claim, Paper, Study
from plackett.experiments.protocols import Holdout, Protocol, Seeds
from plackett.models.ranker import Ranker

WEB, YAHOO = "MSLR-WEB30K", "Yahoo set 1"
_METRICS = ("ndcg@1", "ndcg@5", "ndcg@10")
_SELECT = "ndcg@5"
_PRESETS = {WEB: "A-web30k", YAHOO: "A-yahoo"}
_RECIPES = {
    "CrossEntropy": "crossentropy-net",
    "E[CrossEntropy]": "e-crossentropy-net",
    "ApproxNDCG": "approxndcg-net",
    "E[ApproxNDCG]": "e-approxndcg-net",
    "λMART": "lambdamart",
    "E[λMART]": "e-lambdamart",
}
_PAIRS = {f"E[{name}]": name for name in ("CrossEntropy", "ApproxNDCG", "λMART")}


def _systems(data: str, budget: Budget, *, tuned: bool) -> dict[str, Ranker]:
    """The second set of experiments has nets of their own for the stochastic losses."""
    # Table 1 leaves cross entropy out on Yahoo's set.
    names = [n for n in _RECIPES if data == WEB or "CrossEntropy" not in n]
    systems = {}
    for name in names:
        net = name.startswith("E[") and name != "E[λMART]"
        preset = _PRESETS[data] + ("-tuned" if tuned and net else "")
        systems[name] = budget.ranker(_RECIPES[name], preset)
    return systems


def _study(data: str, budget: Budget, *, tuned: bool, protocol: Protocol) -> Study:
    systems = _systems(data, budget, tuned=tuned)
    return Study(data, systems, protocol, _METRICS, _SELECT)


def _table(data: str, budget: Budget) -> Study:
    trials = Seeds(budget.count_trials(10, 2), budget.seed)
    return _study(data, budget, tuned=True, protocol=trials)


def _same_settings(data: str, budget: Budget) -> Study:
    return _study(data, budget, tuned=False, protocol=Holdout(budget.seed))


def _own_settings(data: str, budget: Budget) -> Study:
    return _study(data, budget, tuned=True, protocol=Holdout(budget.seed))


def _claims(_: str, judged: tables.TableTests) -> Sequence[Claim]:
    better = [tables.claim_better(judged, f"E[{n}]", n) for n in ("ApproxNDCG", "λMART")]
    return [*better, *_no_difference(judged)]


def _no_difference(judged: tables.TableTests) -> list[Claim]:
    name = "E[CrossEntropy]"
    pairs = [d for (system, _), d in judged.differences.items() if system == name]
    if not pairs:
        return []
    here = ", ".join(
        f"{tables.metric_heading(d.metric)} {d.mean:+.4f} (p {d.p:.2g})" for d in pairs
    )
    holds = all(d.p >= d.alpha for d in pairs)
    return [Claim(f"{name} does not differ significantly from CrossEntropy", here, holds)]


def _baselines(_: str) -> Mapping[str, str]:
    return _PAIRS


_PANELS = {
    "cross entropy": ("CrossEntropy", "E[CrossEntropy]"),
    "ApproxNDCG": ("ApproxNDCG", "E[ApproxNDCG]"),
    "λMART": ("λMART", "E[λMART]"),
}

PAPER = Paper(
    letter="A",
    authors="Bruch, Han, Bendersky & Najork (2020)",
    title="A stochastic treatment of learning to rank scoring functions",
    items=(
        tables.ResultTable(
            1, "NDCG on test lists with 95 % intervals over 10 seeds", (WEB, YAHOO),
            study=_table, published=tables.A_TABLE_1, against=_baselines, percent=True, spread=True,
            claims=_claims,
            notes=(
                "Nets of E[CrossEntropy] and E[ApproxNDCG] are the tuned ones of the paper's "
                "second set of experiments, all others those of its first.",
                "The paper has intervals and no test; ours pairs the lists, each with its mean "
                "over seeds.",
            ),
        ),
        LearningCurves(
            3, "NDCG@5 during training, the same settings for both losses", (WEB,),
            study=_same_settings, panels=_PANELS, parts=("train", "validation"),
            notes=("One trial. Nets follow the validation lists only; trees both parts.",),
        ),
        LearningCurves(
            4, "NDCG@5 on validation lists during training, settings of their own",
            (WEB,), study=_own_settings, panels={"all": tuple(_RECIPES)}, notes=("One trial.",),
        ),
    ),
    convention="NDCG with gain 2^label - 1 and discount 1/log2(1 + rank); lists without a relevant "
    "document left out; numbers in percent.",
    left_out="Figures 1 and 2 are drawings, not experiments.",
    view="first",
)  # fmt: skip
"""Its tables and figures."""
