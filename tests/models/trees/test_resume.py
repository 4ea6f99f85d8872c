"""A fit that is killed goes on where it was and ends in the same model, to the bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

import plackett as pk
from plackett.models.checkpoint import Checkpoint
from plackett.objectives import LambdaRank

BASE = {
    "trees": 24,
    "leaves": 8,
    "learning_rate": 0.1,
    "min_documents": 5,
    "list_fraction": 0.7,
    "feature_fraction": 0.5,
    "patience": 10,
}
RANKERS = {
    "sampled lists, features and noise": {"objective": pk.Stochastic(LambdaRank(sigma=2.0), samples=4, beta=0.25)},
    "least squares and a smoothed choice": {"objective": "lambdarank", "growth": "squares", "smoothing": 5},
    "LightGBM's own": {"objective": "lightgbm-lambdarank", "list_fraction": 1.0},
}

KILLED = """
import sys, time
import plackett as pk
from plackett.models.checkpoint import Checkpoint
Checkpoint.seconds, Checkpoint.share = 0.0, 1e9
train, validation, _ = pk.split(pk.synthetic("letor", n_lists=80, seed=1), (0.6, 0.2, 0.2), seed=0)
objective = pk.Stochastic(pk.objectives.LambdaRank(sigma=2.0), samples=4, beta=0.25)
ranker = pk.TreeRanker(objective=objective, trees=24, leaves=8, learning_rate=0.1, min_documents=5,
                       list_fraction=0.7, feature_fraction=0.5, patience=10, threads=1)
def slowly(text, done, total):
    print(done, flush=True)
    time.sleep(0.02)
ranker.fit(train, validation, checkpoint=sys.argv[1], progress=slowly)
"""


@pytest.fixture(scope="module")
def parts():
    return pk.split(pk.synthetic("letor", n_lists=80, seed=1), (0.6, 0.2, 0.2), seed=0)


@pytest.fixture
def _often(monkeypatch):
    """Save after every tree."""
    monkeypatch.setattr(Checkpoint, "seconds", 0.0)
    monkeypatch.setattr(Checkpoint, "share", 1e9)


@pytest.mark.usefixtures("_often")
@pytest.mark.parametrize("name", RANKERS)
def test_an_interrupted_fit_ends_in_the_same_model(name, parts, tmp_path) -> None:
    train, validation, _ = parts
    ranker = pk.TreeRanker(**BASE | RANKERS[name])
    whole = ranker.clone().fit(train, validation)
    stops = iter((3, 8, 9))
    at = next(stops)

    def stop(_text, done, _total) -> None:
        nonlocal at
        if done == at:
            at = next(stops, -1)
            raise InterruptedError

    for _ in range(3):
        with pytest.raises(InterruptedError):
            ranker.clone().fit(train, validation, checkpoint=tmp_path / "fit", progress=stop)
    resumed = ranker.clone().fit(train, validation, checkpoint=tmp_path / "fit")
    assert resumed.model_ == whole.model_
    assert resumed.curves_ == whole.curves_


def test_a_process_killed_repeatedly_ends_in_the_same_model(parts, tmp_path) -> None:
    train, validation, _ = parts
    whole = pk.TreeRanker(**BASE | RANKERS["sampled lists, features and noise"]).fit(train, validation)
    script = tmp_path / "fit.py"
    script.write_text(KILLED)
    command = [sys.executable, str(script), str(tmp_path / "fit")]
    for seen in (3, 7):
        _kill_after(command, seen)
    resumed = pk.TreeRanker(**BASE | RANKERS["sampled lists, features and noise"] | {"threads": 1})
    resumed.fit(train, validation, checkpoint=tmp_path / "fit")
    assert resumed.model_.split("parameters:")[0] == whole.model_.split("parameters:")[0]


def _kill_after(command, steps: int) -> None:
    """Kill the process with no warning once it has reported so many trees."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 200
        for line in process.stdout:
            if int(line) >= steps or time.monotonic() > deadline:
                os.kill(process.pid, signal.SIGKILL)
                break
        assert process.wait() == -signal.SIGKILL


@pytest.mark.usefixtures("_often")
def test_a_finished_fit_is_loaded_from_its_checkpoint(parts, tmp_path) -> None:
    train, validation, _ = parts
    ranker = pk.TreeRanker(**BASE, objective="xendcg")
    first = ranker.clone().fit(train, validation, checkpoint=tmp_path / "fit")
    steps = []
    again = ranker.clone().fit(
        train, validation, checkpoint=tmp_path / "fit", progress=lambda *seen: steps.append(seen)
    )
    assert again.model_ == first.model_
    assert steps == []


def test_random_state_inside_lightgbm_cannot_be_resumed(parts, tmp_path) -> None:
    train, _, _ = parts
    bagging = {"bagging_fraction": 0.5, "bagging_freq": 1}
    cases = (
        {"lightgbm": bagging},
        {"lightgbm": {"colsample_bynode": 0.5}},
        {"lightgbm": {"use_quantized_grad": True, "num_grad_quant_bins": 8}},
        {"quantized": True},
        {"objective": "lightgbm-xendcg"},
    )
    for i, settings in enumerate(cases):
        with pytest.raises(pk.UsageError, match="cannot be resumed to the same model"):
            pk.TreeRanker(trees=2, **settings).fit(train, checkpoint=tmp_path / str(i))


def test_a_changed_custom_objective_is_another_fit(parts, tmp_path) -> None:
    def kernel(scores, labels, params, gradient, curvature):
        value = 0.0
        for i in range(len(scores)):
            error = scores[i] - params[0] * labels[i]
            value += 0.5 * error * error
            gradient[i] = error
            curvature[i] = 1.0
        return value

    train, _, _ = parts
    for sign in (1.0, -1.0):
        objective = pk.objectives.custom(kernel, params=(sign,), name="mine")
        ranker = pk.TreeRanker(objective=objective, trees=2, leaves=4)
        if sign > 0:
            ranker.fit(train, checkpoint=tmp_path / "fit")
            continue
        with pytest.raises(pk.UsageError, match="belongs to another fit"):
            ranker.fit(train, checkpoint=tmp_path / "fit")
