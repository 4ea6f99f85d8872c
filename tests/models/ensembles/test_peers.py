"""CatBoost and XGBoost as rankers: our metric selects the trees, our callbacks can end a fit."""

from __future__ import annotations

import numpy as np
import pytest

import plackett as pk

PEERS = ("catboost-yetirank", "xgboost-ndcg")


@pytest.fixture(scope="module")
def parts():
    return pk.split(pk.synthetic("letor", n_lists=60, seed=4), (0.5, 0.25, 0.25), seed=0)


def _peer(name, **settings):
    pytest.importorskip(name.partition("-")[0])
    return pk.recipe(name, **{"trees": 30, "learning_rate": 0.3, "threads": 1} | settings)


@pytest.mark.parametrize("name", PEERS)
def test_the_number_of_trees_is_selected_on_validation(name, parts) -> None:
    train, validation, test = parts
    seen = []
    ranker = _peer(name).fit(train, validation, "ndcg@5", watch=lambda step, _, value: seen.append((step, value)))
    assert 1 <= ranker.ensemble_.n_trees <= 30
    assert seen
    assert np.isfinite(ranker.predict(test)).all()
    all_trees = _peer(name).fit(train)
    assert all_trees.ensemble_.n_trees == 30
    # Fewer trees with the same seed are the first of more.
    value = pk.evaluate(ranker.predict(validation), validation, "ndcg@5")["ndcg@5"]
    assert value >= pk.evaluate(all_trees.predict(validation), validation, "ndcg@5")["ndcg@5"] - 0.05


@pytest.mark.parametrize("name", PEERS)
def test_an_exception_of_a_callback_ends_the_fit(name, parts) -> None:
    class StopError(Exception):
        pass

    def stop(_: str, done: int, __: int) -> None:
        if done >= 3:
            raise StopError

    with pytest.raises(StopError):
        _peer(name).fit(*parts[:2], progress=stop)


@pytest.mark.parametrize("name", PEERS)
def test_settings_are_passed_on_and_wrong_ones_refused(name, parts) -> None:
    depth = {"settings": {"depth" if name.startswith("cat") else "max_depth": 1}}
    ranker = _peer(name, **depth).fit(parts[0])
    assert np.diff(ranker.ensemble_.leaf_offsets).max() == 2
    with pytest.raises(pk.UsageError, match="trees >= 1"):
        _peer(name, trees=0).fit(parts[0])


@pytest.mark.parametrize("name", PEERS)
def test_members_of_a_cross_fit_are_exported_as_one_model(name, parts, tmp_path) -> None:
    from plackett.models.ensembles import import_model
    from plackett.serving.export import export

    fit = pk.CrossFit(_peer(name, trees=5), folds=3).fit(parts[0])
    export(fit, tmp_path / "model.txt", "lightgbm-text")
    again = import_model(tmp_path / "model.txt")
    again.feature_names_ = fit.feature_names_
    assert np.allclose(again.predict(parts[2]), fit.predict(parts[2]), atol=1e-5)


def test_trees_that_catboost_cannot_cut_are_refused(parts) -> None:
    with pytest.raises(pk.PlackettError, match=r"CatBoost rejects the data or a setting: .*symmetric"):
        _peer(PEERS[0], settings={"grow_policy": "Lossguide"}).fit(*parts[:2])
