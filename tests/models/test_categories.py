"""Categories: trees split them, other models encode them, models keep their numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import plackett as pk
from plackett.base.errors import DataError, UsageError
from plackett.data.transforms import FittedCategories, encode_categories, transform_from_dict

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


@pytest.mark.parametrize(
    "ranker",
    [pk.LinearRanker(C=1.0), pk.StumpRanker(rounds=10), pk.NeuralRanker(epochs=10, layers=(8,), batch_lists=8)],
)
def test_other_models_encode_them_by_their_mean_label(ranker, tmp_path) -> None:
    ranker.fit(_frame(0), label="label", query="qid")
    test = _frame(2, [*NAMES[1:], "unknown"])
    scores = ranker.predict(test)
    assert pk.evaluate(scores, pk.Dataset(test))["ndcg@10"] > 0.95
    ranker.save(tmp_path / "m.plackett")
    assert np.array_equal(pk.load(tmp_path / "m.plackett").predict(test), scores)
    with pytest.raises(UsageError, match="encodes categories, which export targets do not support"):
        pk.export(ranker, tmp_path / "m", "ranklib")


def test_the_encoding_is_the_mean_label_relative_to_lists() -> None:
    frame = {"qid": [1, 1, 2, 2], "label": [2, 0, 3, 1], "x": [0.0] * 4, "kind": ["a", "b", "a", None]}
    data = pk.Dataset(frame, categorical=["kind"], missing="nan")
    encoding = encode_categories(data)
    assert encoding.values.tolist() == [(1 + 1) / (2 + 10), -1 / (1 + 10)]
    features = np.array([[0, 0], [5, 1], [5, np.nan], [5, 7]], np.float32)
    expected = np.float32([[0, 2 / 12], [5, -1 / 11], [5, 0], [5, 0]])
    assert np.array_equal(encoding.apply(features, np.array([0, 4])), expected)
    assert transform_from_dict(encoding.to_dict()) == encoding
    with pytest.raises(DataError, match="belong together"):
        FittedCategories((0,), (3,), np.zeros(2))


def test_text_and_numbers_are_categories_where_they_are_named(tmp_path) -> None:
    text = _frame(0).assign(brand=np.tile([7, 8, 9], 200))
    text["kind"] = text["kind"].astype(str)
    with pytest.raises(DataError, match=r"column 'kind' holds .*take it as categories with categorical="):
        pk.Dataset(text)
    names = ["kind", "brand"]
    expected = pk.Dataset(text, categorical=names)
    assert expected.categories == {"kind": tuple(NAMES), "brand": ("7", "8", "9")}
    text.to_csv(tmp_path / "t.csv", index=False)
    text.to_parquet(tmp_path / "t.parquet")
    for data in (
        pk.read(tmp_path / "t.csv", categorical=names),
        pk.stream(tmp_path / "t.parquet", categorical=names),
        pk.Dataset.from_arrays(text[["x", *names]], text["label"], text["qid"], categorical=names),
    ):
        assert data.categories == expected.categories
        assert np.array_equal(data.features, expected.features)
    ranker = _ranker().fit(text, label="label", query="qid", categorical=names)
    assert np.array_equal(ranker.predict(text), ranker.predict(expected))
    with pytest.raises(DataError, match="there is no feature column 'knd' to take as categories"):
        pk.Dataset(text, categorical=["knd"])


def test_a_model_that_starts_from_another_keeps_its_numbers() -> None:
    first = _ranker().fit(pk.Dataset(_frame(0)))
    more = _ranker().fit(pk.Dataset(_frame(1, NAMES[1:])), init=first)
    assert more.categories_ == first.categories_
    test = pk.Dataset(_frame(2))
    assert pk.evaluate(more.predict(test), test)["ndcg@10"] == pytest.approx(1.0)


def test_joined_data_share_the_numbers() -> None:
    one, two = pk.Dataset(_frame(0, ["ape", "cat"])), pk.Dataset(_frame(1, ["bee", "cat"]))
    both = pk.concat([one, two])
    assert both.categories == {"kind": ("ape", "bee", "cat")}
    texts = [both.categories["kind"][int(code)] for code in both.features[:, 1]]
    assert texts == [*_frame(0, ["ape", "cat"])["kind"], *_frame(1, ["bee", "cat"])["kind"]]
