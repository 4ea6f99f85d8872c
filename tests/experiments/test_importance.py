"""Importances of features are shares of what a fitted model goes by."""

from __future__ import annotations

import numpy as np
import pytest

from plackett.data.synthetic import synthetic
from plackett.experiments.compare import compare
from plackett.experiments.store import RunStore
from plackett.models import CrossFit, LinearRanker, TreeRanker

_DATA = synthetic("letor", n_lists=40, seed=1)


def _models():
    trees = TreeRanker(objective="xendcg", trees=5, leaves=4)
    return {"trees": trees, "linear": LinearRanker(objective="listnet", C=1.0)}


@pytest.mark.parametrize("name", ["trees", "linear"])
def test_shares_add_up_to_one_and_belong_to_features_in_their_order(name) -> None:
    ranker = _models()[name].fit(_DATA)
    shares = ranker.importance_shares()
    assert shares is not None
    assert shares.shape == (_DATA.n_features,)
    assert shares.sum() == pytest.approx(1.0)
    if isinstance(ranker, TreeRanker):
        first = next(iter(ranker.importance()))
        assert _DATA.feature_names is not None
        assert _DATA.feature_names[int(shares.argmax())] == first


def test_a_cross_fit_has_the_mean_of_its_members() -> None:
    ranker = CrossFit(_models()["trees"], folds=2).fit(_DATA)
    members = [member.importance_shares() for member in ranker.members_]
    assert ranker.importance_shares() == pytest.approx(np.mean(members, axis=0))


def test_the_store_keeps_them_for_later_reports(tmp_path) -> None:
    first = compare(_DATA, _models(), protocol="folds:3", store=tmp_path / "runs.db")
    again = compare(_DATA, _models(), protocol="folds:3", store=tmp_path / "runs.db")
    assert again.ran == 0
    assert set(first.results.importances) == {"trees", "linear"}
    for name, shares in first.results.importances.items():
        assert shares.shape == (3, _DATA.n_features)
        assert np.array_equal(again.results.importances[name], shares)


def test_trials_of_a_store_without_importances_are_still_read(tmp_path) -> None:
    compare(_DATA, _models(), store=tmp_path / "runs.db")
    with RunStore(tmp_path / "runs.db") as store:
        store._database.execute("DROP TABLE importance")
        store._database.execute("DROP TABLE checksum")
    again = compare(_DATA, _models(), store=tmp_path / "runs.db")
    assert again.ran == 0
    assert again.results.importances == {}
