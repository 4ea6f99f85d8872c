"""Every model passes the weights of documents on to its objective."""

from __future__ import annotations

import numpy as np
import pytest

import plackett as pk
from plackett.base.errors import UsageError

SMALL = {"trees": 5, "leaves": 4, "learning_rate": 0.3, "threads": 1}


def _models():
    return {
        "lambdarank trees": pk.TreeRanker(objective="lambdarank", **SMALL),
        "xendcg trees": pk.TreeRanker(objective="xendcg", **SMALL),
        "listmle trees": pk.TreeRanker(objective="listmle", **SMALL),
        "stochastic trees": pk.TreeRanker(objective=pk.Stochastic(pk.objective("lambdarank"), samples=2), **SMALL),
        "listnet": pk.LinearRanker(objective="listnet", transforms=("standard",)),
        "ranksvm": pk.LinearRanker(objective="ranksvm", C=0.1, transforms=("standard",)),
        "convexloss": pk.LinearRanker(objective="convexloss-ndcg", C=0.1, transforms=("standard",), max_iterations=3),
        "stumps": pk.StumpRanker(rounds=5),
        "crossfit": pk.CrossFit(pk.LinearRanker(objective="listnet", C=1.0), folds=2),
    }


@pytest.fixture(scope="module")
def data():
    whole = pk.synthetic("letor", n_lists=40, seed=2)
    rng = np.random.default_rng(0)
    weights = np.where(whole.labels > 0, rng.choice([0.2, 1.0, 6.0], whole.n_docs), 1.0)
    return whole._replace(document_weights=weights)


@pytest.mark.filterwarnings("ignore::plackett.ConvergenceWarning")
@pytest.mark.parametrize("name", _models())
def test_models_learn_from_weights_of_documents(data, name) -> None:
    data = data.lists(0, 8) if name == "convexloss" else data  # its gradient takes long
    plain = data._replace(document_weights=None)
    ones = data._replace(document_weights=np.ones(data.n_docs))
    without, of_ones, weighted = (_models()[name].fit(item).predict(plain) for item in (plain, ones, data))
    assert np.array_equal(without, of_ones)
    assert not np.array_equal(without, weighted)


@pytest.mark.parametrize("objective", ["urank", "xendcg"])
def test_nets_learn_from_weights_of_documents(data, objective) -> None:
    pytest.importorskip("torch")
    plain = data._replace(document_weights=None)
    ones = data._replace(document_weights=np.ones(data.n_docs))
    settings = {"objective": objective, "layers": (8,), "epochs": 2, "seed": 0}
    without, of_ones, weighted = (pk.NeuralRanker(**settings).fit(item).predict(plain) for item in (plain, ones, data))
    assert np.array_equal(without, of_ones)
    assert not np.array_equal(without, weighted)


@pytest.mark.parametrize("model", ["linear", "stumps"])
def test_a_weight_of_two_is_the_same_as_the_document_twice(model) -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(60, 4)).astype(np.float32)
    labels, lists = rng.integers(0, 2, 60), np.arange(60) // 10
    times = np.where((labels > 0) & (np.arange(60) % 3 == 0), 2, 1)
    copied = np.repeat(np.arange(60), times)
    weighted = pk.Dataset.from_arrays(features, labels, lists, document_weights=times)
    twice = pk.Dataset.from_arrays(features[copied], labels[copied], lists[copied])

    def made():
        if model == "stumps":
            return pk.StumpRanker(rounds=8)
        return pk.LinearRanker(objective="ranksvm", C=0.5, gap=1e-5)

    one, other = (made().fit(item).predict(weighted) for item in (weighted, twice))
    # Scaling of features, which sees the copies, shifts all scores alike.
    one, other = one - one.mean(), other - other.mean()
    np.testing.assert_allclose(one, other, atol=5e-3 * np.abs(one).max())


def test_urboost_weighs_its_levels(data) -> None:
    pytest.importorskip("torch")
    recipe = pk.recipe("urboost", epochs=2, learners=2, layers=(8, 4))
    plain = data._replace(document_weights=None)
    assert not np.array_equal(
        recipe.fit(plain).predict(plain),
        pk.recipe("urboost", epochs=2, learners=2, layers=(8, 4)).fit(data).predict(plain),
    )


def test_what_cannot_weigh_documents_refuses(data) -> None:
    with pytest.raises(UsageError, match="svmmap does not support document weights"):
        pk.LinearRanker(objective="svmmap").fit(data)
    with pytest.raises(UsageError, match=r"LightGBM's .* does not support document weights"):
        pk.recipe("lightgbm-lambdarank", trees=3).fit(data)
