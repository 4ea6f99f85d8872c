from __future__ import annotations

from decimal import Decimal, localcontext

import numba
import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from plackett.objectives import XENDCG, CrossEntropy, ListNet, Stochastic, objective
from references import softmax as reference
from references.autograd import as_tensor, hessian_diagonal, value_and_gradient

pytestmark = pytest.mark.kernels

SCORES = np.array([0.3, -1.2, 2.0, 0.7])
LABELS = np.array([1.0, 0.0, 2.0, 0.5])
OFFSETS = [0, 4]


@pytest.mark.parametrize(
    ("objective", "targets"), [(CrossEntropy(), LABELS / LABELS.sum()), (ListNet(), softmax(LABELS))]
)
def test_value_gradient_and_curvature_follow_the_formula(objective, targets) -> None:
    d = objective.evaluate(SCORES, LABELS, OFFSETS)
    rho = softmax(SCORES)
    assert d.values[0] == pytest.approx(-np.sum(targets * log_softmax(SCORES)), rel=1e-12)
    assert d.gradient == pytest.approx(rho - targets, rel=1e-12)
    assert d.curvature == pytest.approx(rho * (1 - rho), rel=1e-12)


def test_xendcg_takes_its_targets_from_perturbed_gains() -> None:
    gamma = np.array([0.1, 0.9, 0.5, 0.3])
    d = XENDCG().evaluate(SCORES, LABELS, OFFSETS, draws={"gamma": gamma})
    targets = (2**LABELS - gamma) / np.sum(2**LABELS - gamma)
    assert d.gradient == pytest.approx(softmax(SCORES) - targets, rel=1e-12)


@pytest.mark.parametrize("name", ["crossentropy", "listnet", "xendcg"])
def test_value_gradient_and_curvature_agree_with_autograd(name: str) -> None:
    rng = np.random.default_rng(3)
    for n in (2, 3, 10, 50):
        scores, labels, gamma = rng.normal(size=n), rng.integers(0, 5, n), rng.random(n)
        labels[0], labels[1] = 0, 1
        extra = {"gamma": as_tensor(gamma)} if name == "xendcg" else {}
        draws = {"gamma": gamma} if name == "xendcg" else None
        loss = getattr(reference, name)
        result = objective(name).evaluate(scores, labels, [0, n], draws=draws)
        value, gradient = value_and_gradient(loss, scores, as_tensor(labels), **extra)
        assert result.values[0] == pytest.approx(value, rel=1e-9)
        assert result.gradient == pytest.approx(gradient, rel=1e-8, abs=1e-12)
        diagonal = hessian_diagonal(loss, scores, as_tensor(labels), **extra)
        assert result.curvature == pytest.approx(diagonal, rel=1e-8, abs=1e-12)


def test_newton_is_the_truncated_neumann_series_of_the_whole_hessian() -> None:
    rho = softmax(SCORES)
    gradient = rho - softmax(LABELS)
    D = rho * (1 - rho)
    S = np.where(np.eye(4, dtype=bool), 0.0, rho[None, :] / (1 - rho[:, None]))
    step = (np.eye(4) + S + S @ S) @ (gradient / D)
    d = ListNet(order=3).newton(SCORES, LABELS, OFFSETS)
    assert d.gradient / d.curvature == pytest.approx(step, rel=1e-10)


def test_a_saturated_softmax_never_divides_by_zero() -> None:
    for loss in (CrossEntropy(), ListNet(), XENDCG()):
        d = loss.newton([800.0, -800.0, 0.0], [0, 1, 2], [0, 3])
        assert np.all(np.isfinite(d.gradient))
        assert np.all(d.curvature >= 0)


@pytest.mark.parametrize("level", [-5000.0, -800.0, -1.0, 800.0])
def test_epsilon_is_a_document_whose_score_is_its_logarithm(level) -> None:
    scores, labels, targets = level + SCORES, LABELS, LABELS / LABELS.sum()
    d = CrossEntropy(epsilon=0.1).evaluate(scores, labels, OFFSETS)
    rho = softmax(np.append(scores, np.log(0.1)))[:4]
    value = np.logaddexp.reduce(np.append(scores, np.log(0.1))) - targets @ scores
    assert d.values[0] == pytest.approx(value, rel=1e-12)
    assert d.gradient == pytest.approx(rho - targets, rel=1e-9)
    assert d.curvature == pytest.approx(rho * (1 - rho), rel=1e-9)


def test_labels_of_any_size_keep_targets_finite() -> None:
    for loss in (CrossEntropy(), ListNet(), XENDCG()):
        d = loss.evaluate([0.0, 1.0, 2.0], [0, 5000, 1e30], [0, 3])
        assert np.all(np.isfinite(d.gradient))
        assert d.gradient.sum() == pytest.approx(0.0, abs=1e-12)


def test_noise_depends_on_seed_step_and_key_only() -> None:
    base = XENDCG(seed=1).evaluate(SCORES, LABELS, OFFSETS, step=3, keys=[9]).gradient
    assert np.array_equal(base, XENDCG(seed=1).evaluate(SCORES, LABELS, OFFSETS, step=3, keys=[9]).gradient)
    for other in (
        XENDCG(seed=2).evaluate(SCORES, LABELS, OFFSETS, step=3, keys=[9]),
        XENDCG(seed=1).evaluate(SCORES, LABELS, OFFSETS, step=4, keys=[9]),
        XENDCG(seed=1).evaluate(SCORES, LABELS, OFFSETS, step=3, keys=[8]),
    ):
        assert not np.array_equal(base, other.gradient)


def exact_newton(scores, targets, order=3):
    """The Neumann series with sixty digits."""
    with localcontext(prec=60):
        powers = [(Decimal(s) - Decimal(max(scores))).exp() for s in scores]
        rho = [power / sum(powers) for power in powers]
        term = [r - Decimal(t) for r, t in zip(rho, targets, strict=True)]
        gradient = term
        for _ in range(order - 1):
            quotients = [t / (1 - r) for t, r in zip(term, rho, strict=True)]
            term = [r * (sum(quotients) - u) for r, u in zip(rho, quotients, strict=True)]
            gradient = [g + t for g, t in zip(gradient, term, strict=True)]
        return np.array([float(g) for g in gradient])


@pytest.mark.parametrize("lead", [5.0, 15.0, 25.0, 30.0, 33.0])
def test_newton_keeps_its_digits_where_one_document_has_nearly_all_of_the_softmax(lead) -> None:
    scores, labels = [0.0, lead, 0.3, -0.5], [1.0, 0.0, 2.0, 0.0]
    expected = exact_newton(scores, [float(t) for t in softmax(labels)])
    # The targets, rounded to double precision, sum to one but for 1e-16, over 1 - rho.
    np.testing.assert_allclose(ListNet().newton(scores, labels, OFFSETS).gradient, expected, rtol=1e-9, atol=1e-9)
    gradient, _ = ListNet().bind(labels, OFFSETS).float32_gradient(np.array(scores), 0)
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def in_single_precision(loss, scores, labels, offsets, **options):
    """Largest differences to ``newton``, as parts of the largest gradient and curvature."""
    expected = loss.newton(scores, labels, offsets, 7, **options)
    actual = loss.bind(labels, offsets, **options).float32_gradient(scores, 7)
    assert all(item.dtype == np.float32 for item in actual)
    return [
        np.abs(single - double).max() / np.abs(double).max()
        for single, double in zip(actual, expected[1:], strict=True)
    ]


@pytest.mark.parametrize("spread", [0.0, 1.0, 10.0, 700.0])
@pytest.mark.parametrize(
    "loss",
    [
        CrossEntropy(),
        ListNet(order=1),
        XENDCG(seed=3),
        XENDCG(order=5, epsilon=0.3),
        Stochastic(XENDCG(), samples=3, beta=0.25, seed=4),
        Stochastic(CrossEntropy(), samples=2),
    ],
    ids=repr,
)
def test_single_precision_makes_the_same_draws_and_derivatives(loss, spread) -> None:
    rng = np.random.default_rng(5)
    offsets = np.cumsum([0, 1, 2, 7, 0, 130, 33, 5, 1000])
    labels = rng.integers(0, 5, offsets[-1])
    labels[offsets[6] : offsets[7]] = 2  # one level
    scores = spread * rng.normal(size=offsets[-1])
    lists = {"keys": rng.integers(0, 2**63, 8), "weights": np.linspace(0.0, 2.0, 8)}
    # With bounds checks nothing is optimized: long sums are taken one by one and round more than in vectors.
    tolerance = 1e-4 if numba.config.BOUNDSCHECK else 1e-5
    assert max(in_single_precision(loss, scores, labels, offsets, **lists)) < tolerance


@pytest.mark.parametrize("loss", [CrossEntropy(), ListNet(), XENDCG(), XENDCG(epsilon=1.0)])
@pytest.mark.parametrize(
    "scores", [[700.0, -700.0, 0.0, 700.0], [-700.0, -700.0, -700.0, -700.0], [9.0, 9.0, 9.0, 1e30]]
)
def test_single_precision_stays_finite_where_the_softmax_saturates(loss, scores) -> None:
    for labels in ([0, 1, 2, 0], [0, 700, 1e30, 5], [0, 0, 0, 140]):
        gradient, curvature = loss.bind(labels, OFFSETS).float32_gradient(np.array(scores), 0)
        assert np.all(np.isfinite(gradient))
        assert np.all(np.isfinite(curvature))
        assert np.all(curvature >= 0)


def test_each_step_has_arrays_of_its_own() -> None:
    derivatives = XENDCG().bind(LABELS, OFFSETS).float32_gradient
    first, _ = derivatives(SCORES, 0)
    kept = first.copy()
    derivatives(SCORES, 1)
    assert np.array_equal(first, kept)


def test_where_perturbed_scores_must_be_normalized_the_float32_gradient_is_newton() -> None:
    loss = Stochastic(ListNet(epsilon=0.5), samples=2)
    gradient, _ = loss.bind(LABELS, OFFSETS).float32_gradient(SCORES, 3)
    assert np.array_equal(gradient, loss.newton(SCORES, LABELS, OFFSETS, 3).gradient)


@pytest.mark.parametrize("loss", [CrossEntropy, ListNet, XENDCG])
def test_lists_of_one_level_have_a_loss_if_they_are_kept(loss) -> None:
    scores, labels, offsets = np.array([0.3, -0.5, 1.0, 2.0, 0.1]), [1, 1, 1, 0, 0], [0, 3, 5]
    skipped = loss().evaluate(scores, labels, offsets)
    assert not skipped.values.any()
    assert not skipped.gradient.any()
    kept = loss(one_level="keep").evaluate(scores, labels, offsets)
    if loss is not XENDCG:
        uniform = softmax(scores[:3]) - 1 / 3
        np.testing.assert_allclose(kept.gradient[:3], uniform, atol=1e-12)
        np.testing.assert_allclose(kept.values[0], -log_softmax(scores[:3]).mean())
    assert kept.gradient[:3].any()
    # Labels that are all 0 have no shares.
    assert kept.gradient[3:].any() == (loss is not CrossEntropy)
    again = Stochastic(loss(one_level="keep"), samples=2).evaluate(scores, labels, offsets)
    assert again.gradient[:3].any()
    bound = loss(one_level="keep").bind(labels, offsets)
    np.testing.assert_allclose(bound.float32_gradient(scores, 0)[0], bound.newton(scores, 0).gradient)
