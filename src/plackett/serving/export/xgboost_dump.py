"""XGBoost's ``dump_model`` as JSON.

The learning-to-rank plugins of Elasticsearch and OpenSearch read it as ``model/xgboost+json``: a
list of trees. A split sends values below ``split_condition``, in float32, to the child ``yes``,
others to ``no``, and missing ones to ``missing``. There is no base score.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plackett.serving.export.encoding import to_json
from plackett.serving.export.nested import nested
from plackett.serving.export.trees import Trees
from plackett.serving.export.xgboost_model import Single, next_above


def xgboost_dump(trees: Trees, names: tuple[str, ...]) -> str:
    """Trees as XGBoost dumps them."""
    trees = trees.with_base_as_tree()
    conditions = next_above(trees.threshold)
    values = trees.values.astype(np.float32)
    return to_json([_tree(trees, tree, names, conditions, values) for tree in range(trees.n_trees)])


def _tree(
    trees: Trees, tree: int, names: tuple[str, ...], conditions: Single, values: Single
) -> dict[str, Any]:
    """Nodes are numbered as in the arrays, leaves after the inner ones."""
    first, first_leaf = int(trees.nodes[tree]), int(trees.leaves[tree])
    n_inner = int(trees.nodes[tree + 1]) - first

    def leaf(place: int, depth: int) -> dict[str, Any]:  # noqa: ARG001 - one signature
        return {"nodeid": n_inner + place - first_leaf, "leaf": float(values[place])}

    def split(node: int, depth: int, left: Any, right: Any) -> dict[str, Any]:
        yes, no = left["nodeid"], right["nodeid"]
        return {
            "nodeid": node - first,
            "depth": depth,
            "split": names[trees.feature[node]],
            "split_condition": float(conditions[node]),
            "yes": yes,
            "no": no,
            "missing": yes if trees.nan_left[node] else no,
            "children": [left, right],
        }

    return nested(trees, tree, leaf=leaf, split=split)
