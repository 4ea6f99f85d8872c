"""The targets of export, in one tuple that the command line, the guide and the tests use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from plackett.base.errors import UsageError
from plackett.serving.export.lightgbm import lightgbm_json, lightgbm_text
from plackett.serving.export.linear import elasticsearch_linear
from plackett.serving.export.onnx import onnx_model
from plackett.serving.export.parts import ExportRequest, Kind
from plackett.serving.export.ranklib import ranklib_xml
from plackett.serving.export.solr import solr_model
from plackett.serving.export.xgboost import to_json, to_ubjson, xgboost_dump, xgboost_model


@dataclass(frozen=True)
class Target:
    """A kind of file and the function that writes it."""

    name: str
    reader: str
    """The programs that read it."""
    kinds: tuple[Kind, ...]
    """The kinds of model that it supports."""
    takes_missing: bool
    """Whether missing features are scored as the ranker does; otherwise they are read as 0."""
    write: Callable[[ExportRequest], bytes | str]


_PLUGINS = "the learning-to-rank plugins of Elasticsearch and OpenSearch"
_ALL: tuple[Kind, ...] = ("trees", "linear", "net")

TARGETS: tuple[Target, ...] = (
    Target("lightgbm-text", "LightGBM", ("trees",), True, lightgbm_text),
    Target("lightgbm-json", "Vespa", ("trees",), True, lightgbm_json),
    Target(
        "xgboost-json",
        "XGBoost",
        ("trees",),
        True,
        lambda request: to_json(xgboost_model(request.trees, request.names)),
    ),
    Target(
        "xgboost-ubj",
        "XGBoost, Vespa",
        ("trees",),
        True,
        lambda request: to_ubjson(xgboost_model(request.trees, request.names)),
    ),
    Target("xgboost-dump", f"{_PLUGINS}, model/xgboost+json", ("trees",), True, xgboost_dump),
    Target(
        "opensearch-xgboost",
        "OpenSearch's plugin, model/xgboost+json+raw",
        ("trees",),
        True,
        # OpenSearch ignores the base score of the file.
        lambda request: to_json(xgboost_model(request.trees.with_base_as_tree(), request.names)),
    ),
    Target("ranklib", f"RankLib; {_PLUGINS}, model/ranklib", ("trees",), False, ranklib_xml),
    Target("solr", "Solr's learning-to-rank module", _ALL, True, solr_model),
    Target(
        "elasticsearch-linear",
        f"{_PLUGINS}, model/linear",
        ("linear",),
        False,
        elasticsearch_linear,
    ),
    Target("onnx", "ONNX Runtime, Vespa", _ALL, True, onnx_model),
)


def find_target(name: str | None) -> Target:
    """Return the target with this name."""
    for target in TARGETS:
        if target.name == name:
            return target
    names = ", ".join(target.name for target in TARGETS)
    raise UsageError(f"there is no target {name!r}; choose one of {names}.")
