"""Metrics of rankings, each with an explicit convention: one list in, one number out."""

from plackett.metrics.conventions import CONVENTION_NAMES, CONVENTIONS, METRICS, NAMES
from plackett.metrics.definition import OPTIONS, MetricSettings
from plackett.metrics.evaluate import LabeledLists, evaluate, per_list
from plackett.metrics.metric import FunctionMetric, Metric, MetricLike, metric, metrics, split

LabelledLists = LabeledLists  # the old spelling

__all__ = [
    "CONVENTIONS",
    "CONVENTION_NAMES",
    "METRICS",
    "NAMES",
    "OPTIONS",
    "FunctionMetric",
    "LabeledLists",
    "LabelledLists",
    "Metric",
    "MetricLike",
    "MetricSettings",
    "evaluate",
    "metric",
    "metrics",
    "per_list",
    "split",
]
