"""Nets of every kind trained by two processes, which divide the lists: the nets of one process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import parallel_nets
from plackett.base.errors import UsageError
from ray_processes import free_port

pytest.importorskip("torch", reason="needs the extra neural")
pytestmark = pytest.mark.timeout(400)

SCRIPT = Path(parallel_nets.__file__)
# Those whose weights all have an effect, or are not moved where they have none.
STEADY = ("norm", "sum", "attention", "attention-norm", "gru", "lstm-norm", "boosted", "boosted-norm", "module")
NOISY = ("plain", "adam-norm")
DRAWING = ("group-norm", "dropout-norm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """What two processes end with, case by case."""
    actual = tmp_path_factory.mktemp("nets")
    port = str(free_port())
    begin, cases = [sys.executable, "-W", "ignore", str(SCRIPT)], (*STEADY, *NOISY, *DRAWING)
    processes = [
        subprocess.Popen(
            [*begin, str(rank), "2", port, str(actual), *cases],
            env=os.environ | {"OMP_WAIT_POLICY": "passive", "TORCH_CPP_LOG_LEVEL": "ERROR"},
        )
        for rank in range(2)
    ]
    try:
        assert [process.wait(timeout=270) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return actual


@pytest.mark.parametrize("case", STEADY)
def test_two_processes_end_with_the_nets_of_one(folder, case) -> None:
    alone, (first, second) = _alone(case), _found(folder, case)
    assert set(alone) == set(first.files)
    for name, value in alone.items():
        np.testing.assert_array_equal(first[name], second[name])
        np.testing.assert_allclose(first[name], value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", NOISY)
def test_weights_that_adam_moves_by_rounding_errors_do_not_change_the_loss(folder, case) -> None:
    """A constant added to all scores is nothing to the loss."""
    alone, (first, second) = _alone(case), _found(folder, case)
    np.testing.assert_allclose(first["loss"], alone["loss"], rtol=1e-6)
    assert all(np.array_equal(first[name], second[name]) for name in alone)
    moved = first["scores"] - alone["scores"]
    np.testing.assert_allclose(moved, moved.mean(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("case", DRAWING)
def test_workers_that_draw_numbers_of_their_own_have_one_net(folder, case) -> None:
    first, second = _found(folder, case)
    for name in first.files:
        np.testing.assert_array_equal(first[name], second[name])
    assert np.isfinite(first["scores"]).all()


def _found(folder: Path, case: str) -> list[np.lib.npyio.NpzFile]:
    return [np.load(folder / f"{case}-{rank}.npz") for rank in range(2)]


def _alone(case: str) -> dict[str, np.ndarray]:
    from parallel_nets import lists, net

    ranker = net(case).fit(lists())
    weights = {
        f"{place}.{name}": value.numpy()
        for place, item in enumerate(ranker.networks_)
        for name, value in item.state_dict().items()
    }
    scores, loss = ranker.predict(lists()), ranker.curves_["train"]["loss"]
    return weights | {"scores": scores, "loss": np.array(loss)}


@pytest.fixture
def _one_worker() -> Iterator[None]:
    from torch import distributed

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        distributed.destroy_process_group()


@pytest.mark.usefixtures("_one_worker")
@pytest.mark.parametrize("shape", [(7, 4), (2, 4), (5, 4, 3), (1, 4, 2)])
@pytest.mark.parametrize("options", [{}, {"momentum": None}, {"affine": False}])
def test_a_batch_of_one_worker_is_normalised_as_pytorch_does_it(shape, options) -> None:
    import torch
    from torch import nn

    from plackett.models.neural.batch_norm import synchronize_batch_norm

    ours, theirs = nn.Sequential(nn.BatchNorm1d(4, **options)), nn.BatchNorm1d(4, **options)
    assert synchronize_batch_norm(ours, 10.0)
    for step in range(3):
        torch.manual_seed(step)
        values = 30.0 + torch.randn(shape)
        factors = torch.randn(shape)
        inputs = [values.clone().requires_grad_() for _ in range(2)]
        for norm, passed in zip((ours, theirs), inputs, strict=True):
            (norm(passed) * factors).sum().backward()
        torch.testing.assert_close(ours(values), theirs(values), rtol=1e-5, atol=1e-4)
        torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(ours[0].state_dict(), theirs.state_dict(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.eval()(values), theirs.eval()(values), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("_one_worker")
def test_one_value_per_channel_is_refused_and_small_variances_are_kept() -> None:
    import torch
    from torch import nn

    from plackett.models.neural.batch_norm import synchronize_batch_norm

    net = nn.Sequential(nn.BatchNorm1d(1, momentum=1.0, affine=False))
    synchronize_batch_norm(net, 10.0)
    with pytest.raises(UsageError, match="two values per channel, got 1"):
        net(torch.zeros(1, 1))
    far = 1e6 + torch.tensor([[0.0], [1.0], [2.0]])
    net(far)
    np.testing.assert_allclose(net(far).reshape(-1), [-(1.5**0.5), 0.0, 1.5**0.5], rtol=1e-5)


@pytest.mark.usefixtures("_one_worker")
def test_a_layer_in_two_places_stays_one() -> None:
    from torch import nn

    from plackett.models.neural.batch_norm import synchronize_batch_norm

    norm = nn.BatchNorm1d(3)
    net = nn.Sequential(norm, nn.Linear(3, 3), norm)
    synchronize_batch_norm(net, 10.0)
    assert net[0] is net[2]
    assert net[0].weight is norm.weight
    assert not synchronize_batch_norm(nn.Sequential(nn.Linear(3, 1)), 10.0)
