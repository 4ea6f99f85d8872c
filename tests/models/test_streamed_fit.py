"""Models learnt from features on disk are those learnt from memory, to the bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import plackett as pk
from plackett.data import large_arrays
from plackett.models.checkpoint import Checkpoint
from plackett.objectives import LambdaRank

TREES = {
    "sampled lists, features and noise": {
        "objective": pk.Stochastic(LambdaRank(sigma=2.0), samples=2, beta=0.25),
        "list_fraction": 0.7,
        "feature_fraction": 0.5,
    },
    "LightGBM's own": {"objective": "lightgbm-lambdarank"},
    "least squares": {"objective": "lambdarank", "growth": "squares"},
    "a sample for the bins": {"lightgbm": {"bin_construct_sample_cnt": 500}},
    "categories and transforms": {"categorical": (0,), "transforms": ("log1p",)},
}


@pytest.fixture(autouse=True)
def _tiny_blocks(monkeypatch):
    monkeypatch.setattr(large_arrays, "LARGE_BYTES", 1000)
    monkeypatch.setattr(large_arrays, "BLOCK_BYTES", 100_000)
    for module in ("ranker", "neural.scoring"):  # the same documents are scored together
        monkeypatch.setattr(f"plackett.models.{module}.SCORING_BLOCK", 500)


@pytest.fixture
def _often(monkeypatch):
    """Save after every step."""
    monkeypatch.setattr(Checkpoint, "seconds", 0.0)
    monkeypatch.setattr(Checkpoint, "share", 1e9)


@pytest.fixture(scope="module")
def parts():
    return pk.split(pk.synthetic("letor", n_lists=80, seed=1), (0.7, 0.3), seed=0)


@pytest.fixture(scope="module")
def streamed(parts, tmp_path_factory):
    """The same parts with features on disk."""
    folder = tmp_path_factory.mktemp("parts")
    result = []
    for name, part in zip(("train", "validation"), parts, strict=True):
        pk.write(part, folder / f"{name}.pkdata")
        result.append(pk.read(folder / f"{name}.pkdata"))
    return result


def small_trees(**settings) -> pk.TreeRanker:
    return pk.TreeRanker(trees=8, leaves=8, learning_rate=0.1, min_documents=5).set_params(**settings)


@pytest.mark.parametrize("name", TREES)
def test_trees_are_the_same(name, parts, streamed) -> None:
    ranker = small_trees(**TREES[name])
    ours, theirs = ranker.clone().fit(*streamed), ranker.clone().fit(*parts)
    assert ours.model_ == theirs.model_
    assert ours.curves_ == theirs.curves_
    assert ours.training_ == theirs.training_
    assert np.array_equal(ours.predict(streamed[1]), theirs.predict(parts[1]))


def test_rare_features_are_kept_where_leaves_may_be_small(tmp_path) -> None:
    rng = np.random.default_rng(0)
    features = rng.random((600, 3), dtype=np.float32)
    labels = rng.integers(0, 2, 600)
    features[:, 2] = 0
    features[::75, 2] = 1  # eight documents: fewer than a leaf has by LightGBM's default
    labels[::75] = 4
    data = pk.Dataset.from_arrays(features, labels, np.arange(600) // 20)
    pk.write(data, tmp_path / "x.pkdata")
    ranker = small_trees(min_documents=2)
    ours = ranker.clone().fit(pk.read(tmp_path / "x.pkdata"))
    assert ours.model_ == ranker.clone().fit(data).model_
    assert ours.importance()["3"] > 0


def test_features_reach_lightgbm_in_blocks(streamed, monkeypatch) -> None:
    from plackett.models.trees.lightgbm_data import Blocks

    heights = []
    original = Blocks.__getitem__

    def seen(self, index):
        result = original(self, index)
        heights.append(len(result) if result.ndim == 2 else 1)
        return result

    monkeypatch.setattr(Blocks, "__getitem__", seen)
    small_trees(trees=1).fit(streamed[0])
    assert 1 < max(heights) < streamed[0].n_docs


def test_missing_features_go_through(parts, tmp_path) -> None:
    features = np.array(parts[0].features)
    features[np.random.default_rng(0).random(features.shape) < 0.1] = np.nan
    data = parts[0].with_features(features)
    pk.write(data, tmp_path / "x.pkdata")
    mapped = pk.read(tmp_path / "x.pkdata", missing="nan")
    assert small_trees().fit(mapped).model_ == small_trees().fit(data).model_
    with pytest.raises(pk.DataError, match="cannot take missing features"):
        pk.LinearRanker().fit(mapped)


def test_contributions_are_the_same(parts, streamed) -> None:
    ranker = small_trees().fit(parts[0])
    ours, theirs = ranker.contributions(streamed[1]), ranker.contributions(parts[1])
    assert large_arrays.is_large(ours)
    assert np.array_equal(ours, theirs)


@pytest.mark.usefixtures("_often")
@pytest.mark.parametrize("name", ["sampled lists, features and noise", "least squares"])
def test_interrupted_trees_end_in_the_same_model(name, parts, streamed, tmp_path) -> None:
    ranker = small_trees(**TREES[name])
    whole = ranker.clone().fit(*parts)
    for at in (3, 5):
        with pytest.raises(InterruptedError):
            ranker.clone().fit(*streamed, checkpoint=tmp_path / "fit", progress=stop_at(at))
    # It makes no difference to a checkpoint where the features are.
    resumed = ranker.clone().fit(*streamed, checkpoint=tmp_path / "fit")
    assert resumed.model_ == whole.model_
    assert resumed.curves_ == whole.curves_


def stop_at(step):
    def stop(_text, done, _total) -> None:
        if done == step:
            raise InterruptedError

    return stop


KILLED = """
import sys, time
import plackett as pk
from plackett.data import large_arrays
from plackett.models.checkpoint import Checkpoint
large_arrays.LARGE_BYTES, large_arrays.BLOCK_BYTES = 1000, 100_000
Checkpoint.seconds, Checkpoint.share = 0.0, 1e9
def slowly(text, done, total):
    print(done, flush=True)
    time.sleep(0.05)
train = pk.stream(sys.argv[1])
ranker = pk.TreeRanker(trees=8, leaves=8, learning_rate=0.1, min_documents=5, threads=1)
ranker.fit(train, checkpoint=sys.argv[2], progress=slowly)
"""


def test_a_killed_process_leaves_no_scratch_and_goes_on_to_the_same_model(tmp_path) -> None:
    data = pk.synthetic("letor", n_lists=40, seed=2)
    (tmp_path / "data").mkdir()
    pk.write(data, tmp_path / "data" / "train.parquet")
    script = tmp_path / "fit.py"
    script.write_text(KILLED)
    command = [sys.executable, script, tmp_path / "data", tmp_path / "fit"]
    kill_after([str(word) for word in command], 3)
    assert os.listdir(tmp_path / "data") == ["train.parquet"]
    resumed = small_trees(threads=1).fit(pk.stream(tmp_path / "data"), checkpoint=tmp_path / "fit")
    assert resumed.model_ == small_trees(threads=1).fit(data).model_


def kill_after(command, steps: int) -> None:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 200
        for line in process.stdout:
            if int(line) >= steps or time.monotonic() > deadline:
                os.kill(process.pid, signal.SIGKILL)
                break
        assert process.wait() == -signal.SIGKILL


NETS = {
    "plain": {},
    "scaled lists": {"transforms": ("query-minmax",), "batch_documents": 300},
    "attention": {"attention": 1, "layers": (8,)},
}


@pytest.mark.parametrize("name", NETS)
def test_nets_are_the_same(name, parts, streamed) -> None:
    torch = pytest.importorskip("torch")
    ranker = pk.NeuralRanker(layers=(16,), epochs=3, batch_lists=8, threads=1)
    ranker.set_params(**NETS[name])
    ours, theirs = ranker.clone().fit(*streamed), ranker.clone().fit(*parts)
    weights = [item.networks_[0].state_dict() for item in (ours, theirs)]
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[1])
    assert ours.curves_ == theirs.curves_
    assert np.array_equal(ours.predict(streamed[1]), theirs.predict(parts[1]))


@pytest.mark.usefixtures("_often")
def test_interrupted_nets_end_in_the_same_weights(parts, streamed, tmp_path) -> None:
    pytest.importorskip("torch")
    ranker = pk.NeuralRanker(layers=(16,), epochs=4, batch_lists=8, threads=1)
    with pytest.raises(InterruptedError):
        ranker.clone().fit(*streamed, checkpoint=tmp_path / "fit", progress=stop_at(2))
    resumed = ranker.clone().fit(*streamed, checkpoint=tmp_path / "fit")
    whole = ranker.clone().fit(*parts)
    assert np.array_equal(resumed.predict(parts[1]), whole.predict(parts[1]))


@pytest.mark.parametrize("name", ["linear", "crossfit", "stumps"])
def test_other_models_are_the_same(name, parts, streamed) -> None:
    ranker = {
        "linear": pk.LinearRanker(objective="xendcg"),
        "crossfit": pk.CrossFit(small_trees(), folds=2),
        "stumps": pk.StumpRanker(),
    }[name]
    ours, theirs = ranker.clone().fit(*streamed), ranker.clone().fit(*parts)
    assert np.array_equal(ours.predict(streamed[1]), theirs.predict(parts[1]))


def test_features_of_another_number_are_refused(parts, streamed) -> None:
    ranker = small_trees(trees=1).fit(parts[0])
    other = pk.synthetic("web", n_lists=5, seed=0)
    with pytest.raises(pk.FeatureMismatch):
        ranker.predict(other)
    assert len(ranker.predict(streamed[1])) == streamed[1].n_docs
