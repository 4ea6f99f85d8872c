from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from plackett.models import NeuralRanker  # noqa: E402
from plackett.models.neural.batches import FeatureRows, make_batch  # noqa: E402
from plackett.models.neural.loss import LevelLoss  # noqa: E402
from plackett.models.neural.scorers import build_net  # noqa: E402
from plackett.objectives import objective  # noqa: E402

CPU = torch.device("cpu")


def _net(**settings):
    inputs = NeuralRanker(layers=(6, 5), activation="tanh", recurrent="rnn").set_params(**settings)
    return build_net(inputs, 4)


def _reference(net, features, labels, pooling):
    """One list, written out as in the paper."""
    x = net.body(features)
    levels = np.unique(labels)[::-1]
    h, total = torch.zeros(1, x.shape[1]), 0.0
    for rating in levels[:-1]:
        state = net.cell(x, h.expand(len(x), -1))
        f = net.last(torch.cat([state, x], dim=1)).squeeze(1)
        chosen = torch.tensor(labels == rating)
        lower = torch.logsumexp(f[torch.tensor(labels < rating)], 0)
        p = torch.logaddexp(f[chosen], lower) - f[chosen]
        total = total + (2.0**rating - 1.0) * p.sum() / (len(levels) - 1)
        h = state[chosen].amax(0) if pooling == "max" else state[chosen].mean(0)
        h = h[None]
    return total


@pytest.mark.parametrize("pooling", ["max", "mean"])
@pytest.mark.parametrize("which", [[2], [7, 1, 4], [1, 2]])
def test_loss_and_gradient_are_those_of_the_paper(pooling, which, small) -> None:
    net = _net(pooling=pooling)
    task = LevelLoss(objective("urank"), small)
    batch = make_batch(small.offsets, np.array(which))
    features = FeatureRows(small.features, CPU)
    total = task.total(net, features[batch.documents], batch, 0)
    actual = torch.autograd.grad(total, list(net.parameters()))
    expected_total = sum(
        _reference(net, features[slice(a, b)], small.labels[a:b], pooling)
        for a, b in (small.offsets[q : q + 2].tolist() for q in which)
    )
    expected = torch.autograd.grad(expected_total, list(net.parameters()))
    assert total.item() == pytest.approx(expected_total.item(), rel=1e-5)
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.numpy() == pytest.approx(theirs.numpy(), rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("score_from", ["both", "state"])
def test_ranking_takes_the_scores_of_the_first_step(cell, score_from, small) -> None:
    net = _net(recurrent=cell, score_from=score_from)
    features = FeatureRows(small.features, CPU)
    batch = make_batch(small.offsets, np.array([2, 4, 6]))
    task = LevelLoss(objective("urank"), small)
    levels = list(task.select(batch, CPU))
    first = net.score_levels(features[batch.documents], levels)[0]
    alone = net(features[batch.documents], batch.offsets)
    assert first.detach().numpy() == pytest.approx(alone.detach().numpy(), rel=1e-5, abs=1e-6)


def test_with_two_levels_the_recurrent_loss_is_uranks(small) -> None:
    binary = small.with_labels((small.labels > 1).astype(float))
    net = _net()
    features = FeatureRows(binary.features, CPU)
    batch = make_batch(binary.offsets, np.array([2, 4, 7]))
    total = LevelLoss(objective("urank"), binary).total(net, features[batch.documents], batch, 0)
    scores = net(features[batch.documents], batch.offsets).detach().numpy()
    labels = binary.labels[batch.documents]
    expected = objective("urank").evaluate(scores, labels, batch.offsets).values.sum()
    assert total.item() == pytest.approx(expected, rel=1e-5)
