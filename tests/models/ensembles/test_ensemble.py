from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from plackett.base.errors import DataError
from plackett.models.ensembles import Ensemble
from reference_trees import random_ensemble

# Two trees: a root with a leaf on the left and a node with two leaves on the right; and one leaf.
GOOD: dict[str, Any] = {
    "library": "lightgbm",
    "n_features": 3,
    "node_offsets": np.array([0, 2, 2]),
    "leaf_offsets": np.array([0, 3, 4]),
    "feature": np.array([0, 2], np.int32),
    "threshold": np.array([0.5, 0.0]),
    "decision": np.array([2, 1], np.uint8),
    "left": np.array([-1, -2], np.int32),
    "right": np.array([1, -3], np.int32),
    "category_set": np.array([-1, 0], np.int32),
    "leaf_values": np.array([1.0, 2.0, 3.0, 10.0]),
    "set_offsets": np.array([0, 1]),
    "sets": np.array([0b10], np.uint32),
}


def test_an_ensemble_written_by_hand_scores_as_read_off_its_arrays() -> None:
    features = np.array([[0.5, 0.0, 0.0], [0.6, 0.0, 1.0], [0.6, 0.0, 0.0]], np.float32)
    np.testing.assert_array_equal(Ensemble(**GOOD).predict(features), [11.0, 12.0, 13.0])


def test_arrays_cannot_be_written_afterwards() -> None:
    ensemble = Ensemble(**GOOD)
    with pytest.raises(ValueError, match="read-only"):
        ensemble.left[0] = 7
    ours = GOOD["left"]
    assert ours.flags.writeable


def test_the_text_of_an_ensemble_says_its_size() -> None:
    text = "Ensemble(lightgbm, 2 trees of up to 3 leaves, 3 features)"
    assert repr(Ensemble(**GOOD)) == text


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"library": "forest"}, "library 'forest'; known are lightgbm, xgboost, catboost"),
        ({"n_features": -1}, "-1 features"),
        ({"n_features": 2}, "tree 0, node 1: split features must be 0 to 1, got 2"),
        ({"feature_names": ("a",)}, "1 feature names for 3 features"),
        ({"base_score": np.nan}, "base score nan"),
        ({"feature": np.array([0, 2])}, "feature must be a one-dimensional array of int32"),
        ({"left": np.array([-1], np.int32)}, "left has 1 entries for 2 inner nodes"),
        ({"node_offsets": np.array([0, 2, 1])}, "node_offsets must rise from 0 to 2"),
        ({"leaf_offsets": np.array([0, 4])}, "node_offsets and leaf_offsets must have the same length"),
        ({"node_offsets": np.array([0, 1, 2])}, "tree 0 has 1 inner nodes and 3 leaves"),
        ({"threshold": np.array([np.nan, 0])}, "tree 0, node 0: thresholds must be numbers"),
        ({"decision": np.array([12, 1], np.uint8)}, "tree 0, node 0: unknown decision type"),
        ({"decision": np.array([18, 1], np.uint8)}, "tree 0, node 0: unknown decision type"),
        ({"category_set": np.array([-1, 1], np.int32)}, "node 1: sets of categories must be 0"),
        ({"category_set": np.array([0, 0], np.int32)}, "node 0: a node without categories"),
        ({"left": np.array([-5, -2], np.int32)}, "tree 0, node 0: its left child is not"),
        ({"right": np.array([2, -3], np.int32)}, "tree 0, node 0: its right child is not"),
        ({"right": np.array([-3, -3], np.int32)}, "tree 0, node 1: every node of a tree"),
        ({"right": np.array([1, 0], np.int32)}, "tree 0, node 0: every node of a tree"),
        ({"left": np.array([-1, -1], np.int32)}, "tree 0, leaf 0: every node of a tree"),
        ({"leaf_values": np.array([1, 2, 3, np.inf])}, "tree 1, leaf 0: leaf values must be"),
        ({"set_offsets": np.array([0, 2])}, "set_offsets must rise from 0 to 1"),
    ],
)
def test_invalid_ensembles_are_refused_with_their_tree_and_node(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        Ensemble(**{**GOOD, **changes})


def test_nodes_that_reach_only_each_other_are_refused() -> None:
    loop = {
        "node_offsets": np.array([0, 3]),
        "leaf_offsets": np.array([0, 4]),
        "feature": np.zeros(3, np.int32),
        "threshold": np.zeros(3),
        "decision": np.zeros(3, np.uint8),
        "category_set": np.full(3, -1, np.int32),
        "left": np.array([-1, 2, 1], np.int32),
        "right": np.array([-2, -3, -4], np.int32),
    }
    with pytest.raises(DataError, match="tree 0, node 1: every node of a tree"):
        Ensemble(**{**GOOD, **loop})


def test_any_change_of_a_child_is_noticed() -> None:
    ensemble = random_ensemble(3, [9, 7])
    arrays = {field.name: getattr(ensemble, field.name) for field in fields(ensemble)}
    for side in ("left", "right"):
        for at, child in enumerate(arrays[side].tolist()):
            for other in range(-10, 10):
                if other != child:
                    changed = arrays[side].copy()
                    changed[at] = other
                    with pytest.raises(DataError):
                        Ensemble(**{**arrays, side: changed})


def test_merged_ensembles_score_the_weighted_sum() -> None:
    import lightgbm

    from plackett.models.ensembles import read_lightgbm
    from plackett.models.ensembles.ensemble import merge

    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4)).astype(np.float32)
    X[:, 3] = rng.integers(0, 40, 400)
    y = X[:, 0] + (X[:, 3] % 3)
    settings = {"verbose": -1, "num_threads": 1, "num_leaves": 7, "min_data_in_leaf": 5}
    ensembles = [
        read_lightgbm(
            lightgbm.train(
                settings | {"seed": seed, "feature_fraction": 0.7},
                lightgbm.Dataset(X, y, categorical_feature=[3]),
                num_boost_round=5,
            ).model_to_string()
        )
        for seed in (1, 2)
    ]
    assert sum(len(e.set_offsets) - 1 for e in ensembles) > 0
    merged = merge(list(zip(ensembles, (0.25, 2.0), strict=True)))
    assert merged.n_trees == 10
    expected = 0.25 * ensembles[0].predict(X) + 2.0 * ensembles[1].predict(X)
    assert np.allclose(merged.predict(X), expected, rtol=0, atol=1e-12)
