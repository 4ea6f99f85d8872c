from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import plackett as pk  # noqa: E402
from plackett.base.errors import UsageError  # noqa: E402
from plackett.metrics import evaluate  # noqa: E402
from plackett.models import BoostedNeuralRanker, NeuralRanker, recipe  # noqa: E402
from plackett.models.neural.ranker import check_parameters  # noqa: E402
from plackett.models.neural.scorers import build_net  # noqa: E402
from plackett.models.recipes import NEURAL  # noqa: E402
from plackett.objectives import Stochastic, objective  # noqa: E402

SMALL = {"layers": (16,), "epochs": 3, "batch_lists": 3, "learning_rate": 0.01, "threads": 1}
WITH_PRESETS = [(name, preset) for name in NEURAL for preset in NEURAL[name].presets]


def test_all_neural_systems_of_the_papers_are_there() -> None:
    assert set(NEURAL) >= {
        "crossentropy-net",
        "e-crossentropy-net",
        "approxndcg-net",
        "e-approxndcg-net",
        "ranknet-net",
        "urank",
        "uboost",
        "urboost",
        "listmle-net",
        "plistmle-net",
        "lambdaloss-net",
        "mdprank",
    }


@pytest.mark.parametrize("name", NEURAL)
def test_each_recipe_learns_to_rank(name, parts) -> None:
    train, validation, test = parts
    scores = recipe(name, **SMALL).fit(train, validation).predict(test)
    nothing = evaluate(np.zeros(test.n_docs), test, "ndcg@10")["ndcg@10"]
    assert evaluate(scores, test, "ndcg@10")["ndcg@10"] > nothing + 0.05


@pytest.mark.parametrize(("name", "preset"), WITH_PRESETS)
def test_a_net_can_be_built_from_each_preset(name, preset) -> None:
    ranker = recipe(name, preset=preset)
    check_parameters(ranker)
    with torch.device("meta"):
        widths = [m.out_features for m in build_net(ranker, 46).modules() if _is_linear(m)]
    assert tuple(widths[:-1]) == ranker.layers


def _is_linear(module) -> bool:
    return isinstance(module, torch.nn.Linear)


def test_presets_are_what_the_papers_say() -> None:
    web = recipe("approxndcg-net", preset="A-web30k")
    assert web.layers == (1024, 512, 256, 128, 64, 32, 16)
    assert (web.batch_norm, web.optimizer, web.learning_rate) == (0.8, "adagrad", 0.005)
    assert web.batch_norm_epsilon == 1e-3
    assert (web.batch_lists, web.reduction, web.activation) == (128, "sum", "relu")
    assert recipe("crossentropy-net", preset="A-yahoo").batch_norm == 0.99
    tuned = recipe("e-approxndcg-net", preset="A-web30k-tuned")
    assert tuned.layers == (1024, 512, 256)
    assert (tuned.batch_norm, tuned.dropout, tuned.optimizer) == (0.4, 0.5, "adam")
    assert tuned.reduction == "mean"
    ohsumed = recipe("uboost", preset="D-ohsumed")
    assert (ohsumed.layers, ohsumed.learning_rate) == ((100, 50), 1e-4)
    assert (ohsumed.activation, ohsumed.clip, ohsumed.patience) == ("elu", 5.0, 200)
    assert (ohsumed.batch_lists, ohsumed.transforms) == (1, ("query-minmax",))
    assert (ohsumed.learners, ohsumed.shrinkage) == (5, 1.0)
    assert recipe("urank", preset="D-mq2007").layers == (100, 100)
    assert recipe("urank", preset="D-mslr").layers == (200, 200)


def test_stochastic_recipes_take_eight_samples_with_noise_of_scale_one() -> None:
    expected = Stochastic(objective("approxndcg"), samples=8, beta=1.0)
    assert recipe("e-approxndcg-net").objective == expected


def test_urboost_is_uboost_with_a_cell() -> None:
    plain, recurrent = recipe("uboost").get_params(), recipe("urboost").get_params()
    assert {name for name in plain if plain[name] != recurrent[name]} == {"recurrent"}
    assert isinstance(recipe("urboost"), BoostedNeuralRanker)
    assert isinstance(recipe("urank"), NeuralRanker)


@pytest.mark.parametrize("name", ["dasalc", "setrank", "dlcm"])
def test_nets_that_see_the_list_are_saved_resumed_and_not_exported(name, parts, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("plackett.models.checkpoint.Checkpoint.seconds", 0.0)
    train, validation = parts[:2]
    settings = {"layers": (16,), "epochs": 4, "threads": 1}
    ranker = pk.recipe(name, **settings).fit(train, validation)
    ranker.save(tmp_path / "model")
    assert np.array_equal(pk.load(tmp_path / "model").predict(validation), ranker.predict(validation))

    def kill(step):
        if step.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pk.recipe(name, **settings).fit(train, validation, checkpoint=tmp_path / "state", callbacks=kill)
    again = pk.recipe(name, **settings).fit(train, validation, checkpoint=tmp_path / "state")
    assert np.array_equal(again.predict(validation), ranker.predict(validation))
    reason = "reads the whole list" if name == "dlcm" else "attend to each other"
    with pytest.raises(UsageError, match=f"{reason}.*only nets of layers can be exported"):
        pk.export(ranker, tmp_path / "model.onnx", target="onnx")
