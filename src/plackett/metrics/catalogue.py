"""All metrics, in one place."""

from __future__ import annotations

from plackett.metrics.auc import AUC
from plackett.metrics.average_precision import MAP
from plackett.metrics.dcg import DCG
from plackett.metrics.definition import Definition
from plackett.metrics.err import ERR
from plackett.metrics.ndcg import NDCG
from plackett.metrics.precision import PRECISION
from plackett.metrics.rbp import RBP
from plackett.metrics.recall import RECALL
from plackett.metrics.reciprocal_rank import MRR
from plackett.metrics.settings import unknown

METRICS = (NDCG, DCG, ERR, MAP, MRR, PRECISION, RECALL, AUC, RBP)
NAMES = tuple(definition.name for definition in METRICS)
_BY_NAME = {definition.name: definition for definition in METRICS}


def definition_of(name: str) -> Definition:
    """Look a metric up by its name."""
    if name not in _BY_NAME:
        raise unknown("metric", name, NAMES)
    return _BY_NAME[name]
