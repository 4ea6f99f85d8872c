r"""The JSON of LightGBM's ``dump_model``, which Vespa reads.

Vespa's reader differs from LightGBM in three ways, and the file is written so that both agree:

- it decides :math:`x < t` where LightGBM decides :math:`x \le t`: each threshold is put strictly
  between two float32 numbers, where both say the same for float32 features;
- it looks at ``default_left`` alone for NaN, LightGBM also at ``missing_type``: every node says
  ``NaN`` and where it goes;
- it stops at a file without ``objective`` or ``pandas_categorical``; both are there.

Categories it compares as texts, so splits on them are refused.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.serving.export.nested import nested
from plackett.serving.export.trees import LARGEST, Trees


def lightgbm_json(trees: Trees, names: tuple[str, ...]) -> str:
    """Trees as LightGBM dumps them."""
    trees = trees.with_base_as_tree()
    between = _between(trees)
    return json.dumps(
        {
            "name": "tree",
            "version": "v4",
            "num_class": 1,
            "num_tree_per_iteration": 1,
            "label_index": 0,
            "max_feature_idx": len(names) - 1,
            "objective": "lambdarank",  # scores go out as they are
            "average_output": False,
            "feature_names": list(names),
            "monotone_constraints": [],
            "feature_infos": {},
            "tree_info": [_tree(trees, between, tree) for tree in range(trees.n_trees)],
            "feature_importances": {},
            "pandas_categorical": [],
        }
    )


def _tree(trees: Trees, between: NDArray[np.float64], tree: int) -> dict[str, Any]:
    first, first_leaf = int(trees.nodes[tree]), int(trees.leaves[tree])

    def leaf(place: int, depth: int) -> dict[str, Any]:  # noqa: ARG001 - one signature
        return {"leaf_index": place - first_leaf, "leaf_value": float(trees.values[place])}

    def split(node: int, depth: int, left: Any, right: Any) -> dict[str, Any]:  # noqa: ARG001
        return {
            **_UNKNOWN,
            "split_index": node - first,
            "split_feature": int(trees.feature[node]),
            "threshold": float(between[node]),
            "decision_type": "<=",
            "default_left": bool(trees.nan_left[node]),
            "missing_type": "NaN",
            "left_child": left,
            "right_child": right,
        }

    structure = nested(trees, tree, leaf=leaf, split=split)
    size = int(trees.leaves[tree + 1]) - first_leaf
    about = {"tree_index": tree, "num_leaves": size, "num_cat": 0, "shrinkage": 1}
    return {**about, "tree_structure": structure}


_UNKNOWN = {"split_gain": 0, "internal_value": 0, "internal_weight": 0, "internal_count": 0}
"""What only the trainer knew."""


def _between(trees: Trees) -> NDArray[np.float64]:
    """Numbers halfway between each threshold and the next float32."""
    with np.errstate(over="ignore"):
        above = np.minimum(np.nextafter(trees.threshold, np.float32(np.inf)), LARGEST)
    return (trees.threshold.astype(np.float64) + above.astype(np.float64)) / 2.0
