"""Every form a model can be exported in, in one explicit tuple.

The command line, the guide and the tests go by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from plackett.base.errors import UsageError
from plackett.serving.export.lightgbm import lightgbm_json, lightgbm_text
from plackett.serving.export.linear import elasticsearch_linear, linear_of
from plackett.serving.export.nets import nets_of
from plackett.serving.export.onnx import onnx_model
from plackett.serving.export.parts import Kind, Missing, Part, check_absent_is_zero, trees_of
from plackett.serving.export.ranklib import ranklib_xml
from plackett.serving.export.solr import TARGET, solr_linear, solr_net, solr_trees
from plackett.serving.export.xgboost import to_json, to_ubjson, xgboost_dump, xgboost_model


@dataclass(frozen=True)
class Request:
    """What is to be exported."""

    parts: tuple[Part, ...]
    kind: Kind
    names: tuple[str, ...]
    name: str
    missing: Missing


@dataclass(frozen=True)
class Form:
    """A form of file."""

    name: str
    reader: str
    """Who reads it."""
    kinds: tuple[Kind, ...]
    """What it can hold."""
    takes_missing: bool
    """Whether a document may lack a feature and be scored as here; else it is read as 0."""
    write: Callable[[Request], bytes | str]


def _lightgbm_text(asked: Request) -> str:
    return lightgbm_text(asked.parts, asked.names)


def _lightgbm_json(asked: Request) -> str:
    return lightgbm_json(trees_of(asked.parts), asked.names)


def _xgboost_json(asked: Request) -> str:
    return to_json(xgboost_model(trees_of(asked.parts), asked.names))


def _xgboost_ubj(asked: Request) -> bytes:
    return to_ubjson(xgboost_model(trees_of(asked.parts), asked.names))


def _opensearch(asked: Request) -> str:
    return to_json(xgboost_model(trees_of(asked.parts), asked.names, base_as_tree=True))


def _xgboost_dump(asked: Request) -> str:
    return xgboost_dump(trees_of(asked.parts), asked.names)


def _ranklib(asked: Request) -> str:
    trees = trees_of(asked.parts)
    check_absent_is_zero(trees, asked.missing, "RankLib")
    return ranklib_xml(trees)


def _solr(asked: Request) -> str:
    missing = asked.missing
    if asked.kind == "trees":
        return solr_trees(trees_of(asked.parts), asked.names, asked.name, missing=missing)
    if asked.kind == "linear":
        linear = linear_of(asked.parts, missing=missing, target=TARGET)
        return solr_linear(linear, asked.names, asked.name)
    return solr_net(nets_of(asked.parts), asked.names, asked.name, missing=missing)


def _elasticsearch_linear(asked: Request) -> str:
    linear = linear_of(asked.parts, missing=asked.missing, target="Elasticsearch")
    return elasticsearch_linear(linear, asked.names, asked.name)


def _onnx(asked: Request) -> bytes:
    return onnx_model(asked.parts, asked.kind, asked.names, asked.name)


_PLUGINS = "the learning-to-rank plugins of Elasticsearch and OpenSearch"

FORMS: tuple[Form, ...] = (
    Form("lightgbm-text", "LightGBM", ("trees",), True, _lightgbm_text),
    Form("lightgbm-json", "Vespa", ("trees",), True, _lightgbm_json),
    Form("xgboost-json", "XGBoost", ("trees",), True, _xgboost_json),
    Form("xgboost-ubj", "XGBoost, Vespa", ("trees",), True, _xgboost_ubj),
    Form("xgboost-dump", f"{_PLUGINS}, model/xgboost+json", ("trees",), True, _xgboost_dump),
    Form(
        "opensearch-xgboost",
        "OpenSearch's plugin, model/xgboost+json+raw",
        ("trees",),
        True,
        _opensearch,
    ),
    Form("ranklib", f"RankLib; {_PLUGINS}, model/ranklib", ("trees",), False, _ranklib),
    Form("solr", "Solr's learning-to-rank module", ("trees", "linear", "net"), True, _solr),
    Form(
        "elasticsearch-linear",
        f"{_PLUGINS}, model/linear",
        ("linear",),
        False,
        _elasticsearch_linear,
    ),
    Form("onnx", "ONNX Runtime, Vespa", ("trees", "linear", "net"), True, _onnx),
)


def form_of(name: str) -> Form:
    """The form with this name."""
    for form in FORMS:
        if form.name == name:
            return form
    raise UsageError(
        f"there is no form {name!r}; there are {', '.join(form.name for form in FORMS)}."
    )
