"""Arrays and tables given to ``fit`` and ``predict``."""

from __future__ import annotations

import numpy as np
import pytest

from plackett import Dataset, load
from plackett.base.errors import DataError, FeatureMismatch, UsageError
from plackett.models import LinearRanker, TreeRanker

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

RNG = np.random.default_rng(0)
SIZES = np.repeat([6, 9], 10)
QID = np.repeat([f"q{i}" for i in range(20)], SIZES)
X = RNG.normal(size=(len(QID), 3)).astype(np.float32)
Y = RNG.integers(0, 3, len(QID))
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(qid=QID, grade=Y)
SMALL = {"trees": 5, "leaves": 4, "min_documents": 2, "threads": 1}


def _scores(ranker):
    return ranker.predict(X, query_ids=QID)


@pytest.fixture(scope="module")
def expected():
    return _scores(TreeRanker(**SMALL).fit(Dataset.from_arrays(X, Y, QID)))


def test_arrays_with_queries_or_sizes_are_fitted_as_a_dataset(expected) -> None:
    assert np.array_equal(_scores(TreeRanker(**SMALL).fit(X, Y, qid=QID)), expected)
    assert np.array_equal(_scores(TreeRanker(**SMALL).fit(X, y=Y, group=SIZES)), expected)
    shuffled = RNG.permutation(len(X))
    ranker = TreeRanker(**SMALL).fit(X[shuffled], Y[shuffled], qid=QID[shuffled])
    assert np.array_equal(_scores(ranker), expected)


@pytest.mark.parametrize("make", [lambda f: f, pl.from_pandas, pa.Table.from_pandas])
def test_a_table_names_its_columns(make, expected) -> None:
    ranker = TreeRanker(**SMALL).fit(make(FRAME), label="grade", query="qid")
    assert ranker.feature_names_ == ("a", "b", "c")
    assert np.array_equal(ranker.predict(make(FRAME)), expected)
    mixed = make(FRAME[["c", "grade", "a", "qid", "b"]])
    assert np.array_equal(ranker.predict(mixed), expected)
    assert np.array_equal(ranker.predict(make(FRAME[["b", "c", "a"]])), expected)


def test_missing_and_extra_columns_are_named(tmp_path) -> None:
    ranker = TreeRanker(**SMALL).fit(FRAME, label="grade", query="qid")
    ranker.save(tmp_path / "m.plackett")
    for model in (ranker, load(tmp_path / "m.plackett")):
        with pytest.raises(FeatureMismatch, match="it lacks 'b'; it also has 'z'"):
            model.predict(FRAME.rename(columns={"b": "z"}))


def test_features_and_drop_choose_columns() -> None:
    frame = FRAME.assign(price=1.0, doc=[f"d{i}" for i in range(len(X))])
    chosen = TreeRanker(**SMALL).fit(frame, label="grade", query="qid", features=["c", "a"])
    assert chosen.feature_names_ == ("c", "a")
    assert len(chosen.predict(frame)) == len(frame)
    dropped = TreeRanker(**SMALL).fit(frame, label="grade", query="qid", document="doc", drop=["price"])
    assert dropped.feature_names_ == ("a", "b", "c")
    assert len(dropped.predict(frame)) == len(frame)


def test_validation_is_given_as_a_dataset_arrays_or_a_table() -> None:
    data = Dataset.from_arrays(X, Y, QID)
    first = TreeRanker(**SMALL).fit(X, Y, qid=QID, validation=data)
    assert "validation" in first.curves_
    for validation in ((X, Y, QID), (X, Y, SIZES)):
        again = TreeRanker(**SMALL).fit(X, Y, qid=QID, validation=validation)
        assert again.curves_ == first.curves_
    named = TreeRanker(**SMALL).fit(FRAME, label="grade", query="qid", validation=FRAME)
    assert named.curves_ == first.curves_


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X, Y), {}, r"fit\(X, y, qid=ids\).*group=sizes"),
        ((X,), {"qid": QID}, "fit needs labels"),
        ((FRAME,), {}, 'label="...", query="..."'),
        ((FRAME,), {"label": "grade"}, 'query="...", one of'),
        ((FRAME,), {"label": "grad", "query": "qid"}, "no column 'grad'.*'grade'"),
        ((X, Y), {"group": SIZES[1:]}, "add up to"),
        ((X, Y), {"group": np.ones(len(X) + 1, int)}, "add up to"),
        ((X, Y), {"group": SIZES, "qid": QID}, "not both"),
        ((X, Y), {"label": "a", "query": "b"}, "name columns of a pandas"),
        ((X, Y), {"qid": QID, "validation": X}, "validation must be a Dataset"),
        ((Dataset.from_arrays(X, Y, QID), Y), {}, "the second argument is the validation set"),
        ((Dataset.from_arrays(X, Y, QID),), {"qid": QID}, "leave out qid"),
    ],
)
def test_what_is_missing_is_said(arguments, options, message) -> None:
    with pytest.raises((UsageError, DataError), match=message):
        LinearRanker().fit(*arguments, **options)


def test_too_many_positional_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="give the others by name"):
        LinearRanker().fit(X, Y, QID)
    with pytest.raises(TypeError, match="'y' twice"):
        LinearRanker().fit(X, Y, y=Y, qid=QID)
