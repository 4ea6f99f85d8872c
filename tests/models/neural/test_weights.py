from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file, save_file  # noqa: E402

from plackett.base.errors import DataError  # noqa: E402
from plackett.models import BoostedNeuralRanker, NeuralRanker, load  # noqa: E402
from plackett.models.artifact import seal  # noqa: E402
from plackett.objectives import Stochastic  # noqa: E402

QUICK = {"layers": (8,), "epochs": 2, "batch_lists": 4, "threads": 1}


def _saved(ranker, parts, folder):
    ranker.fit(parts[0], parts[1]).save(folder)
    return folder


def _change_settings(folder, **settings) -> None:
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["settings"] |= settings
    file.write_text(json.dumps(seal(manifest)))


def _change_weights(folder, change) -> None:
    """Change the tensors, and the sums in the manifest with them, as an attacker would."""
    path = folder / "weights-1.safetensors"
    tensors = load_file(path)
    save_file(change(tensors), path)
    _sign(folder, path)


def _sign(folder, path) -> None:
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text())
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    manifest["files"][path.name] = {"bytes": len(content), "sha256": digest}
    file.write_text(json.dumps(seal(manifest)))


@pytest.mark.parametrize(
    "ranker",
    [
        NeuralRanker(objective=Stochastic("approxndcg"), **QUICK),
        NeuralRanker(**QUICK, batch_norm=0.9, dropout=0.2),
        NeuralRanker(**QUICK, attention=1, heads=2),
        NeuralRanker(**QUICK, group_size=2),
        BoostedNeuralRanker(**QUICK, recurrent="lstm", learners=2, shrinkage=0.5),
    ],
    ids=["stochastic", "normalised", "attention", "groups", "boosted"],
)
def test_a_saved_model_gives_the_same_scores_to_the_bit(ranker, parts, tmp_path) -> None:
    loaded = load(_saved(ranker, parts, tmp_path / "model"))
    assert loaded.get_params() == ranker.get_params()
    assert np.array_equal(loaded.predict(parts[2]), ranker.predict(parts[2]))


def test_all_nets_of_a_boosted_model_are_saved(parts, tmp_path) -> None:
    ranker = BoostedNeuralRanker(**QUICK, learners=3).fit(parts[0])
    ranker.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert len(loaded.networks_) == 3
    assert np.array_equal(loaded.predict(parts[2]), ranker.predict(parts[2]))


def test_no_file_of_a_model_is_a_pickle(parts, tmp_path) -> None:
    folder = _saved(NeuralRanker(**QUICK), parts, tmp_path / "model")
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["curves.json", "gradients.json", "manifest.json", "weights-1.safetensors"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: {k: v for k, v in t.items() if "bias" not in k}, "does not hold the weights"),
        (lambda t: t | {"extra": torch.ones(1)}, "see 'extra'"),
        (lambda t: {k: v[..., :1].contiguous() for k, v in t.items()}, "of shape"),
        (lambda t: {k: v.double() for k, v in t.items()}, "torch.float64"),
        (lambda t: {k: v * float("nan") for k, v in t.items()}, "not finite"),
    ],
    ids=["missing", "extra", "shape", "type", "nan"],
)
def test_weights_that_are_not_the_nets_are_refused(change, message, parts, tmp_path) -> None:
    folder = _saved(NeuralRanker(**QUICK), parts, tmp_path / "model")
    _change_weights(folder, change)
    with pytest.raises(DataError, match=message):
        load(folder)


def test_a_file_that_holds_no_tensors_is_refused(parts, tmp_path) -> None:
    folder = _saved(NeuralRanker(**QUICK), parts, tmp_path / "model")
    path = folder / "weights-1.safetensors"
    path.write_bytes(b"\x80\x04cos\nsystem\n")
    _sign(folder, path)
    with pytest.raises(DataError, match="holds no weights"):
        load(folder)


def test_a_net_that_is_missing_among_others_is_noticed(parts, tmp_path) -> None:
    BoostedNeuralRanker(**QUICK, learners=2).fit(parts[0]).save(tmp_path / "model")
    file = tmp_path / "model" / "manifest.json"
    manifest = json.loads(file.read_text())
    (tmp_path / "model" / "weights-2.safetensors").rename(tmp_path / "model" / "weights-3.safetensors")
    sums = manifest["files"]
    sums["weights-3.safetensors"] = sums.pop("weights-2.safetensors")
    file.write_text(json.dumps(seal(manifest)))
    with pytest.raises(DataError, match=r"must hold weights-1\.safetensors and so on"):
        load(tmp_path / "model")


def test_settings_that_ask_for_a_huge_net_cost_no_memory(parts, tmp_path) -> None:
    folder = _saved(NeuralRanker(**QUICK), parts, tmp_path / "model")
    _change_settings(folder, layers={"$tuple": [10**7, 10**7]})
    with pytest.raises(DataError, match=r"does not hold the weights|of shape"):
        load(folder)


@pytest.mark.parametrize("settings", [{"layers": "os.system"}, {"activation": "__import__"}, {"heads": 0}], ids=str)
def test_settings_that_make_no_net_are_refused_as_data(settings, parts, tmp_path) -> None:
    folder = _saved(NeuralRanker(**QUICK), parts, tmp_path / "model")
    _change_settings(folder, **settings)
    with pytest.raises(DataError, match=r"settings of the net|layers must be a tuple"):
        load(folder)


def test_a_module_named_in_a_file_is_not_run(parts, tmp_path) -> None:
    folder = _saved(NeuralRanker(**QUICK), parts, tmp_path / "model")
    _change_settings(folder, module="os.system")
    with pytest.raises(DataError, match="module"):
        load(folder)


def test_weights_out_of_a_file_lie_in_memory_as_pytorch_aligns_it(parts, tmp_path) -> None:
    loaded = load(_saved(NeuralRanker(**QUICK), parts, tmp_path / "model"))
    (net,) = loaded.networks_
    assert all(value.data_ptr() % 64 == 0 for value in net.state_dict().values())
