from __future__ import annotations

import numpy as np
import pytest

from plackett.base.errors import DataError, UsageError
from plackett.objectives import LambdaRank, RankNet, Stochastic, custom, objective

pytestmark = pytest.mark.kernels

SCORES, LABELS, OFFSETS = [0.3, -0.2, 1.0, 0.1], [0, 1, 2, 0], [0, 4]


def squared(scores, labels, params, gradient, curvature):  # noqa: ARG001
    value = 0.0
    for i in range(len(scores)):
        error = scores[i] - labels[i]
        value += 0.5 * error * error
        gradient[i] = error
        curvature[i] = 1.0
    return value


def test_the_value_is_the_mean_over_the_perturbed_scores() -> None:
    U = np.random.default_rng(0).random((5, 4))
    result = Stochastic(RankNet(), samples=5, beta=0.5).evaluate(SCORES, LABELS, OFFSETS, draws={"uniform": U})
    item = [RankNet().evaluate(SCORES - 0.5 * np.log(-np.log(u)), LABELS, OFFSETS) for u in U]
    assert result.values[0] == pytest.approx(np.mean([d.values[0] for d in item]))
    assert result.gradient == pytest.approx(np.mean([d.gradient for d in item], axis=0))
    assert result.curvature == pytest.approx(np.mean([d.curvature for d in item], axis=0))


def test_no_noise_is_the_objective_itself() -> None:
    plain = RankNet().evaluate(SCORES, LABELS, OFFSETS)
    result = Stochastic(RankNet(), samples=3, beta=0.0).evaluate(SCORES, LABELS, OFFSETS)
    assert result.gradient == pytest.approx(plain.gradient)


def test_losses_that_see_shifts_go_through_the_whole_jacobian() -> None:
    U = np.random.default_rng(1).random((3, 4))
    result = Stochastic(custom(squared, convex=True), samples=3, beta=0.5)

    def value(s):
        return result.evaluate(s, LABELS, OFFSETS, draws={"uniform": U}).values[0]

    actual = result.evaluate(SCORES, LABELS, OFFSETS, draws={"uniform": U})
    h = 1e-6
    slopes = [(value(SCORES + h * e) - value(SCORES - h * e)) / (2 * h) for e in np.eye(4)]
    assert actual.gradient == pytest.approx(slopes, rel=1e-6)
    assert actual.gradient.sum() == pytest.approx(0.0, abs=1e-12)


def test_noise_depends_on_seed_step_and_key_but_not_on_other_lists() -> None:
    result = Stochastic(LambdaRank(), samples=2, seed=4)
    base = result.evaluate(SCORES, LABELS, OFFSETS, step=2, keys=[7]).gradient
    among = result.evaluate(SCORES * 3, LABELS * 3, [0, 4, 8, 12], step=2, keys=[1, 7, 2]).gradient
    assert np.array_equal(among[4:8], base)
    assert not np.array_equal(among[:4], base)
    other = Stochastic(LambdaRank(), samples=2, seed=5)
    assert not np.array_equal(other.evaluate(SCORES, LABELS, OFFSETS, 2, [7]).gradient, base)


def test_an_objective_may_be_given_by_name() -> None:
    assert Stochastic("ranknet", samples=2) == Stochastic(RankNet(), samples=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 0}, "samples >= 1"),
        ({"beta": -1.0}, "beta >= 0"),
        ({"objective": Stochastic(RankNet())}, "Stochastic of Stochastic"),
        ({"objective": "rankent"}, "Did you mean 'ranknet'"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(options, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Stochastic(**{"objective": RankNet(), **options})


def test_draws_of_the_wrong_kind_are_refused() -> None:
    result = Stochastic(RankNet(), samples=2)
    with pytest.raises(DataError, match="samples x documents = 2 x 4, got \\(3, 4\\)"):
        result.evaluate(SCORES, LABELS, OFFSETS, draws={"uniform": np.full((3, 4), 0.5)})
    with pytest.raises(DataError, match="strictly between 0 and 1"):
        result.evaluate(SCORES, LABELS, OFFSETS, draws={"uniform": np.zeros((2, 4))})
    with pytest.raises(UsageError, match="ranknet draws nothing: it is not random, not 'gamma'"):
        result.evaluate(SCORES, LABELS, OFFSETS, draws={"gamma": np.zeros(4)})


def test_inner_draws_pass_through() -> None:
    gamma = np.full(4, 0.5)
    result = Stochastic(objective("xendcg"), samples=1, beta=0.0)
    actual = result.evaluate(SCORES, LABELS, OFFSETS, draws={"gamma": gamma})
    plain = objective("xendcg").evaluate(SCORES, LABELS, OFFSETS, draws={"gamma": gamma})
    assert actual.gradient == pytest.approx(plain.gradient)
