"""What weights of documents mean, for every objective, alone and under stochastic scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import objective_cases
from objective_cases import assert_curvature_bounds_the_hessian, assert_gradient_is_exact, each, evaluate
from plackett.base.errors import DataError, UsageError
from plackett.objectives import custom, objective
from plackett.objectives.driver import weighted_labels

PLAIN = tuple(loss for loss in objective_cases.PLAIN if loss.weighting is not None)
ALL = tuple(loss for loss in objective_cases.ALL if loss.weighting is not None)

every = each(ALL)
few = settings(max_examples=4, deadline=None)

# Sums over pairs or picks, each with the weight of its better document.
LINEAR = (
    objective("ranknet", sigma=0.7),
    objective("ranksvm"),
    objective("ranksvm", squared=True),
    objective("rankboost"),
    objective("listmle"),
    objective("plistmle"),
    objective("urank"),
    objective("mle"),
    objective("approxmrr", eta=2.0),
    objective("approxmap", eta=2.0),
    objective("lambdagap", cutoff=2),
    objective("pairhinge"),
    objective("pairsquared"),
    objective("squared"),
    objective("logistic"),
    objective("ordinal"),
    objective("lambdarank", weight="map"),
    objective("lambdarank", weight="mrr"),
)
# Binary relevance, closed forms: a good of weight 2 is the same as two of it.
COPIES = (
    objective("ranknet"),
    objective("ranksvm"),
    objective("rankboost"),
    objective("mle"),
    objective("expgain-auc"),
    objective("convexloss-auc"),
    objective("l2-auc"),
    objective("l3-auc"),
)


def _lists(seed: int):
    rng = np.random.default_rng(seed)
    sizes = np.concatenate([[1, 2, 3], rng.integers(2, 13, size=4)])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    labels = rng.integers(0, 4, size=offsets[-1]).astype(np.float32)
    weights = rng.choice([0.25, 1.0, 1.0, 3.0, 7.5], size=offsets[-1])
    return rng.normal(size=offsets[-1]), labels, offsets, weights


def _same(one, other) -> bool:
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


@pytest.mark.kernels
@every
def test_weights_of_one_are_no_weights_to_the_bit(loss) -> None:
    scores, labels, offsets, weights = _lists(3)
    plain = evaluate(loss, scores, labels, offsets)
    assert _same(plain, evaluate(loss, scores, labels, offsets, np.ones(len(scores))))
    # The same for one list of ones among weighted ones.
    low, high = offsets[4], offsets[5]
    weights[low:high] = 1.0
    mixed = evaluate(loss, scores, labels, offsets, weights)
    assert np.array_equal(mixed.values[4], plain.values[4], equal_nan=True)
    assert np.array_equal(mixed.gradient[low:high], plain.gradient[low:high])
    assert np.array_equal(mixed.curvature[low:high], plain.curvature[low:high])


@every
def test_weights_are_not_ignored(loss) -> None:
    labels, offsets = np.array([2, 1, 0, 1, 0, 0]), np.array([0, 6])
    scores = np.linspace(0.0, 1.0, 6)
    plain = evaluate(loss, scores, labels, offsets).gradient
    weighted = evaluate(loss, scores, labels, offsets, [1.0, 5.0, 1.0, 0.2, 1.0, 1.0]).gradient
    assert np.abs(weighted - plain).max() > 1e-3 * np.abs(plain).max()


@each(loss for loss in ALL if loss.exact)
@given(seed=st.integers(0, 10_000))
@few
def test_the_gradient_is_that_of_the_value_where_declared(loss, seed: int) -> None:
    lists = _lists(seed)
    documents = np.random.default_rng(seed).permutation(len(lists[0]))[:4]
    assert_gradient_is_exact(loss, *lists, documents=documents)


@pytest.mark.kernels
@every
@given(seed=st.integers(0, 10_000))
@few
def test_curvature_is_never_negative(loss, seed: int) -> None:
    assert np.all(evaluate(loss, *_lists(seed)).curvature >= 0)


@each(loss for loss in ALL if loss.convex and loss.exact)
@given(seed=st.integers(0, 10_000))
@few
def test_curvature_bounds_the_second_derivative_where_convex(loss, seed: int) -> None:
    lists = _lists(seed)
    documents = np.random.default_rng(seed).permutation(len(lists[0]))[:3]
    assert_curvature_bounds_the_hessian(loss, *lists, documents=documents)


@each(loss for loss in ALL if loss.shift_invariant)
def test_shifting_all_scores_changes_nothing_where_declared(loss) -> None:
    scores, labels, offsets, weights = _lists(7)
    here, there = (evaluate(loss, s, labels, offsets, weights) for s in (scores, scores + 9.0))
    size = np.abs(here.gradient).max() + 1.0
    # Coefficients of sampled rankings are float32, and weighted ones are not whole numbers.
    np.testing.assert_allclose(there.gradient, here.gradient, atol=1e-6 * size)
    np.testing.assert_allclose(np.add.reduceat(here.gradient, offsets[:-1]), 0, atol=1e-6 * size)


@pytest.mark.kernels
@every
def test_lists_do_not_see_each_other(loss) -> None:
    scores, labels, offsets, weights = _lists(8)
    whole = evaluate(loss, scores, labels, offsets, weights)
    for q in range(len(offsets) - 1):
        rows = slice(offsets[q], offsets[q + 1])
        part = evaluate(loss, scores[rows], labels[rows], [0, rows.stop - rows.start], weights[rows], keys=[50 + q])
        assert np.array_equal(part.values, whole.values[q : q + 1], equal_nan=True)
        assert np.array_equal(part.gradient, whole.gradient[rows])


@pytest.mark.kernels
@every
def test_the_float32_gradient_is_that_of_newton(loss) -> None:
    scores, labels, offsets, weights = _lists(9)
    keys = np.arange(len(offsets) - 1, dtype=np.uint64)
    lists = np.linspace(0.5, 2.0, len(keys))
    options = {"keys": keys, "weights": lists, "document_weights": weights}
    expected = loss.newton(scores, labels, offsets, 4, **options)
    bound = loss.bind(labels, offsets, keys, lists, document_weights=weights)
    gradient, curvature = bound.float32_gradient(scores, 4)
    size = np.abs(expected.gradient).max(), expected.curvature.max()
    np.testing.assert_allclose(gradient, expected.gradient, atol=1e-5 * size[0] + 1e-30)
    np.testing.assert_allclose(curvature, expected.curvature, atol=1e-5 * size[1] + 1e-30)


@pytest.mark.kernels
@every
def test_extreme_weights_stay_finite(loss) -> None:
    scores, labels, offsets, _ = _lists(10)
    for weights in (np.zeros(len(scores)), np.full(len(scores), 1e9), 1e-9 + np.zeros(len(scores))):
        result = evaluate(loss, scores, labels, offsets, weights)
        assert np.all(np.isfinite(result.gradient))
        assert np.all(np.isfinite(result.curvature))
    mixed = np.where(np.arange(len(scores)) % 2, 0.0, 1e6)
    assert np.all(np.isfinite(evaluate(loss, scores, labels, offsets, mixed).gradient))


@each(LINEAR)
def test_pairs_and_picks_are_linear_in_the_weights(loss) -> None:
    scores, labels, offsets, weights = _lists(1)
    other = np.random.default_rng(2).random(len(scores))
    one, two, both = (evaluate(loss, scores, labels, offsets, w) for w in (weights, other, weights + other))
    np.testing.assert_allclose(both.values, one.values + two.values, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(both.gradient, one.gradient + two.gradient, rtol=1e-9, atol=1e-10)


@each(COPIES)
def test_a_relevant_document_of_weight_two_is_the_same_as_two_of_it(loss) -> None:
    rng = np.random.default_rng(4)
    labels, scores = np.array([1, 0, 1, 0, 0, 1, 0]), rng.normal(size=7)
    times = np.where(labels > 0, [2, 1, 3, 1, 1, 1, 1], 1)
    copied = np.repeat(np.arange(7), times)
    weighted = evaluate(loss, scores, labels, np.array([0, 7]), times)
    twice = evaluate(loss, scores[copied], labels[copied], np.array([0, len(copied)]))
    assert weighted.values[0] == pytest.approx(twice.values[0], rel=1e-12)
    summed = np.bincount(copied, twice.gradient)
    np.testing.assert_allclose(weighted.gradient, summed, rtol=1e-10, atol=1e-12)


@each(loss for loss in PLAIN if loss.weighting == "gain")
def test_a_weighted_gain_is_the_gain_of_another_label(loss) -> None:
    scores, _, offsets, _ = _lists(6)
    low = np.random.default_rng(6).integers(0, 2, len(scores)).astype(np.float32)
    weights = np.where(low > 0, np.random.default_rng(7).choice([1.0, 3.0, 7.0], len(scores)), 1.0)
    high = np.log2(1.0 + low * weights)
    weighted = evaluate(loss, scores, low, offsets, weights)
    assert _same(weighted, evaluate(loss, scores, high, offsets))


@given(y=st.floats(0, 1000, width=32), w=st.floats(0, 1e6))
def test_labels_that_stand_for_weighted_ones(y: float, w: float) -> None:
    labels, weights = np.array([y], np.float32), np.array([w])
    assert weighted_labels("share", labels, weights)[0] == pytest.approx(np.float32(y * w))
    gain = float(weighted_labels("gain", labels, weights)[0])
    if y < 50:
        expected = w * np.expm1(y * np.log(2))
        assert np.expm1(gain * np.log(2)) == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert gain >= 0
    if w == 1.0:
        assert gain == labels[0]


def test_pairs_have_the_weight_of_their_better_document() -> None:
    scores, labels, _, weights = _lists(12)
    expected = sum(
        weights[i] * np.log1p(np.exp(-(scores[i] - scores[j])))
        for i in range(len(scores))
        for j in range(len(scores))
        if labels[i] > labels[j]
    )
    offsets = np.array([0, len(scores)])
    result = evaluate(objective("ranknet"), scores, labels, offsets, weights)
    assert result.values[0] == pytest.approx(expected, rel=1e-12)


def test_the_softmax_family_compares_with_weighted_shares() -> None:
    scores, labels, weights = np.array([0.3, -1.0, 0.5]), np.array([1, 2, 0]), [2.0, 0.5, 4.0]
    rho = np.exp(scores) / np.exp(scores).sum()
    masses = {"crossentropy": labels * weights, "listnet": 1.0 + (np.exp(labels) - 1.0) * weights}
    for name, mass in masses.items():
        result = evaluate(objective(name), scores, labels, [0, 3], weights)
        np.testing.assert_allclose(result.gradient, rho - mass / mass.sum(), atol=1e-7)
    gamma = np.array([0.2, 0.9, 0.4])
    mass = 1.0 - gamma + (2.0**labels - 1.0) * weights
    result = evaluate(objective("xendcg"), scores, labels, [0, 3], weights, draws={"gamma": gamma})
    np.testing.assert_allclose(result.gradient, rho - mass / mass.sum(), atol=1e-7)


@pytest.mark.kernels
@pytest.mark.parametrize("gain", ["auc", "map", "ndcg"])
def test_sampled_rankings_weigh_gains_and_pairs(gain: str) -> None:
    # Goods 0 and 2 with weights 3 and 1/2, bads 1 and 3; +1: the good is above the bad.
    signs = np.array([[[1, 1], [1, 1]], [[1, 1], [-1, 1]], [[-1, 1], [-1, -1]]])
    labels, scores = np.array([1, 0, 1, 0]), np.array([0.3, -0.2, 0.1, 0.6])
    w, s_good, s_bad = np.array([3.0, 0.5]), scores[[0, 2]], scores[[1, 3]]
    energies = [-2 * np.sum((y == -1) * w[:, None] * (s_good[:, None] - s_bad)) for y in signs]
    # Ranks of the two goods, from 0: by their wins.
    ranks = [[0, 1], [0, 2], [1, 3]]
    losses = []
    for y, (first, second) in zip(signs, ranks, strict=True):
        if gain == "auc":
            losses.append(1 - np.sum(w * (y == 1).sum(axis=1)) / (2 * w.sum()))
        elif gain == "map":
            precision = np.array([1 / (first + 1), 2 / (second + 1)])
            losses.append(1 - np.sum(w * precision) / w.sum())
        else:
            discount = 1 / np.log2(np.maximum(np.array([first, second]) + 1, 2))
            losses.append(1 - np.sum(w * discount) / w.sum())
    expected = np.log(np.sum(np.exp(np.array(losses) + energies)))
    loss = objective(f"convexloss-{gain}", space="sampled")
    options = {"draws": {"rankings": [signs]}}
    result = evaluate(loss, scores, labels, [0, 4], [3.0, 9.0, 0.5, 9.0], **options)
    assert result.values[0] == pytest.approx(expected, rel=1e-6)


def test_what_cannot_weigh_documents_says_why() -> None:
    with pytest.raises(UsageError, match=r"svmmap does not support .* weights: .* use ranksvm"):
        objective("svmmap").evaluate([0.0, 1.0], [1, 0], [0, 2], document_weights=[2, 1])
    objective("svmmap").evaluate([0.0, 1.0], [1, 0], [0, 2], document_weights=[1, 1])

    def own(scores, labels, params, gradient, curvature):  # noqa: ARG001
        gradient[:] = scores - labels
        return 0.5 * np.sum((scores - labels) ** 2)

    with pytest.raises(UsageError, match=r"own does not support document weights: .* weighting="):
        custom(own).evaluate([0.0, 1.0], [1, 0], [0, 2], document_weights=[2, 1])
    loss = custom(own, weighting="share")
    result = loss.evaluate([0.0, 1.0], [1, 0], [0, 2], document_weights=[2, 1])
    assert result.gradient.tolist() == [-2.0, 1.0]
    with pytest.raises(UsageError, match="weighting must be"):
        custom(own, weighting="order")


def test_wrong_weights_are_refused() -> None:
    for bad in ([1.0], [1.0, -1.0], [1.0, np.nan], [np.inf, 1.0]):
        with pytest.raises(DataError, match="document_weights must be 2 finite"):
            objective("ranknet").evaluate([0.0, 1.0], [1, 0], [0, 2], document_weights=bad)
