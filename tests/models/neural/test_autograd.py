from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from plackett.base.errors import UsageError  # noqa: E402
from plackett.models.neural.loss import listwise_values  # noqa: E402
from plackett.objectives import OBJECTIVES, Stochastic, UMart, objective  # noqa: E402


def _scores(data, dtype=torch.float64):
    rng = np.random.default_rng(2)
    return torch.tensor(rng.normal(size=data.n_docs), dtype=dtype, requires_grad=True)


def _weighted(values):
    return (values * torch.arange(1, len(values) + 1, dtype=values.dtype)).sum()


@pytest.mark.parametrize("kind", OBJECTIVES, ids=lambda kind: kind.name)
def test_values_and_gradient_are_those_of_the_objective(kind, small) -> None:
    lists = kind().bind(small.labels, small.offsets, small.keys)
    scores = _scores(small)
    values = listwise_values(scores, lists, step=3)
    expected = lists.evaluate(scores.detach().numpy(), 3)
    assert np.array_equal(values.detach().numpy(), expected.values, equal_nan=True)
    _weighted(values).backward()
    factors = np.repeat(np.arange(1, small.n_lists + 1), np.diff(small.offsets))
    assert scores.grad.numpy() == pytest.approx(expected.gradient * factors, rel=1e-14)


def test_it_differentiates_as_finite_differences_do(small) -> None:
    lists = objective("approxndcg", eta=1.0).bind(small.labels, small.offsets)
    assert torch.autograd.gradcheck(lambda s: listwise_values(s, lists), _scores(small))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_scores_of_any_type_get_a_gradient_of_their_type(dtype, small) -> None:
    lists = objective("urank").bind(small.labels, small.offsets)
    scores = _scores(small, dtype)
    values = listwise_values(scores, lists)
    values.sum().backward()
    assert values.dtype == dtype
    assert scores.grad.dtype == dtype
    expected = lists.evaluate(scores.detach().double().numpy()).gradient
    assert scores.grad.double().numpy() == pytest.approx(expected, rel=1e-2, abs=1e-3)


def test_an_objective_without_a_value_still_has_a_gradient(small) -> None:
    lists = UMart(window=2).bind(small.labels, small.offsets)
    scores = _scores(small)
    values = listwise_values(scores, lists)
    assert torch.isnan(values).any()
    values.sum().backward()
    assert torch.isfinite(scores.grad).all()
    assert scores.grad.abs().sum() > 0


@pytest.mark.parametrize("which", [[4], [7, 1, 4], [0, 1, 2]])
@pytest.mark.parametrize("name", ["urank", "listmle", "convexloss-ndcg", "E[approxndcg]"])
def test_picked_lists_have_the_values_they_have_among_all(name, which, small) -> None:
    loss = Stochastic("approxndcg") if name == "E[approxndcg]" else objective(name)
    weights = np.linspace(0.5, 2.0, small.n_lists)
    lists = loss.bind(small.labels, small.offsets, small.keys, weights)
    scores = np.random.default_rng(0).normal(size=small.n_docs)
    whole = lists.evaluate(scores, 5)
    documents = np.concatenate([np.arange(*small.offsets[q : q + 2]) for q in which])
    picked = lists.take(np.array(which)).evaluate(scores[documents], 5)
    assert np.array_equal(picked.values, whole.values[which])
    assert np.array_equal(picked.gradient, whole.gradient[documents])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_scores_that_are_not_finite_are_named(bad, small) -> None:
    lists = objective("approxndcg").bind(small.labels, small.offsets)
    scores = torch.zeros(small.n_docs)
    scores[7] = bad
    with pytest.raises(UsageError, match=f"{bad} for document 7 of the {small.n_docs}"):
        listwise_values(scores, lists)


def test_whole_numbers_are_no_scores(small) -> None:
    lists = objective("approxndcg").bind(small.labels, small.offsets)
    with pytest.raises(UsageError, match=r"floating-point numbers, got torch\.int64"):
        listwise_values(torch.zeros(small.n_docs, dtype=torch.int64), lists)


def test_second_derivatives_are_refused_rather_than_wrong(small) -> None:
    lists = objective("approxndcg").bind(small.labels, small.offsets)
    scores = _scores(small)
    squares = listwise_values(scores, lists).square().sum()
    (gradient,) = torch.autograd.grad(squares, scores, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()
