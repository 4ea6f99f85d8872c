"""A ranker as one ONNX model: input ``features``, output ``scores``, both float32."""

from __future__ import annotations

import json

import numpy as np

from plackett.models.linear import LinearRanker
from plackett.serving.export.nets import nets_of
from plackett.serving.export.onnx_form.graph import Graph
from plackett.serving.export.onnx_form.net_layers import add_net
from plackett.serving.export.onnx_form.transforms import add_transforms
from plackett.serving.export.onnx_form.tree_operator import add_trees
from plackett.serving.export.parts import Kind, Part
from plackett.serving.export.tree_parts import trees_of


def onnx_model(parts: tuple[Part, ...], kind: Kind, names: tuple[str, ...], name: str) -> bytes:
    """The sum of the parts; names of features are in the model's properties."""
    graph = Graph()
    if kind == "trees":
        scores = add_trees(graph, trees_of(parts))
    else:
        terms = _linear(graph, parts) if kind == "linear" else _nets(graph, parts)
        total = terms[0]
        for term in terms[1:]:
            total = graph.add("Add", total, term)
        scores = graph.cast(total, "float32")
    properties = {"name": name, "feature_names": json.dumps(names)}
    return graph.finished(scores, len(names), properties)


def _linear(graph: Graph, parts: tuple[Part, ...]) -> list[str]:
    """Scores of linear parts, float64."""
    found = []
    for part in parts:
        assert isinstance(part.ranker, LinearRanker)
        features = graph.cast(add_transforms(graph, part.transforms), "float64")
        weights = (part.factor * part.ranker.coefficients_).reshape(-1, 1)
        found.append(graph.add("MatMul", features, graph.constant(weights)))
    return found


def _nets(graph: Graph, parts: tuple[Part, ...]) -> list[str]:
    """Scores of nets, float64."""
    found = []
    for part in parts:
        features = add_transforms(graph, part.transforms)
        for net in nets_of((part,)):
            scores = graph.cast(add_net(graph, net, features), "float64")
            found.append(graph.add("Mul", scores, graph.constant(np.float64(net.factor))))
    return found
