r"""ONNX: one graph from raw features to scores, transforms included.

The model has the input ``features`` and the output ``scores``, both float32. Trees are a
TreeEnsembleRegressor with float64 thresholds and leaves; nets are float32 as in PyTorch; transforms
are float64 inside and float32 between them, as in :mod:`plackett.data.transforms`.

The transform ``quantile`` maps a value to its level among knots. A tree per feature finds the segment between two knots
that contains the value; tables give the segment's level, knot, width and rise:

.. math:: \ell + \frac{x - k}{w}\, r.

Segments are whole numbers, which the float32 results of the tree operator hold exactly; the tables are float64.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial, reduce
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import UsageError, require
from plackett.base.ragged import offsets_from_sizes
from plackett.data.transforms import FittedImpute, FittedQuantile, FittedStandard, FittedTransform, Log1p
from plackett.models import BaseLinearRanker
from plackett.serving.export.formulas import Cell, Layer, find_nets
from plackett.serving.export.parts import ExportRequest, Part
from plackett.serving.export.trees import Trees

OPSET, ML_OPSET, IR_VERSION = 17, 3, 8
"""Supported since ONNX Runtime 1.12; search engines use newer versions."""
FEATURES, SCORES = "features", "scores"

_ELEMENTS = {"float32": 1, "int64": 7, "float64": 11}  # onnx.TensorProto's numbers


def onnx_model(request: ExportRequest) -> bytes:
    """Write a model; the names of features are in its properties."""
    graph, parts, names = Graph(), request.parts, request.names
    if request.kind == "trees":
        scores = add_trees(graph, request.trees)
    else:
        terms = [term for part in parts for term in _add_part(graph, part)]
        scores = graph.cast(reduce(partial(graph.add, "Add"), terms), "float32")
    properties = {"name": request.name, "feature_names": json.dumps(names)}
    return graph.serialize(scores, len(names), properties)


def _add_part(graph: Graph, part: Part) -> list[str]:
    """Add a linear model, or the nets of a ranker; return their scores, float64."""
    features = add_transforms(graph, part.transforms)
    if isinstance(part.ranker, BaseLinearRanker):
        weights = (part.factor * part.ranker.coefficients_).reshape(-1, 1)
        return [graph.add("MatMul", graph.cast(features, "float64"), graph.constant(weights))]
    scores = []
    for net in find_nets((part,)):
        value = features
        for layer in net.layers:
            value = add_layer(graph, layer, value)
        value = value if net.cell is None else _add_cell(graph, net.cell, value)
        scores.append(graph.add("Mul", graph.cast(value, "float64"), graph.constant(np.float64(net.factor))))
    return scores


class Graph:
    """A growing graph; each method adds an operation and returns the name of its result."""

    def __init__(self) -> None:
        require("onnx")
        import onnx

        self.onnx: Any = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operation: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operation."""
        result = f"{operation.lower()}_{len(self.nodes)}"
        node = self.onnx.helper.make_node(operation, list(inputs), [result], domain=domain, **attributes)
        self.nodes.append(node)
        return result

    def constant(self, values: NDArray[Any] | np.number[Any] | float) -> str:
        """Add a constant; numbers are float64 unless their type says otherwise."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(values, order="C"), name))
        return name

    def cast(self, name: str, dtype: str) -> str:
        """Convert to another type, given by its NumPy name."""
        return self.add("Cast", name, to=_ELEMENTS[dtype])

    def serialize(self, scores: str, n_features: int, properties: dict[str, str]) -> bytes:
        """Serialize the model whose result is ``scores``."""
        helper = self.onnx.helper
        self.nodes.append(helper.make_node("Identity", [scores], [SCORES]))
        single = _ELEMENTS["float32"]
        graph = helper.make_graph(
            self.nodes,
            "plackett",
            [helper.make_tensor_value_info(FEATURES, single, ["documents", n_features])],
            [helper.make_tensor_value_info(SCORES, single, ["documents", 1])],
            self.constants,
        )
        model = helper.make_model(
            graph,
            producer_name="plackett",
            ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)],
        )
        helper.set_model_props(model, properties)
        self.onnx.checker.check_model(model)
        return bytes(model.SerializeToString())


_PLAIN = {"relu": "Relu", "elu": "Elu", "tanh": "Tanh", "sigmoid": "Sigmoid"}


def add_layer(graph: Graph, layer: Layer, features: str) -> str:
    """Add a matrix, a bias and an activation."""
    matrix = graph.constant(layer.matrix.astype(np.float32))
    bias = graph.constant(layer.bias.astype(np.float32))
    product = graph.add("Gemm", features, matrix, bias, transB=1)
    return _add_activation(graph, layer.activation, product)


def _add_activation(graph: Graph, activation: str, value: str) -> str:
    if activation == "identity":
        return value
    if activation == "silu":
        return graph.add("Mul", value, graph.add("Sigmoid", value))
    if activation == "gelu":
        scaled = graph.add("Mul", value, graph.constant(np.float32(1.0 / sqrt(2.0))))
        one, half = graph.constant(np.float32(1.0)), graph.constant(np.float32(0.5))
        share = graph.add("Add", graph.add("Erf", scaled), one)
        return graph.add("Mul", graph.add("Mul", value, share), half)
    return graph.add(_PLAIN[activation], value)


def _add_cell(graph: Graph, cell: Cell, features: str) -> str:
    """Add one step from a state of zeros, with the gates in PyTorch's order."""
    width = cell.matrix.shape[1]

    def gate(place: int, *, with_state: bool = True) -> str:
        rows = slice(place * width, (place + 1) * width)
        bias = cell.bias[rows] + (cell.state_bias[rows] if with_state else 0.0)
        return add_layer(graph, Layer(cell.matrix[rows], bias, "identity"), features)

    if cell.kind == "rnn":
        state = graph.add("Tanh", gate(0))
    elif cell.kind == "lstm":  # gates: input, forget, candidate, output
        kept = graph.add("Mul", graph.add("Sigmoid", gate(0)), graph.add("Tanh", gate(2)))
        state = graph.add("Mul", graph.add("Sigmoid", gate(3)), graph.add("Tanh", kept))
    else:  # gru; gates: reset, update, candidate
        bias = graph.constant(cell.state_bias[2 * width :].astype(np.float32))
        reset = graph.add("Mul", graph.add("Sigmoid", gate(0)), bias)
        candidate = graph.add("Tanh", graph.add("Add", gate(2, with_state=False), reset))
        one = graph.constant(np.float32(1.0))
        share = graph.add("Sub", one, graph.add("Sigmoid", gate(1)))
        state = graph.add("Mul", share, candidate)
    if cell.both:
        state = graph.add("Concat", state, features, axis=1)
    return add_layer(graph, cell.last, state)


def add_trees(graph: Graph, trees: Trees) -> str:
    """Add trees on the raw features; return their scores, documents x 1, float32.

    Sums are float64; the operator's result is float32.
    """
    trees = trees.with_base_as_tree()
    n_inner, n_leaves = np.diff(trees.node_offsets), np.diff(trees.leaf_offsets)
    of_inner = np.repeat(np.arange(trees.n_trees), n_inner)
    of_leaf = np.repeat(np.arange(trees.n_trees), n_leaves)
    # Within a tree, inner nodes come first and leaves after them.
    inner_number = np.arange(len(of_inner)) - trees.node_offsets[of_inner]
    leaf_number = np.arange(len(of_leaf)) - trees.leaf_offsets[of_leaf] + n_inner[of_leaf]
    left, right = (np.where(child >= 0, child, n_inner[of_inner] + ~child) for child in (trees.left, trees.right))
    zeros = np.zeros(len(of_leaf), np.int64)
    nodes = {
        "treeids": np.concatenate([of_inner, of_leaf]),
        "nodeids": np.concatenate([inner_number, leaf_number]),
        "featureids": np.concatenate([trees.feature, zeros]),
        "truenodeids": np.concatenate([left, zeros]),
        "falsenodeids": np.concatenate([right, zeros]),
        "missing_value_tracks_true": np.concatenate([trees.nan_left, zeros]),
    }
    is_leaf = np.repeat([False, True], [len(of_inner), len(of_leaf)])
    values = np.concatenate([trees.threshold, trees.values])
    rows = graph.cast(FEATURES, "float64")
    return add_tree_operator(graph, rows, "BRANCH_LEQ", nodes, is_leaf, values, zeros)


def add_tree_operator(
    graph: Graph,
    rows: str,
    mode: str,
    nodes: dict[str, NDArray[Any]],
    is_leaf: NDArray[np.bool_],
    values: NDArray[np.float64],
    targets: NDArray[np.int64],
) -> str:
    """Add a TreeEnsembleRegressor; ``values`` are thresholds of nodes and weights of leaves, ``targets`` of leaves.

    Nodes are sorted by tree, which some runtimes require.
    """
    order = np.lexsort((nodes["nodeids"], nodes["treeids"]))
    nodes = {key: array[order].astype(np.int64) for key, array in nodes.items()}
    is_leaf, values = is_leaf[order], values[order].astype(np.float64)
    from_array = graph.onnx.numpy_helper.from_array
    return graph.add(
        "TreeEnsembleRegressor",
        rows,
        domain="ai.onnx.ml",
        n_targets=int(targets.max()) + 1,
        aggregate_function="SUM",
        post_transform="NONE",
        nodes_modes=["LEAF" if leaf else mode for leaf in is_leaf],
        nodes_values_as_tensor=from_array(np.where(is_leaf, 0.0, values), "values"),
        target_treeids=nodes["treeids"][is_leaf].tolist(),
        target_nodeids=nodes["nodeids"][is_leaf].tolist(),
        target_ids=targets.tolist(),
        target_weights_as_tensor=from_array(values[is_leaf], "values"),
        **{f"nodes_{key}": array.tolist() for key, array in nodes.items()},
    )


def add_quantile(graph: Graph, transform: FittedQuantile, features: str) -> str:
    """Add the map of features to levels, float64."""
    starts = offsets_from_sizes(transform.sizes)
    knots = [transform.knots[a:b] for a, b in pairwise(starts)]
    levels = [transform.levels[a:b] for a, b in pairwise(starts)]
    wide = graph.cast(features, "float64")
    segment = graph.cast(_add_segments(graph, knots, wide), "int64")
    first = offsets_from_sizes([len(of_feature) + 1 for of_feature in knots])[:-1]
    row = graph.add("Add", segment, graph.constant(first))
    tables = np.concatenate([_table(k, v) for k, v in zip(knots, levels, strict=True)])
    level, knot, width, rise = (
        graph.add("Gather", graph.constant(np.ascontiguousarray(column)), row) for column in tables.T
    )
    share = graph.add("Div", graph.add("Sub", wide, knot), width)
    return graph.add("Add", level, graph.add("Mul", share, rise))


def _table(knots: NDArray[np.float64], levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Level, knot, width and rise of each segment; flat before the first knot and after the last.

    A feature without knots was constant in the training data: it gets one flat segment at 0.
    """
    table = np.zeros((len(knots) + 1, 4))
    table[:, 2] = 1.0
    if len(knots):
        table[0, 0], table[-1, 0] = levels[0], levels[-1]
        table[1:-1] = np.stack([levels[:-1], knots[:-1], np.diff(knots), np.diff(levels)], axis=1)
    return table


def _add_segments(graph: Graph, knots: list[NDArray[np.float64]], rows: str) -> str:
    """Add a balanced tree over the knots of each feature, which finds the segment of a value."""
    nodes = []
    for j, feature_knots in enumerate(knots):
        for i, (first, last, *children) in enumerate(_search_tree(len(feature_knots))):
            value = first if first == last else float(feature_knots[(first + last) // 2])
            nodes.append((j, i, *children, first == last, value))
    feature, number, left, right, is_leaf, values = map(np.array, zip(*nodes, strict=True))
    attributes = {
        "treeids": feature,
        "nodeids": number,
        "featureids": feature,
        "truenodeids": left,
        "falsenodeids": right,
        "missing_value_tracks_true": np.zeros(len(feature), np.int64),
    }
    return add_tree_operator(graph, rows, "BRANCH_LT", attributes, is_leaf, values, feature[is_leaf])


def _search_tree(n_knots: int) -> list[tuple[int, int, int, int]]:
    """Nodes of a search tree over segments 0 to n: first and last segment, left and right child.

    A node of segments low to high tests whether x is below the knot in their middle.
    """
    nodes = [(0, n_knots, 0, 0)]
    at = 0
    while at < len(nodes):
        low, high, _, _ = nodes[at]
        if low < high:
            middle = (low + high) // 2
            nodes[at] = (low, high, len(nodes), len(nodes) + 1)
            nodes += [(low, middle, 0, 0), (middle + 1, high, 0, 0)]
        at += 1
    return nodes


_LARGEST = float(np.finfo(np.float32).max)


def add_transforms(graph: Graph, transforms: Sequence[FittedTransform]) -> str:
    """Add transforms; return the transformed features, float32."""
    features = FEATURES
    for transform in transforms:
        if isinstance(transform, FittedStandard):
            features = _add_standard(graph, transform, features)
        elif isinstance(transform, Log1p):
            features = _add_log1p(graph, transform, features)
        elif isinstance(transform, FittedImpute):
            fill = graph.constant(transform.fill.astype(np.float32))
            features = graph.add("Where", graph.add("IsNaN", features), fill, features)
        elif isinstance(transform, FittedQuantile):
            features = graph.cast(add_quantile(graph, transform, features), "float32")
        else:
            raise UsageError(f"the transform {transform.name!r} cannot be exported to ONNX.")
    return features


def _add_standard(graph: Graph, transform: FittedStandard, features: str) -> str:
    varies = transform.deviation > 0
    centered = graph.add("Sub", graph.cast(features, "float64"), graph.constant(transform.mean))
    # A constant feature becomes 0 times its difference: 0, or NaN if it is missing.
    kept = graph.add("Mul", centered, graph.constant(varies.astype(np.float64)))
    divisor = graph.constant(np.where(varies, transform.deviation, 1.0))
    value = graph.add("Div", kept, divisor)
    clipped = graph.add("Clip", value, graph.constant(-_LARGEST), graph.constant(_LARGEST))
    return graph.cast(clipped, "float32")


def _add_log1p(graph: Graph, transform: Log1p, features: str) -> str:
    r"""Add log1p, which ONNX lacks.

    With :math:`u = 1 + x` rounded, :math:`\log(1+x) = x \log(u) / (u - 1)` to the last bits, and x
    itself where u is 1 (Kahan).
    """
    wide, one = graph.cast(features, "float64"), graph.constant(1.0)
    size = graph.add("Abs", wide)
    u = graph.add("Add", size, one)
    is_one = graph.add("Equal", u, one)
    rest = graph.add("Where", is_one, one, graph.add("Sub", u, one))
    ratio = graph.add("Div", graph.add("Mul", size, graph.add("Log", u)), rest)
    value = graph.add("Where", is_one, size, ratio)
    if transform.clip is not None:
        value = graph.add("Min", value, graph.constant(float(transform.clip)))
    signed = graph.add("Mul", value, graph.add("Sign", wide))
    return graph.cast(signed, "float32")
