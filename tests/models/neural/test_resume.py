from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch")

from interrupted_fits import interrupt_fit, same, states, weights  # noqa: E402
from plackett.data.synthetic import synthetic  # noqa: E402
from plackett.models import BoostedNeuralRanker, NeuralRanker  # noqa: E402

SETTINGS = {
    "layers": (16, 8),
    "dropout": 0.2,
    "batch_norm": 0.9,
    "epochs": 3,
    "batch_lists": 5,
    "learning_rate": 0.01,
    "schedule": "cosine",
    "threads": 1,
}


@pytest.mark.usefixtures("save_always")
@pytest.mark.parametrize("saves", [1, 9, 18])
@pytest.mark.parametrize("optimizer", ["adam", "adagrad"])
def test_a_resumed_fit_ends_with_the_same_weights(saves, optimizer, parts, tmp_path, monkeypatch) -> None:
    ranker = NeuralRanker(**SETTINGS, optimizer=optimizer)
    whole = NeuralRanker(**SETTINGS, optimizer=optimizer).fit(parts[0], parts[1])
    interrupt_fit(ranker, parts, tmp_path / "state", monkeypatch, saves=saves)
    resumed = NeuralRanker(**SETTINGS, optimizer=optimizer)
    resumed.fit(parts[0], parts[1], checkpoint=tmp_path / "state")
    assert same(resumed, whole)
    assert resumed.curves_ == whole.curves_


@pytest.mark.usefixtures("save_always")
@pytest.mark.parametrize("saves", [12, 28])
def test_a_boosted_fit_goes_on_in_any_of_its_nets(saves, parts, tmp_path, monkeypatch) -> None:
    settings = SETTINGS | {"recurrent": "rnn", "epochs": 2, "learners": 3, "shrinkage": 0.01}
    train = (parts[0], None)
    whole = BoostedNeuralRanker(**settings).fit(parts[0])
    broken = BoostedNeuralRanker(**settings)
    interrupt_fit(broken, train, tmp_path / "state", monkeypatch, saves=saves)
    resumed = BoostedNeuralRanker(**settings).fit(parts[0], checkpoint=tmp_path / "state")
    assert len(whole.networks_) == 3
    assert same(resumed, whole)
    assert resumed.curves_ == whole.curves_


@pytest.mark.usefixtures("save_always")
def test_a_fit_that_is_over_is_not_done_again(parts, tmp_path) -> None:
    told = []
    ranker = NeuralRanker(**SETTINGS)
    first = ranker.fit(parts[0], parts[1], checkpoint=tmp_path / "state")
    before = [value.clone() for value in weights(first)]
    ranker.fit(parts[0], parts[1], checkpoint=tmp_path / "state", progress=lambda *what: told.append(what))
    assert told == []
    assert all(torch.equal(a, b) for a, b in zip(before, weights(ranker), strict=True))


PROGRAM = """
import sys
import plackett as pk
from plackett.models.checkpoint import Checkpoint
Checkpoint.seconds, Checkpoint.share = 0.0, 1e9
ranker = pk.NeuralRanker(layers=(8,), epochs=5, batch_lists=2, dropout=0.1, threads=1)
data = pk.synthetic("letor", n_lists=30, seed=1)
ranker.fit(data.lists(0, 20), data.lists(20, 30), checkpoint=sys.argv[1])
"""


def test_a_killed_process_is_taken_up_to_the_same_bits(tmp_path) -> None:
    command = [sys.executable, "-c", PROGRAM]
    quick = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    state = tmp_path / "state"
    with subprocess.Popen([*command, state], env=quick) as process:
        while process.poll() is None and not states(state, at_least=10):
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    data = synthetic("letor", n_lists=30, seed=1)
    for name, checkpoint in (("resumed", state), ("whole", None)):
        ranker = NeuralRanker(layers=(8,), epochs=5, batch_lists=2, dropout=0.1, threads=1)
        ranker.fit(data.lists(0, 20), data.lists(20, 30), checkpoint=checkpoint).save(tmp_path / name)
    resumed, whole = ((tmp_path / name / "weights-1.safetensors").read_bytes() for name in ("resumed", "whole"))
    assert resumed == whole
