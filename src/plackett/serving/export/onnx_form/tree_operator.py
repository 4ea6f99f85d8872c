"""Trees as ONNX's TreeEnsembleRegressor, with thresholds and leaves in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.serving.export.onnx_form.graph import FEATURES, Graph
from plackett.serving.export.trees import Trees


def add_trees(graph: Graph, trees: Trees) -> str:
    """Scores of trees on the raw features, documents x 1, float32.

    Sums are float64; the operator's result is float32.
    """
    trees = trees.with_base_as_tree()
    n_inner, n_leaves = np.diff(trees.nodes), np.diff(trees.leaves)
    of_inner = np.repeat(np.arange(trees.n_trees), n_inner)
    of_leaf = np.repeat(np.arange(trees.n_trees), n_leaves)
    # Within a tree, inner nodes come first and leaves after them.
    inner_number = np.arange(len(of_inner)) - trees.nodes[of_inner]
    leaf_number = np.arange(len(of_leaf)) - trees.leaves[of_leaf] + n_inner[of_leaf]
    left, right = (
        np.where(child >= 0, child, n_inner[of_inner] + ~child)
        for child in (trees.left, trees.right)
    )
    none = np.zeros(len(of_leaf), np.int64)
    attributes = {
        "nodes_treeids": np.concatenate([of_inner, of_leaf]),
        "nodes_nodeids": np.concatenate([inner_number, leaf_number]),
        "nodes_featureids": np.concatenate([trees.feature, none]),
        "nodes_truenodeids": np.concatenate([left, none]),
        "nodes_falsenodeids": np.concatenate([right, none]),
        "nodes_missing_value_tracks_true": np.concatenate([trees.nan_left, none]),
    }
    modes = ["BRANCH_LEQ"] * len(of_inner) + ["LEAF"] * len(of_leaf)
    values = np.concatenate([trees.threshold.astype(np.float64), np.zeros(len(of_leaf))])
    targets = (of_leaf, leaf_number, np.zeros(len(of_leaf), np.int64), trees.values)
    rows = graph.cast(FEATURES, "float64")
    return add_operator(graph, rows, attributes, modes, values, targets, n_targets=1)


def add_operator(
    graph: Graph,
    rows: str,
    attributes: dict[str, NDArray[Any]],
    modes: list[str],
    values: NDArray[np.float64],
    targets: tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[np.float64]],
    *,
    n_targets: int,
) -> str:
    """Add a TreeEnsembleRegressor; targets are trees, nodes, targets and weights of leaves.

    Nodes are put in the order of their trees: some runtimes take that for granted.
    """
    order = np.lexsort((attributes["nodes_nodeids"], attributes["nodes_treeids"]))
    listed = {key: array[order].astype(np.int64).tolist() for key, array in attributes.items()}
    of_tree, of_node, of_target, weights = targets
    return graph.add(
        "TreeEnsembleRegressor",
        rows,
        domain="ai.onnx.ml",
        n_targets=n_targets,
        aggregate_function="SUM",
        post_transform="NONE",
        nodes_modes=[modes[i] for i in order],
        nodes_values_as_tensor=_tensor(values[order]),
        target_treeids=of_tree.tolist(),
        target_nodeids=of_node.tolist(),
        target_ids=of_target.tolist(),
        target_weights_as_tensor=_tensor(weights),
        **listed,
    )


def _tensor(values: NDArray[np.float64]) -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(np.ascontiguousarray(values, np.float64), "values")
