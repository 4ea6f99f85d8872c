"""Metrics of rankings, each with an explicit convention: one list in, one number out."""

from plackett.metrics.catalogue import METRICS, NAMES
from plackett.metrics.conventions import CONVENTION_NAMES, CONVENTIONS
from plackett.metrics.evaluation import LabelledLists, evaluate, per_list
from plackett.metrics.settings import OPTIONS, Settings
from plackett.metrics.value import Metric, metric, metrics

__all__ = [
    "CONVENTIONS",
    "CONVENTION_NAMES",
    "METRICS",
    "NAMES",
    "OPTIONS",
    "LabelledLists",
    "Metric",
    "Settings",
    "evaluate",
    "metric",
    "metrics",
    "per_list",
]
