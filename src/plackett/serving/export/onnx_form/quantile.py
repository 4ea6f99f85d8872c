r"""The map of a feature to its level among quantiles, in ONNX.

A tree per feature finds the segment between two knots that a value is in; tables then give the
segment's level, knot, width and rise:

.. math:: \ell + \frac{x - k}{w}\, r.

Segments are whole numbers, which the float32 results of the tree operator hold exactly; the tables
are float64.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from plackett.base.ragged import from_sizes
from plackett.data.transforms import FittedQuantile
from plackett.serving.export.onnx_form.graph import Graph
from plackett.serving.export.onnx_form.tree_operator import add_operator


def add_quantile(graph: Graph, transform: FittedQuantile, features: str) -> str:
    """Levels of features, float64."""
    starts = from_sizes(transform.sizes)
    knots = [transform.knots[a:b] for a, b in pairwise(starts)]
    levels = [transform.levels[a:b] for a, b in pairwise(starts)]
    wide = graph.cast(features, "float64")
    segment = graph.cast(_add_segments(graph, knots, wide), "int64")
    first = from_sizes([len(each) + 1 for each in knots])[:-1]
    row = graph.add("Add", segment, graph.constant(first))
    tables = np.concatenate([_table(k, v) for k, v in zip(knots, levels, strict=True)])
    level, knot, width, rise = (
        graph.add("Gather", graph.constant(np.ascontiguousarray(column)), row)
        for column in tables.T
    )
    share = graph.add("Div", graph.add("Sub", wide, knot), width)
    return graph.add("Add", level, graph.add("Mul", share, rise))


def _table(knots: NDArray[np.float64], levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Level, knot, width and rise of each segment; flat before the first knot and after the last.

    A feature without knots was constant in train: one flat segment at 0.
    """
    table = np.zeros((len(knots) + 1, 4))
    table[:, 2] = 1.0
    if len(knots):
        table[0, 0], table[-1, 0] = levels[0], levels[-1]
        table[1:-1] = np.stack([levels[:-1], knots[:-1], np.diff(knots), np.diff(levels)], axis=1)
    return table


def _add_segments(graph: Graph, knots: list[NDArray[np.float64]], rows: str) -> str:
    """The segment of each value of each feature, by a balanced tree over the knots."""
    listed = []
    for j, own in enumerate(knots):
        for i, (first, last, *children) in enumerate(_balanced(len(own))):
            asked = 0.0 if first == last else float(own[(first + last) // 2])
            listed.append((j, i, *children, first, first == last, asked))
    feature, number, left, right, segment, leaf, knot = map(np.array, zip(*listed, strict=True))
    attributes = {
        "nodes_treeids": feature,
        "nodes_nodeids": number,
        "nodes_featureids": feature,
        "nodes_truenodeids": left,
        "nodes_falsenodeids": right,
        "nodes_missing_value_tracks_true": np.zeros(len(feature), np.int64),
    }
    modes = ["LEAF" if is_leaf else "BRANCH_LT" for is_leaf in leaf]
    targets = (feature[leaf], number[leaf], feature[leaf], segment[leaf].astype(np.float64))
    return add_operator(graph, rows, attributes, modes, knot, targets, n_targets=len(knots))


def _balanced(n_knots: int) -> list[tuple[int, int, int, int]]:
    """Nodes of a search tree over segments 0 to n: first and last segment, children's numbers.

    A node of segments low to high asks whether x lies below the knot in their middle.
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
