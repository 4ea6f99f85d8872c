"""Categories of text: trees split them, other models refuse them, models keep their numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import plackett as pk
from plackett.base.errors import DataError

NAMES = ["ape", "bee", "cat", "dog", "eel", "fox"]
GOOD = {"bee", "eel"}


def _frame(seed: int, names: list[str] = NAMES) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    kind = rng.choice(names, 600)
    label = np.isin(kind, list(GOOD)).astype(int)
    columns = {"qid": np.repeat(np.arange(60), 10), "label": label, "x": rng.normal(size=600)}
    return pd.DataFrame(columns | {"kind": pd.Categorical(kind)})


def _ranker() -> pk.TreeRanker:
    return pk.TreeRanker(trees=15, leaves=4, min_documents=1, learning_rate=0.3, threads=1)


def test_trees_split_categories_and_number_them_as_in_the_fit(tmp_path) -> None:
    train = pk.Dataset(_frame(0))
    ranker = _ranker().fit(train, pk.Dataset(_frame(1, NAMES[1:])))
    assert ranker.categories_ == {"kind": tuple(NAMES)}
    test = _frame(2, NAMES[1:])  # without the first, all numbers differ
    scores = ranker.predict(pk.Dataset(test))
    assert pk.evaluate(scores, pk.Dataset(test), "ndcg@10")["ndcg@10"] == pytest.approx(1.0)
    ranker.save(tmp_path / "m.plackett")
    again = pk.load(tmp_path / "m.plackett")
    assert again.categories_ == ranker.categories_
    assert np.array_equal(again.predict(pk.Dataset(test)), scores)


def test_tables_are_scored_by_the_categories_of_the_fit() -> None:
    ranker = _ranker().fit(_frame(0), label="label", query="qid")
    test = _frame(2, NAMES[1:])
    expected = ranker.predict(pk.Dataset(test))
    assert np.array_equal(ranker.predict(test), expected)
    assert np.array_equal(ranker.predict(test[["kind", "x"]]), expected)


def test_cross_fitted_members_share_the_numbers() -> None:
    ranker = pk.CrossFit(_ranker(), folds=2).fit(pk.Dataset(_frame(0)))
    test = pk.Dataset(_frame(2, NAMES[1:]))
    assert pk.evaluate(ranker.predict(test), test, "ndcg@10")["ndcg@10"] == pytest.approx(1.0)


def test_other_models_say_what_to_do() -> None:
    with pytest.raises(DataError, match="feature 'kind' holds categories, which LinearRanker"):
        pk.LinearRanker().fit(pk.Dataset(_frame(0)))
