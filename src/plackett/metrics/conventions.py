"""All metrics, and the conventions of other tools.

A convention lists the metrics that a tool has for single lists and the options in which it differs
from our defaults. The tests compare them with the tools themselves (LightGBM 4.7, XGBoost 3.2,
CatBoost 1.2.10, trec_eval through pytrec_eval 0.5.11, scikit-learn 1.9) and with the rules of the
Perl scripts of LETOR and MSLR.

Options cannot express everything: XGBoost rejects ``map`` and ``precision`` of labels other than 0
and 1, LightGBM and XGBoost reject labels above 30 and 31, and CatBoost's ``err`` is meaningless for
labels above 1, so they are an error here. XGBoost's ``auc`` for ranking is missing: it counts a pair
of equal labels as correctly ordered if the first row has the higher score, so it depends on the order
of rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from plackett.metrics.definition import Option
from plackett.metrics.formulas import AUC, DCG, ERR, MAP, MRR, NDCG, PRECISION, RBP, RECALL, SUCCESS

METRICS = (NDCG, DCG, ERR, MAP, MRR, PRECISION, RECALL, SUCCESS, AUC, RBP)
NAMES = tuple(definition.name for definition in METRICS)


@dataclass(frozen=True)
class Convention:
    """Metrics of a tool, and the options in which they differ from the defaults."""

    name: str
    title: str
    metrics: Mapping[str, Mapping[str, Option]]


_LETOR_NDCG: dict[str, Option] = {"discount": "letor", "short": "zero", "empty": "0"}
_CATBOOST_BINARY: dict[str, Option] = {"ties": "pessimistic", "threshold": 0.5}
_TREC: dict[str, Option] = {"ties": "docid", "rounding": "float32", "empty": "0"}

CONVENTIONS = (
    Convention("papers", "the papers", {name: {} for name in NAMES}),
    Convention(
        "letor3",
        "the LETOR 3.0 script",
        {"ndcg": _LETOR_NDCG, "map": {"empty": "0"}, "precision": {"short": "zero", "empty": "0"}},
    ),
    Convention(
        "letor4", "the LETOR 4.0 script", {"ndcg": _LETOR_NDCG, "map": {"empty": "0"}, "precision": {"empty": "0"}}
    ),
    Convention(
        "mslr",
        "the MSLR script",
        {"ndcg": _LETOR_NDCG, "map": {"threshold": 1.0, "empty": "0"}, "precision": {"threshold": 1.0, "empty": "0"}},
    ),
    Convention(
        "lightgbm",
        "LightGBM",
        {"ndcg": {"empty": "1"}, "map": {"threshold": 0.5, "denominator": "cutoff", "empty": "1"}},
    ),
    Convention(
        "xgboost",
        "XGBoost",
        {
            "ndcg": {"rounding": "float32", "empty": "1"},
            "map": {"rounding": "float32", "denominator": "cutoff", "empty": "1"},
            "precision": {"rounding": "float32", "denominator": "list", "empty": "0"},
        },
    ),
    Convention(
        "catboost",
        "CatBoost",
        {
            "ndcg": {"gain": "identity", "ties": "pessimistic", "empty": "1"},
            "dcg": {"gain": "identity", "ties": "pessimistic", "empty": "0"},
            "err": {"gain": "identity", "ties": "pessimistic", "grade": 1.0, "empty": "0"},
            "map": {**_CATBOOST_BINARY, "denominator": "cutoff", "empty": "0"},
            "mrr": {**_CATBOOST_BINARY, "empty": "0"},
            "precision": {**_CATBOOST_BINARY, "denominator": "list", "empty": "0"},
            "recall": {**_CATBOOST_BINARY, "empty": "1"},
            "auc": {"pairs": "graded", "empty": "0"},
        },
    ),
    Convention(
        "trec_eval",
        "trec_eval",
        {
            "ndcg": {"gain": "identity", **_TREC},
            "map": _TREC,
            "mrr": _TREC,
            "precision": _TREC,
            "recall": _TREC,
            "success": _TREC,
        },
    ),
    Convention(
        "sklearn",
        "scikit-learn",
        {
            "ndcg": {"gain": "identity", "ties": "expected", "empty": "0"},
            "dcg": {"gain": "identity", "ties": "expected", "empty": "0"},
            "auc": {},
        },
    ),
)
CONVENTION_NAMES = tuple(convention.name for convention in CONVENTIONS)
