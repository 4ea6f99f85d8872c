"""Worked cases for each objective, where the file with them is at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from plackett.objectives import Stochastic, most_violated, objective
from plackett.objectives.conditional.losses import log_z

VECTORS = Path(
    os.environ.get("PLACKETT_VECTORS", Path(__file__).resolve().parents[3] / "shared" / "spec" / "vectors.json")
)

SIMPLE = {
    "cross_entropy": ("crossentropy", {}),
    "approx_ndcg": ("approxndcg", {"eta": "eta"}),
    "lambdamart": ("lambdarank", {"sigma": "sigma", "score_norm": "score_norm", "hess_factor": "hess_factor"}),
    "listnet": ("listnet", {}),
    "xendcg": ("xendcg", {"epsilon": "epsilon"}),
    "urank": ("urank", {}),
    "urank_window": ("urank", {"window": "window"}),
    "umart": (
        "umart",
        {"window": "window", "sigma": "sigma", "score_norm": "score_norm", "hess_factor": "hess_factor"},
    ),
    "ranknet": ("ranknet", {"sigma": "sigma"}),
    "listmle": ("listmle", {}),
    "plistmle": ("plistmle", {}),
    "mdprank": ("mdprank", {"gamma": "gamma", "discount": "reward_discount"}),
    "lambdaloss_ndcg1": ("lambdaloss", {"scheme": "=ndcg1", "sigma": "sigma", "mu": "mu"}),
    "lambdaloss_ndcg2": ("lambdaloss", {"scheme": "=ndcg2", "sigma": "sigma", "mu": "mu"}),
    "lambdaloss_ndcg2pp": ("lambdaloss", {"scheme": "=ndcg2++", "sigma": "sigma", "mu": "mu"}),
    "lambdaloss_lambdarank": ("lambdaloss", {"scheme": "=lambdarank", "sigma": "sigma", "mu": "mu"}),
    "softrank": ("softrank", {"sigma": "sigma_s"}),
    "ranksvm_hinge": ("ranksvm", {}),
    "ranksvm_hinge_sq": ("ranksvm", {"squared": "=1"}),
    "rankboost_exp": ("rankboost", {}),
    "boltzrank": ("boltzrank", {"mix": "lambda"}),
}


def _cases(family: str):
    if not VECTORS.exists():
        pytest.skip(f"no worked cases in {VECTORS}")
    return json.loads(VECTORS.read_text())["objectives"][family]


def _parameters(mapping, inputs):
    return {
        ours: (bool(int(key[1:])) if ours == "squared" else key[1:]) if key.startswith("=") else inputs[key]
        for ours, key in mapping.items()
    }


def _explicit(family: str, inputs):
    if family.startswith("xendcg"):
        return {"gamma": inputs["gamma"]}
    if family in ("listmle", "plistmle"):
        return {"order": inputs["permutation"]}
    if family == "mdprank":
        return {"order": inputs["episode"]}
    if family == "boltzrank":
        return {"permutations": [np.array(inputs["permutations_best_first"])]}
    return None


def _assert_agrees(found, expected) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


def _check(derivatives, expected) -> None:
    if expected.get("loss") is not None:
        _assert_agrees(derivatives.values[0], expected["loss"])
    _assert_agrees(derivatives.gradient, expected["grad"])
    if expected.get("hess_diag") is not None:
        _assert_agrees(derivatives.curvature, expected["hess_diag"])


@pytest.mark.parametrize("family", SIMPLE)
def test_worked_cases(family: str) -> None:
    name, mapping = SIMPLE[family]
    for case in _cases(family):
        i = case["inputs"]
        result = objective(name, **_parameters(mapping, i))
        values = result.evaluate(i["scores"], i["labels"], [0, len(i["scores"])], draws=_explicit(family, i))
        _check(values, case["outputs"])


@pytest.mark.parametrize(("family", "name"), [("xendcg_newton3", "xendcg"), ("listnet_newton3", "listnet")])
def test_worked_cases_of_newton(family: str, name: str) -> None:
    for case in _cases(family):
        i = case["inputs"]
        result = objective(name, epsilon=i["epsilon"])
        actual = result.newton(i["scores"], i["labels"], [0, len(i["scores"])], draws=_explicit(family, i))
        _check(actual, case["outputs"])


@pytest.mark.parametrize(
    ("family", "name", "mapping"),
    [
        ("E_cross_entropy", "crossentropy", {}),
        ("E_approx_ndcg", "approxndcg", {"eta": "eta"}),
        ("E_lambdamart", "lambdarank", {"sigma": "sigma"}),
    ],
)
def test_worked_cases_of_stochastic(family: str, name: str, mapping) -> None:
    for case in _cases(family):
        i = case["inputs"]
        inner = objective(name, **_parameters(mapping, i))
        result = Stochastic(inner, samples=len(i["U"]), beta=i["beta"])
        values = result.evaluate(i["scores"], i["labels"], [0, len(i["scores"])], draws={"uniform": i["U"]})
        _check(values, case["outputs"])


@pytest.mark.parametrize(
    ("family", "stem", "sign"),
    [
        ("B_mle_closed", "mle", 1.0),
        ("B_expgain_auc_closed", "expgain-auc", -1.0),
        ("B_convexloss_auc_closed", "convexloss-auc", 1.0),
        ("B_sampled_L1", "mle", 1.0),
        ("B_sampled_L2", "l2", 1.0),
        ("B_sampled_L3", "l3", 1.0),
        ("B_sampled_convex", "convexloss", 1.0),
        ("B_sampled_expgain", "expgain", -1.0),
    ],
)
def test_worked_cases_of_conditional_models(family: str, stem: str, sign: float) -> None:
    for case in _cases(family):
        i, expected = case["inputs"], case["outputs"]
        X, w = np.array(i["features"]), np.array(i["w"])
        options, draws, name = {"space": "cube"}, None, stem
        if "samples" in i:
            options, draws = {"space": "sampled"}, {"rankings": [np.array(i["samples"])]}
            if stem != "mle":
                name = f"{stem}-{i['gain']}"
                if i["gain"] == "ndcg":
                    options |= {"cutoff": i["ndcg_k"], "discount": i["ndcg_discount"]}
        result = objective(name, **options).evaluate(X @ w, i["labels"], [0, len(X)], draws=draws)
        _assert_agrees(sign * result.values[0], expected["value"])
        _assert_agrees(sign * result.gradient, expected["grad_scores"])
        _assert_agrees(sign * (X.T @ result.gradient), expected["grad_w"])


def test_worked_cases_of_the_normalizer() -> None:
    for case in _cases("B_logZ"):
        i = case["inputs"]
        scores = np.array(i["features"]) @ np.array(i["w"])
        _assert_agrees(log_z(scores, i["labels"]), case["outputs"]["value"])


def test_worked_cases_of_loss_augmented_inference() -> None:
    for case in _cases("svmmap_loss_augmented"):
        i, expected = case["inputs"], case["outputs"]
        result = most_violated(i["scores"], i["labels"], scale=i["scale"])
        _assert_agrees(result.value, expected["value"])
        assert list(result.goods_above) == expected["goods_above_each_bad_by_desc_score"]
