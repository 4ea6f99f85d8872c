"""Damaged and hostile files: refused with a DataError, whatever was done to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from hypothesis import given, settings, strategies as st

from plackett.base.errors import DataError
from plackett.models.ensembles import Ensemble, read_lightgbm, read_xgboost


@cache
def lightgbm_text() -> bytes:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 3)).astype(np.float32)
    features[:, 2] = rng.integers(0, 40, 300)
    target = features[:, 0] + (features[:, 2] % 3 == 0)
    settings = {"verbosity": -1, "num_leaves": 6, "min_data_per_group": 1, "cat_smooth": 1}
    training = lightgbm.Dataset(features, target, categorical_feature=[2], params=settings)
    text = lightgbm.train(settings, training, 3).model_to_string()
    assert "cat_threshold" in text
    return text[: text.index("\nparameters:")].encode()


@cache
def xgboost_file(form: str) -> bytes:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 3)).astype(np.float32)
    features[:, 2] = rng.integers(0, 40, 300)
    target = features[:, 0] + (features[:, 2] % 3 == 0)
    training = xgboost.DMatrix(features, target, feature_types=["q", "q", "c"], enable_categorical=True)
    settings = {"max_depth": 3, "max_cat_to_onehot": 1, "nthread": 1}
    return bytes(xgboost.train(settings, training, 2).save_raw(form))


FILES: dict[str, tuple[Callable[[bytes], Ensemble], Callable[[], bytes]]] = {
    "lightgbm": (read_lightgbm, lightgbm_text),
    "xgboost json": (read_xgboost, lambda: xgboost_file("json")),
    "xgboost ubj": (read_xgboost, lambda: xgboost_file("ubj")),
}
# What numbers and structure are made of: replacing bytes by these changes more than noise would.
TELLING = b'0123456789-+.eE ,=[]{}"\n_naifNI\x00\xff'


def assert_accepted_or_refused(read: Callable[[bytes], Ensemble], damaged: bytes) -> None:
    """Whatever is accepted can be scored; whatever is not raises a DataError."""
    try:
        ensemble = read(damaged)
    except DataError:
        return
    if ensemble.n_features < 1000:
        scores = ensemble.predict(np.full((7, ensemble.n_features), 0.5, np.float32))
        assert scores.shape == (7,)


@pytest.mark.parametrize("kind", FILES)
@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_changed_bytes_are_refused_or_still_a_model(kind: str, data: st.DataObject) -> None:
    read, whole = FILES[kind]
    damaged = bytearray(whole())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        how = data.draw(st.sampled_from(["replace", "insert", "delete"]))
        new = data.draw(st.one_of(st.sampled_from(TELLING), st.integers(0, 255)))
        if how == "replace":
            damaged[at] = new
        elif how == "insert":
            damaged.insert(at, new)
        else:
            del damaged[at]
    assert_accepted_or_refused(read, bytes(damaged))


@pytest.mark.parametrize("kind", FILES)
@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_moved_and_repeated_parts_are_refused_or_still_a_model(kind: str, data: st.DataObject) -> None:
    read, whole = FILES[kind]
    original = whole()
    a, b, c = (data.draw(st.integers(0, len(original))) for _ in range(3))
    assert_accepted_or_refused(read, original[:c] + original[min(a, b) : max(a, b)] + original[c:])


@pytest.mark.parametrize("kind", ["xgboost json", "xgboost ubj"])
def test_a_file_cut_anywhere_is_refused(kind: str) -> None:
    read, whole = FILES[kind]
    original = whole()
    for end in range(0, len(original) - 1, 37):
        with pytest.raises(DataError):
            read(original[:end])


def test_a_model_text_cut_before_its_end_is_refused() -> None:
    original = lightgbm_text()
    for end in range(0, original.index(b"end of trees"), 37):
        with pytest.raises(DataError):
            read_lightgbm(original[:end])


def replaced(line: str, new: str) -> str:
    """The model text with the first line that begins so replaced."""
    text = lightgbm_text().decode()
    start = text.index(f"\n{line}") + 1
    return text[:start] + new + text[text.index("\n", start) :]


@pytest.mark.parametrize(
    ("line", "new", "reason"),
    [
        ("version=", "version=v9", "version 'v9'; known are"),
        ("feature_names=", "feature_names=a b", "max_feature_idx is 2 with 2 feature names"),
        ("max_feature_idx=", "max_feature_idx=999999999999", "is not between"),
        ("tree_sizes=", "tree_sizes=1 2", "the header lists 2 trees, the text has 3"),
        ("Tree=1", "Tree=7", "tree 1: expected 'Tree=1', found 'Tree=7'"),
        ("num_leaves=", "num_leaves=1000000000", r"num_leaves is \[1000000000\], with 6"),
        ("left_child=", "left_child=1 2 3 4 5 6 7", "left has 7 entries for 6 leaves"),
        ("left_child=", "left_child=0 2 3 -1 -2", "tree 0"),
        ("left_child=", "left_child=99 2 3 -1 -2", "tree 0, node 0: its left child is not"),
        ("left_child=", "", "tree 0 has no line 'left_child'"),
        ("leaf_value=", "leaf_value=1 2 3 nan 5 6", "tree 0, leaf 3: leaf values must be finite"),
        ("leaf_value=", "leaf_value=1 2 3 1_0 5 6", "leaf_value: '1_0' is not a number"),
        ("decision_type=", "decision_type=2 2 2 2 15", "tree 0, node 4: unknown decision type"),
        ("decision_type=", "decision_type=2 2 2 2 700", "700 is not between 0 and 255"),
        ("split_feature=", "split_feature=0 0 3 0 0", "node 2: split features must be 0 to 2"),
        ("is_linear=", "is_linear=1", "linear models at its leaves"),
        ("cat_boundaries=", "cat_boundaries=0 900000", "offsets of its sets must rise|does not"),
    ],
)
def test_what_is_wrong_with_a_model_text_is_said(line: str, new: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        read_lightgbm(replaced(line, new))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "first line must be 'tree'"),
        ("tree\nversion=v4\n", "no line 'end of trees'"),
        (b"tree\n\xff", "not text in UTF-8"),
    ],
)
def test_other_files_are_no_model_text(text: Any, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        read_lightgbm(text)


@pytest.mark.parametrize("text", ["", "[]", "1", "{}", "[" * 100_000, '{"learner": 3}', b"{L\xff" + b"\xff" * 30])
def test_other_files_are_no_model_of_xgboost(text: Any) -> None:
    with pytest.raises(DataError):
        read_xgboost(text)


def _tree(**changes: Any) -> str:
    model = json.loads(xgboost_file("json"))
    model["learner"]["gradient_booster"]["model"]["trees"][0].update(changes)
    return json.dumps(model)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"left_children": [0]}, "tree 0: 1 left children"),
        ({"split_conditions": []}, "split_conditions has 0 entries"),
        ({"split_conditions": ["1"]}, "not a list of numbers"),
        ({"left_children": None}, "no 'left_children', or one of the wrong type"),
        ({"split_indices": [1e300]}, "not a list of numbers of the right kind"),
        ({"categories": [2**40]}, "categories must be"),
        ({"categories_nodes": [], "categories_segments": [], "categories_sizes": []}, "without a"),
        ({"tree_param": {"size_leaf_vector": "3"}}, "vectors at its leaves"),
    ],
)
def test_what_is_wrong_with_a_tree_of_xgboost_is_said(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        read_xgboost(_tree(**changes))


def test_loops_in_a_tree_of_xgboost_are_refused() -> None:
    model = json.loads(xgboost_file("json"))
    tree = model["learner"]["gradient_booster"]["model"]["trees"][1]
    tree["left_children"][1] = 0
    with pytest.raises(DataError, match="tree 1: a node has several parents"):
        read_xgboost(json.dumps(model))
