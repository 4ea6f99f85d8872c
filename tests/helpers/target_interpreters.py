"""What each target makes of a file, written from its documentation, document by document.

Nothing here is shared with the code under test. Java's ``float`` is float32: every operation
rounds.
"""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ElementTree

import numpy as np

f32 = np.float32


def vespa_lightgbm(text, features):
    """Vespa's LightGBMParser: doubles; ``x < t``, or ``!(x >= t)`` where NaN goes left."""
    model = json.loads(text)
    assert model["objective"] is not None
    assert model["pandas_categorical"] is not None

    def score(node, row):
        while "leaf_value" not in node:
            x, t = float(row[node["split_feature"]]), float(node["threshold"])
            left = not x >= t if node["default_left"] else x < t
            node = node["left_child" if left else "right_child"]
        return node["leaf_value"]

    trees = [tree["tree_structure"] for tree in model["tree_info"]]
    return np.array([sum(score(tree, row) for tree in trees) for row in features])


def lightgbm_json(text, features):
    """LightGBM's own meaning of its dump: doubles, ``x <= t``, NaN by missing_type."""
    model = json.loads(text)

    def score(node, row):
        while "leaf_value" not in node:
            x = float(row[node["split_feature"]])
            if math.isnan(x) and node["missing_type"] == "NaN":
                left = node["default_left"]
            else:
                left = (0.0 if math.isnan(x) else x) <= node["threshold"]
            node = node["left_child" if left else "right_child"]
        return node["leaf_value"]

    trees = [tree["tree_structure"] for tree in model["tree_info"]]
    return np.array([sum(score(tree, row) for tree in trees) for row in features])


def plugin_xgboost_dump(text, features, names):
    """``model/xgboost+json``: strictly below goes to ``yes``; absent features are NaN."""
    trees = json.loads(text)
    place = {name: j for j, name in enumerate(names)}

    def score(node, row):
        while "leaf" not in node:
            yes, no = node["children"]
            assert (node["yes"], node["no"]) == (yes["nodeid"], no["nodeid"])
            assert node["missing"] in (node["yes"], node["no"])
            assert isinstance(node["depth"], int)
            x = f32(row[place[node["split"]]])
            if np.isnan(x):
                node = yes if node["missing"] == node["yes"] else no
            else:
                node = yes if f32(node["split_condition"]) > x else no
        return f32(node["leaf"])

    return _sum_single(trees, score, features)


def opensearch_raw(text, features, names):
    """``model/xgboost+json+raw``: leaves are read from base_weights, base_score is ignored."""
    learner = json.loads(text)["learner"]
    assert learner["objective"]["name"] in ("rank:pairwise", "rank:ndcg", "rank:map", "reg:linear")
    assert learner["feature_types"] == ["float"] * len(names)
    place = [names.index(name) for name in learner["feature_names"]]

    def score(tree, row):
        node = 0
        while tree["left_children"][node] != -1 and tree["right_children"][node] != -1:
            x = f32(row[place[tree["split_indices"][node]]])
            left = tree["default_left"][node] == 1 if np.isnan(x) else f32(tree["split_conditions"][node]) > x
            node = tree["left_children" if left else "right_children"][node]
        return f32(tree["base_weights"][node])

    return _sum_single(learner["gradient_booster"]["model"]["trees"], score, features)


def ranklib(text, features):
    """RankLib: lines with # are dropped, ends of lines too; children of a tag go by their place."""
    lines = text.splitlines()
    assert lines[0] == "## LambdaMART"
    joined = "".join(line.strip() for line in lines if not line.startswith("#"))
    trees = list(ElementTree.fromstring(joined).iter("tree"))

    def score(tree, row):
        assert tree.text is None
        node = tree[0]
        while node[0].tag == "feature":
            x = f32(row[int(node[0].text) - 1])
            x = f32(0) if np.isnan(x) else x
            node = node[2] if x <= f32(node[1].text.strip()) else node[3]
        return float(f32(node[0].text.strip())) * float(f32(tree.get("weight")))

    totals = []
    for row in features:
        total = f32(0)
        for tree in trees:
            total = f32(float(total) + score(tree, row))
        totals.append(float(total))
    return np.array(totals)


def solr(text, features, names):
    """Solr's three models. Absent features are NaN here, and 0 or NaN to Solr."""
    model = json.loads(text)
    kind = model["class"].removeprefix("org.apache.solr.ltr.model.")
    assert [feature["name"] for feature in model["features"]] == list(names)
    score = {"MultipleAdditiveTreesModel": _solr_trees, "LinearModel": _solr_linear, "NeuralNetworkModel": _solr_net}[
        kind
    ](model["params"], list(names))
    told = model["params"].get("isNullSameAsZero", True) is False
    out = []
    for row in features:
        values = [f32(x) if told or not np.isnan(x) else f32(0) for x in row]
        values = [_solr_normalised(f, x) for f, x in zip(model["features"], values, strict=True)]
        out.append(float(score(values)))
    return np.array(out)


def _solr_normalised(feature, x):
    if "norm" not in feature:
        return x
    norm = feature["norm"]
    assert norm["class"] == "org.apache.solr.ltr.norm.StandardNormalizer"
    average, deviation = f32(norm["params"]["avg"]), f32(norm["params"]["std"])
    assert deviation > 0
    return (x - average) / deviation


def _solr_trees(params, names):
    def tree_score(node, values):
        while "feature" in node:
            x = values[names.index(node["feature"])]
            threshold = f32(node["threshold"]) + f32(1e-6)
            if x <= threshold:
                node = node["left"]
            elif x > threshold:
                node = node["right"]
            else:
                node = node["left" if node["missing"] == "left" else "right"]
        return f32(node["value"])

    def score(values):
        total = f32(0)
        for tree in params["trees"]:
            total += f32(tree["weight"]) * tree_score(tree["root"], values)
        return total

    return score


def _solr_linear(params, names):
    weights = [f32(params["weights"][name]) for name in names]

    def score(values):
        total = f32(0)
        for x, weight in zip(values, weights, strict=True):
            total += x * weight
        return total

    return score


def _solr_net(params, names):  # noqa: ARG001 - one signature
    activations = {
        "identity": lambda x: x,
        "relu": lambda x: f32(0) if x < 0 else x,
        "sigmoid": lambda x: f32(1 / (1 + math.exp(-float(x)))),
        "tanh": lambda x: f32(math.tanh(float(x))),
    }

    def score(values):
        for layer in params["layers"]:
            # Solr casts every entry to Double: whole numbers without a point would fail.
            assert all(isinstance(w, float) for row in layer["matrix"] for w in row)
            assert all(isinstance(b, float) for b in layer["bias"])
            inputs, values = values, []
            for row, bias in zip(layer["matrix"], layer["bias"], strict=True):
                total = f32(bias)
                for weight, x in zip(row, inputs, strict=True):
                    total += f32(weight) * x
                values.append(activations[layer["activation"]](total))
        (actual,) = values
        return actual

    return score


def plugin_linear(text, features, names):
    """``model/linear`` with feature_normalizers; absent features are 0 before them."""
    body = json.loads(text)["model"]
    assert body["name"]
    model = body["model"]
    assert model["type"] == "model/linear"
    weights = json.loads(model["definition"])
    normalisers = model.get("feature_normalizers", {})
    out = []
    for row in features:
        total = f32(0)
        for name, x in zip(names, row, strict=True):
            value = f32(0) if np.isnan(x) else f32(x)
            if name in normalisers:
                inputs = normalisers[name]["standard"]
                value = (value - f32(inputs["mean"])) / f32(inputs["standard_deviation"])
            total += f32(weights[name]) * value
        out.append(float(total))
    return np.array(out)


def _sum_single(trees, score, features):
    out = []
    for row in features:
        total = f32(0)
        for tree in trees:
            total += score(tree, row)
        out.append(float(total))
    return np.array(out)
