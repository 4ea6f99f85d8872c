from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from plackett import LinearRanker, TreeRanker, synthetic
from plackett.base.errors import UsageError
from plackett.objectives import objective
from references import pointwise
from references.autograd import hessian_diagonal, value_and_gradient
from references.random_lists import one_list

pytestmark = pytest.mark.kernels

CASES = [
    (pointwise.pairsquared, "pairsquared", {}),
    (pointwise.squared, "squared", {}),
    (pointwise.logistic, "logistic", {}),
    (pointwise.logistic, "logistic", {"threshold": 1.0}),
    (pointwise.ordinal, "ordinal", {}),
    (pointwise.ordinal, "ordinal", {"grades": 2, "sigma": 1.7}),
    (pointwise.calibrated_softmax, "calibrated-softmax", {}),
    (pointwise.calibrated_softmax, "calibrated-softmax", {"anchor": 0.3}),
]


def evaluate(loss, scores, labels):
    return loss.evaluate(scores, labels, [0, len(scores)])


@pytest.mark.parametrize(("reference", "name", "parameters"), CASES)
@given(case=one_list())
@settings(deadline=None, max_examples=30)
def test_all_derivatives_agree_with_autograd(reference, name, parameters, case) -> None:
    scores, labels = case
    d = evaluate(objective(name, **parameters), scores, labels)
    value, gradient = value_and_gradient(reference, scores, labels, **parameters)
    assert d.values[0] == pytest.approx(value, rel=1e-10, abs=1e-12)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-8, atol=1e-11)
    diagonal = hessian_diagonal(reference, scores, labels, **parameters)
    np.testing.assert_allclose(d.curvature, diagonal, rtol=1e-8, atol=1e-11)


@given(case=one_list())
@settings(deadline=None, max_examples=30)
def test_the_circle_loss_agrees_with_autograd_for_constant_weights(case) -> None:
    scores, labels = case
    d = evaluate(objective("circle", gamma=4.0, margin=0.3), scores, labels)
    if np.all(labels > 0):
        assert not np.any(d.gradient)
        return
    parameters = {"gamma": 4.0, "margin": 0.3}
    value, gradient = value_and_gradient(pointwise.circle, scores, labels, **parameters)
    assert d.values[0] == pytest.approx(value, rel=1e-10, abs=1e-12)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-8, atol=1e-11)
    # The curvature adds the derivative of the weights, so that a step does not pass the goal.
    assert np.all(d.curvature >= hessian_diagonal(pointwise.circle, scores, labels, **parameters))
    goals = np.where(np.asarray(labels) > 0, 1.3, -0.3)
    assert np.all(np.abs(d.gradient) <= np.abs(scores - goals) * d.curvature * (1 + 1e-9))


@pytest.mark.parametrize("margin", [1.0, 0.3])
@given(case=one_list())
@settings(deadline=None, max_examples=30)
def test_the_mean_hinge_agrees_with_its_definition(margin: float, case) -> None:
    scores, labels = case
    scores = scores + 1e-3 * np.sin(np.arange(len(scores)))  # away from kinks
    d = evaluate(objective("pairhinge", margin=margin), scores, labels)
    value, gradient = value_and_gradient(pointwise.pairhinge, scores, labels, margin=margin)
    assert d.values[0] == pytest.approx(value, rel=1e-10, abs=1e-12)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-8, atol=1e-11)


def test_pairs_count_with_the_weight_of_their_better_document() -> None:
    scores, labels, weights = [0.3, -0.2, 0.9, 0.0], [2, 0, 1, 1], np.array([3.0, 9.0, 0.5, 2.0])
    pairs = [(0, 1), (0, 2), (0, 3), (2, 1), (3, 1)]
    d = objective("pairsquared").evaluate(scores, labels, [0, 4], document_weights=weights)
    errors = [scores[i] - scores[j] - (labels[i] - labels[j]) for i, j in pairs]
    expected = sum(weights[i] * e**2 for (i, _), e in zip(pairs, errors, strict=True)) / 5
    assert d.values[0] == pytest.approx(expected, rel=1e-12)


def test_the_minimum_of_the_calibrated_softmax_predicts_labels() -> None:
    labels = np.array([0.5, 2.0, 1.0])
    d = evaluate(objective("calibrated-softmax", anchor=0.2), np.log(labels / 0.2), labels)
    np.testing.assert_allclose(d.gradient, 0.0, atol=1e-12)


def test_parameters_out_of_range_are_refused() -> None:
    for name, parameters in (
        ("pairhinge", {"margin": 0.0}),
        ("ordinal", {"grades": 0}),
        ("ordinal", {"grades": 1.5}),
        ("ordinal", {"grades": None}),
        ("logistic", {"threshold": -1.0}),
        ("calibrated-softmax", {"anchor": 0.0}),
        ("circle", {"gamma": 0.0}),
        ("lambdagap", {"cutoff": 0}),
        ("lambdagap", {"kind": "z"}),
    ):
        with pytest.raises(UsageError):
            objective(name, **parameters)


def test_trees_predict_grades_with_the_squared_error() -> None:
    data = synthetic("web", n_lists=80, seed=0)
    ranker = TreeRanker(objective="squared", trees=60, learning_rate=0.2, leaves=15).fit(data)
    scores = np.asarray(ranker.predict(data))
    labels = np.asarray(data.labels, dtype=np.float64)
    assert np.mean((scores - labels) ** 2) < 0.7 * np.var(labels)
    assert abs(scores.mean() - labels.mean()) < 0.2


def test_the_mean_hinge_has_a_solver_for_kinks() -> None:
    data = synthetic("web", n_lists=30, seed=0)
    ranker = LinearRanker(objective="pairhinge", C=10.0).fit(data)
    total = np.sum(objective("pairhinge").evaluate(ranker.predict(data), data.labels, data.offsets).values)
    start = np.sum(objective("pairhinge").evaluate(np.zeros(data.n_docs), data.labels, data.offsets).values)
    assert total < 0.95 * start
