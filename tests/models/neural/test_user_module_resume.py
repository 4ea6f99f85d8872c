from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import user_modules  # noqa: E402
from interrupted_fits import interrupt_fit, same, states  # noqa: E402
from plackett.base.errors import DataError, UsageError  # noqa: E402
from plackett.data.synthetic import synthetic  # noqa: E402
from plackett.models import BoostedNeuralRanker, NeuralRanker  # noqa: E402
from user_modules import MAKERS, Buffered, Tied, dropping  # noqa: E402

SETTINGS = {"epochs": 3, "batch_lists": 5, "learning_rate": 0.01, "threads": 1}


def _instance(maker):
    torch.manual_seed(5)
    return maker(46)


@pytest.mark.usefixtures("save_always")
@pytest.mark.parametrize("as_function", [False, True])
@pytest.mark.parametrize("maker", MAKERS)
def test_a_resumed_fit_of_a_user_module_ends_with_the_same_weights(
    maker, as_function, parts, tmp_path, monkeypatch
) -> None:
    def ranker() -> NeuralRanker:
        return NeuralRanker(module=maker if as_function else _instance(maker), **SETTINGS)

    whole = ranker().fit(parts[0], parts[1])
    interrupt_fit(ranker(), parts, tmp_path / "state", monkeypatch, saves=11)
    resumed = ranker().fit(parts[0], parts[1], checkpoint=tmp_path / "state")
    assert same(resumed, whole)
    assert resumed.curves_ == whole.curves_


@pytest.mark.usefixtures("save_always")
def test_a_boosted_fit_of_a_user_module_resumes(parts, tmp_path, monkeypatch) -> None:
    settings = SETTINGS | {"module": dropping, "epochs": 2, "learners": 3, "shrinkage": 0.01}
    whole = BoostedNeuralRanker(**settings).fit(parts[0])
    broken = BoostedNeuralRanker(**settings)
    interrupt_fit(broken, (parts[0], None), tmp_path / "state", monkeypatch, saves=28)
    resumed = BoostedNeuralRanker(**settings).fit(parts[0], checkpoint=tmp_path / "state")
    assert len(whole.networks_) == 3
    assert same(resumed, whole)


class _Doubled(Tied):
    def forward(self, x):
        return 2.0 * super().forward(x)


def _other_weight():
    net = _instance(Tied)
    with torch.no_grad():
        net.last.bias += 1e-6
    return net


def _frozen():
    net = _instance(Tied)
    net.first.weight.requires_grad_(False)
    return net


@pytest.mark.usefixtures("save_always")
@pytest.mark.parametrize(
    "other",
    [
        lambda: _instance(Buffered),
        _other_weight,
        _frozen,
        lambda: _instance(_Doubled),
        lambda: nn.Sequential(_instance(Tied), nn.Dropout(0.1)),
        lambda: None,
        lambda: Tied,
    ],
    ids=["another", "weight", "frozen", "code", "dropout", "none", "function"],
)
def test_another_module_cannot_resume_a_state(other, parts, tmp_path, monkeypatch) -> None:
    ranker = NeuralRanker(module=_instance(Tied), **SETTINGS)
    interrupt_fit(ranker, parts, tmp_path / "state", monkeypatch, saves=2)
    with pytest.raises(UsageError, match="belongs to another fit"):
        NeuralRanker(module=other(), **SETTINGS).fit(parts[0], parts[1], checkpoint=tmp_path / "state")


@pytest.mark.usefixtures("save_always")
def test_a_function_that_takes_its_own_data_only_is_told_apart_by_what_it_makes(parts, tmp_path, monkeypatch) -> None:
    scale = [1.0]

    def picky(n_features: int) -> nn.Module:
        if n_features != 46:
            raise ValueError("46 features")
        net = nn.Linear(46, 1)
        with torch.no_grad():
            net.weight *= scale[0]
        return net

    ranker = NeuralRanker(module=picky, **SETTINGS)
    interrupt_fit(ranker, parts, tmp_path / "state", monkeypatch, saves=2)
    scale[0] = 2.0
    with pytest.raises(UsageError, match=r"another module: .*picky has another structure or begin"):
        ranker.fit(parts[0], parts[1], checkpoint=tmp_path / "state")
    scale[0] = 1.0
    ranker.fit(parts[0], parts[1], checkpoint=tmp_path / "state")


@pytest.mark.usefixtures("save_always")
@pytest.mark.parametrize("module", [None, Tied])
def test_a_damaged_state_is_named(module, parts, tmp_path, monkeypatch) -> None:
    ranker = NeuralRanker(module=module, layers=(4,), **SETTINGS)
    interrupt_fit(ranker, parts, tmp_path / "kept", monkeypatch, saves=3)

    def damaged(change) -> str:
        shutil.copytree(tmp_path / "kept", tmp_path / "state", dirs_exist_ok=True)
        (folder,) = (tmp_path / "state").glob("step-*")
        change(folder)
        with pytest.raises(DataError, match="delete the checkpoint's folder") as caught:
            ranker.fit(parts[0], parts[1], checkpoint=tmp_path / "state")
        shutil.rmtree(tmp_path / "state")
        return str(caught.value)

    plain, tensors = "state.json", "state.safetensors"
    assert plain in damaged(lambda f: (f / plain).write_text('{"done": {'))
    assert plain in damaged(lambda f: (f / plain).write_text("[1]"))
    assert plain in damaged(lambda f: (f / plain).unlink())
    assert "step-3" in damaged(lambda f: (f / plain).write_text('{"done": 5}'))
    assert "step-3" in damaged(lambda f: (f / plain).write_text((f / plain).read_text().replace('"epoch"', '"other"')))
    assert tensors in damaged(lambda f: (f / tensors).write_bytes(b"not tensors"))
    assert tensors in damaged(lambda f: (f / tensors).unlink())
    assert "step-3" in damaged(_without_a_tensor)


def _without_a_tensor(folder) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "state.safetensors")
    name = next(name for name in tensors if name.startswith("net."))
    save_file({k: v for k, v in tensors.items() if k != name}, folder / "state.safetensors")


PROGRAM = """
import sys
import plackett as pk
from user_modules import dropping
from plackett.models.checkpoint import Checkpoint
Checkpoint.seconds, Checkpoint.share = 0.0, 1e9
ranker = pk.NeuralRanker(module=dropping, epochs=5, batch_lists=2, threads=1)
data = pk.synthetic("letor", n_lists=30, seed=1)
ranker.fit(data.lists(0, 20), data.lists(20, 30), checkpoint=sys.argv[1])
"""


def test_a_killed_fit_of_a_user_module_resumes_to_the_same_bits(tmp_path) -> None:
    command = [sys.executable, "-c", PROGRAM]
    path = os.pathsep.join([os.path.dirname(user_modules.__file__), os.environ.get("PYTHONPATH", "")])
    quick = {**os.environ, "OMP_WAIT_POLICY": "passive", "PYTHONPATH": path}
    state = tmp_path / "state"
    with subprocess.Popen([*command, state], env=quick) as process:
        while process.poll() is None and not states(state, at_least=10):
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    data = synthetic("letor", n_lists=30, seed=1)
    for name, checkpoint in (("resumed", state), ("whole", None)):
        ranker = NeuralRanker(module=dropping, epochs=5, batch_lists=2, threads=1)
        ranker.fit(data.lists(0, 20), data.lists(20, 30), checkpoint=checkpoint).save(tmp_path / name)
    resumed, whole = ((tmp_path / name / "weights-1.safetensors").read_bytes() for name in ("resumed", "whole"))
    assert resumed == whole
