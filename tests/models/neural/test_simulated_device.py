"""Training, scoring and files on a device that is not the CPU, as strict as a GPU."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

from interrupted_fits import interrupt_fit, weights  # noqa: E402
from plackett.base.errors import UsageError  # noqa: E402
from plackett.models import BoostedNeuralRanker, NeuralRanker, load, recipe  # noqa: E402
from plackett.models.fit_context import LEXICOGRAPHIC  # noqa: E402
from plackett.models.neural.loss import listwise_values  # noqa: E402
from plackett.models.neural.training import Optimizer  # noqa: E402
from plackett.objectives import Stochastic, objective  # noqa: E402
from simulated_device import NAME, SimulatedTensor, simulated_device  # noqa: E402
from user_modules import Buffered, Tied, Turned, dropping  # noqa: E402

QUICK = {"layers": (8,), "epochs": 2, "batch_lists": 4, "learning_rate": 0.01, "threads": 1}


def _name(settings: dict[str, object]) -> str:
    """The same in every process, which the address of a function is not."""
    return ",".join(f"{key}={getattr(v, '__name__', v)}" for key, v in settings.items()) or "plain"


NETS = [
    {},
    {"dropout": 0.3, "batch_norm": 0.9, "activation": "gelu"},
    {"group_size": 2},
    {"recurrent": "rnn"},
    {"recurrent": "rnn", "pooling": "mean", "score_from": "state"},
    {"optimizer": "adagrad", "schedule": "cosine", "clip": 0.1},
    {"optimizer": "adamw", "weight_decay": 0.1, "schedule": "linear", "reduction": "sum"},
    {"batch_lists": None, "batch_documents": 100, "objective": Stochastic("approxndcg")},
    {"module": dropping},
    {"module": Tied},
    {"module": Buffered},
    {"module": Turned},
]


@pytest.fixture
def device(monkeypatch):
    """The device, whose counts of operations show that it was used."""
    # Fused steps, which only the CPU takes, round differently.
    monkeypatch.setattr(Optimizer, "fused_devices", ())
    with simulated_device() as mode:
        yield mode


def _is_there(ranker) -> bool:
    return all(isinstance(value, SimulatedTensor) for value in weights(ranker))


def _equal(there, here) -> bool:
    pairs = zip(weights(there), weights(here), strict=True)
    return all(torch.equal(a.cpu(), b) for a, b in pairs)


@pytest.mark.usefixtures("device")
def test_the_device_refuses_what_a_gpu_refuses() -> None:
    there, here = torch.ones(3, device=NAME), torch.ones(3)
    refused = [
        lambda: there + here,
        lambda: torch.stack([there, here]),
        lambda: here.mul_(there),
        lambda: here[there.long()],
        lambda: there.index_select(0, torch.zeros(1, dtype=torch.int64)),
        lambda: nn.Linear(3, 1)(there),
        there.numpy,
        lambda: np.asarray(there),
        there.double,
        lambda: torch.ones(3, dtype=torch.float64).to(NAME),
    ]
    for item in refused:
        with pytest.raises((RuntimeError, TypeError)):
            item()
    assert torch.equal((there * torch.tensor(2.0)).cpu(), here * 2)
    assert torch.equal(there[torch.tensor([0, 1])].to("cpu"), here[:2])


@pytest.mark.parametrize("settings", NETS, ids=_name)
def test_a_fit_on_the_device_gives_the_weights_of_the_cpu(settings, device, parts) -> None:
    train, validation, test = parts
    there = NeuralRanker(**QUICK | settings, device=NAME).fit(train, validation)
    assert device.done.total() > 0
    assert _is_there(there)
    here = NeuralRanker(**QUICK | settings, device="cpu").fit(train, validation)
    assert _equal(there, here)
    assert there.curves_ == here.curves_
    assert np.array_equal(there.predict(test), here.predict(test))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_cells_on_the_device_give_nearly_the_scores_of_the_cpu(cell, device, parts) -> None:
    """PyTorch has one kernel for all of a cell on devices, and several on the CPU."""
    settings = QUICK | {"recurrent": cell, "objective": "xendcg"}
    there = NeuralRanker(**settings, device=NAME).fit(*parts[:2])
    assert any(f"fused_{cell}_cell_backward" in name for name in device.done)
    here = NeuralRanker(**settings, device="cpu").fit(*parts[:2])
    actual, expected = (item.predict(parts[2]) for item in (there, here))
    # The loss does not depend on the last bias, which Adam moves by rounding errors.
    assert actual - actual.mean() == pytest.approx(expected - expected.mean(), rel=1e-3, abs=1e-4)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_attention_on_the_device_gives_the_weights_of_the_cpu(dropout, parts) -> None:
    settings = QUICK | {"attention": 2, "heads": 2, "dropout": dropout, "epochs": 1}
    # PyTorch has several algorithms for attention, and would choose another for the CPU.
    with sdpa_kernel(SDPBackend.MATH):
        there = NeuralRanker(**settings, device=NAME).fit(*parts[:2])
        here = NeuralRanker(**settings, device="cpu").fit(*parts[:2])
    assert _is_there(there)
    assert _equal(there, here)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("settings", [{}, {"recurrent": "rnn"}, {"module": Tied}], ids=_name)
def test_boosted_nets_on_the_device_equal_those_of_the_cpu(settings, parts) -> None:
    settings = QUICK | settings | {"learners": 3, "shrinkage": 0.1}
    there, here = (BoostedNeuralRanker(**settings, device=item).fit(parts[0]) for item in (NAME, "cpu"))
    assert len(there.networks_) == 3
    assert _equal(there, here)
    assert np.array_equal(there.predict(parts[2]), here.predict(parts[2]))


@pytest.mark.usefixtures("device")
def test_the_lexicographic_selection_on_the_device_equals_that_of_the_cpu(parts) -> None:
    there, here = (
        recipe("urank", **QUICK | {"epochs": 5}, device=item).fit(*parts[:2], metric=LEXICOGRAPHIC)
        for item in (NAME, "cpu")
    )
    assert there.curves_ == here.curves_
    assert _equal(there, here)


@pytest.mark.usefixtures("device", "save_always")
@pytest.mark.parametrize("settings", [{"dropout": 0.2, "batch_norm": 0.9}, {"module": Buffered}])
def test_a_resumed_fit_on_the_device_ends_with_the_same_weights(settings, parts, tmp_path, monkeypatch) -> None:
    settings = QUICK | settings | {"device": NAME}
    whole = NeuralRanker(**settings).fit(*parts[:2])
    interrupt_fit(NeuralRanker(**settings), parts, tmp_path / "state", monkeypatch, saves=9)
    resumed = NeuralRanker(**settings).fit(*parts[:2], checkpoint=tmp_path / "state")
    assert _is_there(resumed)
    assert all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(weights(resumed), weights(whole), strict=True))


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("module", [None, Tied, Turned])
def test_a_model_from_there_is_loaded_here_and_there(module, parts, tmp_path) -> None:
    ranker = NeuralRanker(**QUICK, module=module, device=torch.device(NAME, 0)).fit(parts[0])
    ranker.save(tmp_path / "model")
    scores = ranker.predict(parts[2])
    loaded = load(tmp_path / "model", module=module)
    assert loaded.device == f"{NAME}:0"
    assert np.array_equal(loaded.predict(parts[2]), scores)
    assert _is_there(loaded)
    assert np.array_equal(loaded.set_params(device="cpu").predict(parts[2]), scores)
    assert not _is_there(loaded)


def test_a_model_from_a_device_that_is_gone_says_how_to_use_it(parts, tmp_path) -> None:
    with simulated_device():
        ranker = NeuralRanker(**QUICK, device=NAME).fit(parts[0])
        ranker.save(tmp_path / "model")
        scores = ranker.predict(parts[2])
    loaded = load(tmp_path / "model")
    with pytest.raises(UsageError, match=r"device 'simulated' cannot be used.*device=\"cpu\""):
        loaded.predict(parts[2])
    assert np.array_equal(loaded.set_params(device="cpu").predict(parts[2]), scores)


class _MakesTensorsHere(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(46, 1)

    def forward(self, x):
        return self.linear(x + torch.zeros(x.shape[1]))


@pytest.mark.usefixtures("device")
def test_a_module_that_makes_tensors_elsewhere_is_told(parts) -> None:
    with pytest.raises(UsageError, match=r"_MakesTensorsHere.* same device"):
        NeuralRanker(**QUICK, module=_MakesTensorsHere(), device=NAME).fit(parts[0])


@pytest.mark.usefixtures("device")
def test_gradients_of_scores_from_there_go_back_there(small) -> None:
    lists = objective("approxndcg").bind(small.labels, small.offsets)
    scores = torch.randn(small.n_docs)
    result = []
    for item in (scores, scores.to(NAME)):
        leaf = item.clone().requires_grad_()
        (listwise_values(leaf, lists) * torch.arange(1.0, 11.0, device=item.device)).sum().backward()
        result.append(leaf.grad)
    assert isinstance(result[1], SimulatedTensor)
    assert torch.equal(result[0], result[1].cpu())


@pytest.mark.usefixtures("device")
def test_random_numbers_of_the_user_are_left_alone_there(parts) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    NeuralRanker(**QUICK, dropout=0.5, device=NAME).fit(parts[0])
    assert torch.equal(torch.get_rng_state(), before)
