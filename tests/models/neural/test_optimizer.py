from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from plackett.base.errors import UsageError  # noqa: E402
from plackett.models import NeuralRanker  # noqa: E402
from plackett.models.neural.scorers import build_net  # noqa: E402
from plackett.models.neural.training import Optimizer  # noqa: E402

PEERS = {
    "adam": lambda weights, decay: torch.optim.Adam(weights, lr=0.1, weight_decay=decay),
    "adamw": lambda weights, decay: torch.optim.AdamW(weights, lr=0.1, weight_decay=decay),
    "adagrad": lambda weights, decay: torch.optim.Adagrad(
        weights, lr=0.1, weight_decay=decay, initial_accumulator_value=0.1
    ),
}


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("decay", [0.0, 0.05])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_one_vector_of_weights_moves_as_pytorch_moves_them_one_by_one(name, decay, clip) -> None:
    inputs = NeuralRanker(layers=(5,), clip=clip, learning_rate=0.1, optimizer=name, weight_decay=decay)
    ours, theirs = build_net(inputs, 3), build_net(inputs, 3)
    optimizer = Optimizer(ours, inputs)
    peer = PEERS[name](theirs.parameters(), decay)
    x, offsets = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), np.array([0, 6])
    for step in range(6):
        optimizer.step((ours(x, offsets) ** 2).sum() * (step + 1), 0.0)
        peer.zero_grad()
        ((theirs(x, offsets) ** 2).sum() * (step + 1)).backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(theirs.parameters(), clip)
        peer.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert a.detach().numpy() == pytest.approx(b.detach().numpy(), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("schedule", "rates"), [("constant", [1, 1, 1]), ("linear", [1, 0.5, 0.25]), ("cosine", [1, 0.5, 0.14645])]
)
def test_the_learning_rate_follows_the_schedule(schedule, rates) -> None:
    """AdaGrad's first step from a fresh state is in proportion to the rate."""
    moved = []
    for progress in (0.0, 0.5, 0.75):
        inputs = NeuralRanker(layers=(), optimizer="adagrad", schedule=schedule)
        net = build_net(inputs, 2)
        before = [p.detach().clone() for p in net.parameters()]
        Optimizer(net, inputs).step(net(torch.ones(1, 2), np.array([0, 1])).sum(), progress)
        after = list(net.parameters())
        moved.append((after[0].detach() - before[0])[0, 0].item())
    assert np.array(moved) / moved[0] == pytest.approx(rates, rel=1e-3)


def test_a_net_without_weights_is_refused() -> None:
    with pytest.raises(UsageError, match="must have trained weights"):
        Optimizer(torch.nn.ReLU(), NeuralRanker())
