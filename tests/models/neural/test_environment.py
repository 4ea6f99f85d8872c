"""Whatever a program has set in PyTorch, a fit gives the same weights and leaves it as it was."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from interrupted_fits import same  # noqa: E402
from plackett.base.errors import UsageError  # noqa: E402
from plackett.models import BoostedNeuralRanker, NeuralRanker, load  # noqa: E402
from plackett.models.neural.environment import resolve_device  # noqa: E402

QUICK = {"layers": (8,), "epochs": 2, "batch_lists": 4, "threads": 1}
NETS = [
    NeuralRanker(**QUICK, batch_norm=0.9, dropout=0.2),
    NeuralRanker(**QUICK, attention=1),
    NeuralRanker(**QUICK, group_size=3),
    BoostedNeuralRanker(**QUICK, recurrent="lstm", learners=2),
]


@contextmanager
def _double():
    torch.set_default_dtype(torch.float64)
    yield
    assert torch.get_default_dtype() == torch.float64
    torch.set_default_dtype(torch.float32)


SURROUNDINGS = {
    "double": _double,
    "elsewhere": lambda: torch.device("meta"),
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "swapping": lambda: _swapping(),
}


@contextmanager
def _swapping():
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(False)


@pytest.mark.parametrize("surroundings", SURROUNDINGS.values(), ids=SURROUNDINGS)
def test_a_fit_does_not_depend_on_what_a_program_has_set(surroundings, parts, tmp_path) -> None:
    for place, ranker in enumerate(NETS):
        expected = ranker.clone().fit(*parts[:2])
        with surroundings():
            result = ranker.clone().fit(*parts[:2])
            result.save(tmp_path / f"model-{place}")
            loaded = load(tmp_path / f"model-{place}")
            scores = loaded.predict(parts[2])
        assert same(result, expected)
        assert np.array_equal(scores, expected.predict(parts[2]))


def test_first_weights_leave_generators_of_other_devices_alone(parts, monkeypatch) -> None:
    def refused(*_):
        raise AssertionError("seeds all devices")

    monkeypatch.setattr(torch, "manual_seed", refused)
    ranker = NeuralRanker(**QUICK, dropout=0.3, device="cpu").fit(parts[0])
    assert np.ptp(ranker.predict(parts[0])) > 0


def test_a_device_is_kept_as_text() -> None:
    ranker = NeuralRanker(device=torch.device("cuda", 1))
    assert ranker.device == "cuda:1"
    assert ranker.set_params(device=torch.device("cpu")).device == "cpu"
    assert ranker.clone().get_params()["device"] == "cpu"


def test_a_device_may_be_an_object(parts) -> None:
    named = NeuralRanker(**QUICK, device="cpu").fit(parts[0])
    assert same(NeuralRanker(**QUICK, device=torch.device("cpu")).fit(parts[0]), named)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without GPU")
@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps", "xpu", "meta", "gpu", "", "cpu cpu"])
def test_a_device_that_is_not_there_is_refused_in_one_sentence(name, parts) -> None:
    with pytest.raises(UsageError, match='Use "auto" or "cpu"') as caught:
        NeuralRanker(**QUICK, device=name).fit(parts[0])
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("value", [None, 3, b"cpu"])
def test_objects_that_are_not_devices_are_refused(value, parts) -> None:
    with pytest.raises(UsageError, match="device must be"):
        NeuralRanker(**QUICK, device=value).fit(parts[0])


def test_auto_is_the_processor_without_a_gpu(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device("auto") == torch.device("cuda")
