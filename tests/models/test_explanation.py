"""Importances, explanations and displays of every kind of model."""

from __future__ import annotations

import numpy as np
import pytest

from plackett import CrossFit, Dataset
from plackett.base.errors import UsageError
from plackett.models import LinearRanker, NeuralRanker, StumpRanker, TreeRanker
from plackett.models.ensembles import import_model

RNG = np.random.default_rng(0)
QID = np.repeat(np.arange(30), 12)
X = RNG.normal(size=(360, 4)).astype(np.float32)
X[:, 3] *= 100
Y = np.clip(np.round(X[:, 1] + 0.004 * X[:, 3] + 1 + 0.3 * RNG.normal(size=360)), 0, 4)
NAMES = ("noise", "strong", "other", "weak")
SHUFFLED = RNG.permutation(360)
DATA = Dataset.from_arrays(X[SHUFFLED], Y[SHUFFLED], QID[SHUFFLED], feature_names=NAMES)
TREES = {"trees": 20, "leaves": 6, "threads": 1}
RANKERS = {
    "trees": (TreeRanker(**TREES), "shap"),
    "stumps": (StumpRanker(rounds=30), "weights"),
    "linear": (LinearRanker(C=1.0), "weights"),
    "raw linear": (LinearRanker(C=1.0, transforms=()), "weights"),
    "minmax": (LinearRanker(C=1.0, transforms=("query-minmax",)), "weights"),
    "crossfit": (CrossFit(TreeRanker(**TREES), folds=2), "shap"),
    "by list": (CrossFit(LinearRanker(C=1.0), folds=2, combine="list"), "replacement"),
    "net": (NeuralRanker(layers=(8,), epochs=30, learning_rate=0.01, threads=1), "replacement"),
    "attention": (NeuralRanker(layers=(8,), attention=1, epochs=30, learning_rate=0.01, threads=1), "replacement"),
}


@pytest.fixture(scope="module")
def fitted():
    models = {}

    def get(name):
        if name not in models:
            models[name] = RANKERS[name][0].fit(DATA)
        return models[name]

    return get


@pytest.mark.parametrize("name", RANKERS)
def test_the_strong_feature_is_the_most_important(name, fitted) -> None:
    for values in (fitted(name).importance(), fitted(name).importance(data=DATA)):
        assert set(values) == set(NAMES)
        assert next(iter(values)) == "strong"
        assert list(values.values()) == sorted(values.values(), reverse=True)


@pytest.mark.parametrize("name", RANKERS)
def test_contributions_are_in_the_order_of_the_rows(name, fitted) -> None:
    ranker, method = fitted(name), RANKERS[name][1]
    result = ranker.explain(DATA)
    assert (result.method, result.features) == (method, NAMES)
    assert result.contributions.shape == X.shape
    if method != "replacement":
        sums = result.base + result.contributions.sum(axis=1)
        assert sums == pytest.approx(ranker.predict(DATA), abs=1e-4)
    again = ranker.explain(X, query_ids=QID)
    if method != "replacement":
        sums = again.base + again.contributions.sum(axis=1)
        assert sums == pytest.approx(ranker.predict(X, query_ids=QID), abs=1e-4)
    row = int(np.argmax(X[:, 1]))
    assert next(iter(again.document(row))) == "strong"
    assert again.document(row)["strong"] > 0
    assert "sum to the score" in again.note


def test_replacement_is_the_fall_of_the_score(fitted) -> None:
    ranker = fitted("attention")
    changed = X.copy()
    for q in range(30):
        changed[q == QID, 1] = np.median(X[q == QID, 1])
    expected = ranker.predict(X, query_ids=QID) - ranker.predict(changed, query_ids=QID)
    assert ranker.explain(X, query_ids=QID).contributions[:, 1] == pytest.approx(expected, abs=1e-4)


def test_imported_trees_count_their_splits(fitted, tmp_path) -> None:
    (tmp_path / "m.txt").write_text(fitted("trees").model_)
    ranker = import_model(tmp_path / "m.txt", feature_names=NAMES)
    assert ranker.importance() == fitted("trees").importance("split")
    assert ranker.explain(X).method == "replacement"
    assert ranker.curves_ == {}


def test_kinds_of_importance_that_a_model_has_not_are_refused(fitted) -> None:
    with pytest.raises(UsageError, match="'gain', 'split', 'permutation', got 'weights'"):
        fitted("trees").importance("weights")
    with pytest.raises(UsageError, match=r"importance\(data=validation\)"):
        fitted("linear").importance("permutation")


@pytest.mark.parametrize("name", RANKERS)
def test_notebooks_show_a_summary(name, fitted) -> None:
    text = fitted(name)._repr_html_()
    assert "30 lists, 360 documents" in text
    assert "strong" in text
    assert "not fitted" in RANKERS[name][0].clone()._repr_html_()


def test_names_are_escaped_in_notebooks() -> None:
    data = Dataset.from_arrays(X, Y, QID, feature_names=["<b>", "&", "c", "d"])
    assert "<b>" not in TreeRanker(**TREES).fit(data)._repr_html_().replace("<b>TreeRanker", "")


def test_figures_of_curves_and_importances(fitted) -> None:
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib import pyplot

    ranker = TreeRanker(**TREES).fit(DATA, DATA, "ndcg@5, map")
    axes = ranker.plot_curves()
    assert axes.get_ylabel() == "ndcg@5"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["train", "validation"]
    assert ranker.plot_curves("map", ax=axes) is axes
    with pytest.raises(UsageError, match="no curve 'err'"):
        ranker.plot_curves("err")
    bars = ranker.plot_importance(top=2)
    assert [label.get_text() for label in bars.get_yticklabels()] == ["strong", "weak"]
    assert "permutation" in fitted("net").plot_importance(data=DATA).get_xlabel()
    with pytest.raises(UsageError, match="no learning curves"):
        fitted("linear").plot_curves()
    pyplot.close("all")


def test_rankers_are_equal_to_themselves_only() -> None:
    first, second = TreeRanker(), TreeRanker()
    assert first == first
    assert first != second
    assert len({first, second, first}) == 2
