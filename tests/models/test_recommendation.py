"""Which recipe to begin with follows from the size and kind of the data."""

from __future__ import annotations

import numpy as np
import pytest

import plackett as pk
from plackett.models.recipes import RECIPES, recommend


def _data(n_lists: int, size: int = 10, labels=(0, 1, 2), **more) -> pk.Dataset:
    rng = np.random.default_rng(0)
    n = n_lists * size
    y = np.resize(np.array(labels), n)
    return pk.Dataset.from_arrays(rng.normal(size=(n, 3)), y, np.repeat(np.arange(n_lists), size), **more)


@pytest.mark.parametrize(
    ("data", "recipe", "crossfit"),
    [
        (_data(10), "listnet-linear", 0),
        (_data(100), "e-lambdaloss-mart", 5),
        (_data(4000), "e-lambdaloss-mart", 0),
        (_data(40, size=1200), "xendcg-mart", 5),
    ],
    ids=["few", "small", "many", "long"],
)
def test_size_decides(data, recipe, crossfit) -> None:
    advice = recommend(data)
    assert (advice.recipe, advice.crossfit) == (recipe, crossfit)
    assert {advice.recipe, *advice.compare_with} <= set(RECIPES)
    assert advice.reasons
    assert ("--crossfit 5" in advice.command("x.parquet")) == bool(crossfit)


def test_clicks_have_weights_that_some_recipes_refuse() -> None:
    documents = pk.Dataset.from_arrays([[0.3], [0.9], [0.1]] * 50, None, np.repeat(np.arange(50), 3),
                                       document_ids=["a", "b", "c"] * 50)  # fmt: skip
    query = np.repeat(np.arange(50), 3)
    log = {
        "impression": query,
        "query": query,
        "document": ["a", "b", "c"] * 50,
        "position": [1, 2, 3] * 50,
        "click": [0, 1, 1] * 50,
    }
    advice = recommend(pk.Dataset.from_clicks(log, documents, propensities=[1.0, 0.5, 0.25]))
    assert advice.recipe == "xendcg-mart"
    assert "lightgbm-lambdarank" not in advice.compare_with
    assert any("do not support the weights" in text for text in advice.cautions)


def test_labels_decide_the_metric_and_the_cautions() -> None:
    assert recommend(_data(100, labels=[0] * 9 + [1])).metric == "mrr"
    assert recommend(_data(100)).metric == "ndcg@10"
    assert any("map them to grades" in text for text in recommend(_data(100, labels=(0, 50, 100))).cautions)
    with pytest.raises(pk.DataError, match="nothing to learn from"):
        recommend(_data(5, labels=(1,)))
