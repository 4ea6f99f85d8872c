"""What every ranker promises."""

from __future__ import annotations

import numpy as np
import pytest

from plackett.base.errors import DataError, FeatureMismatch, UsageError
from plackett.data.dataset import Dataset
from plackett.data.folds import split
from plackett.data.synthetic import synthetic
from plackett.metrics import evaluate
from plackett.models import (
    RECIPES,
    BoostedNeuralRanker,
    LinearRanker,
    NeuralRanker,
    StumpRanker,
    TreeRanker,
    load,
    recipe,
)
from plackett.models.ensembles import CatBoostRanker, XGBoostRanker
from plackett.models.linear import CoordinateAscentRanker
from plackett.objectives import OBJECTIVES, Stochastic

SMALL = {
    LinearRanker: {"C": 1.0, "max_iterations": 100},
    StumpRanker: {"rounds": 40},
    CoordinateAscentRanker: {"restarts": 2, "sweeps": 3, "steps": 3},
    TreeRanker: {"trees": 20, "leaves": 8, "learning_rate": 0.2, "threads": 1},
    NeuralRanker: {"layers": (32,), "learning_rate": 0.01, "epochs": 12, "threads": 1},
    CatBoostRanker: {"trees": 20, "learning_rate": 0.2, "threads": 1},
    XGBoostRanker: {"trees": 20, "learning_rate": 0.2, "threads": 1},
    BoostedNeuralRanker: {"layers": (32,), "learning_rate": 0.01, "epochs": 6, "threads": 1},
}
"""Settings that make a fit quick; other kinds are quick as they are."""


def _small(name: str):
    ranker = recipe(name)
    return ranker.set_params(**SMALL.get(type(ranker), {}))


@pytest.fixture(scope="module")
def parts():
    data = synthetic("letor", n_lists=120, seed=3)
    # One recipe learns from where documents were shown.
    shown = data._replace(positions=1 + np.arange(data.n_docs) - np.repeat(data.offsets[:-1], data.list_sizes))
    return split(shown, (0.5, 0.2, 0.3), seed=1)


@pytest.fixture(scope="module")
def fitted(parts):
    """Each recipe fitted once, when a test first asks for it."""
    models = {}

    def get(name: str):
        if name not in models:
            models[name] = _small(name).fit(*parts[:2])
        return models[name]

    return get


@pytest.mark.parametrize("name", RECIPES)
def test_a_fitted_model_ranks_far_better_than_no_model(name, fitted, parts) -> None:
    test = parts[2]
    nothing = evaluate(np.zeros(test.n_docs), test, "ndcg@10")["ndcg@10"]
    values = evaluate(fitted(name).predict(test), test, "ndcg@10")["ndcg@10"]
    assert values > nothing + 0.03


@pytest.mark.parametrize("name", RECIPES)
def test_the_same_seed_gives_the_same_model(name, fitted, parts) -> None:
    train, validation, test = parts
    again = _small(name).fit(train, validation)
    assert np.array_equal(again.predict(test), fitted(name).predict(test))


@pytest.mark.parametrize("name", RECIPES)
def test_a_saved_model_scores_as_before(name, fitted, parts, tmp_path) -> None:
    ranker = fitted(name)
    ranker.save(tmp_path / "model.plackett")
    back = load(tmp_path / "model.plackett")
    assert back.recipe_name == name
    assert np.array_equal(back.predict(parts[2]), ranker.predict(parts[2]))


@pytest.mark.parametrize("name", RECIPES)
def test_features_that_do_not_match_are_refused(name, fitted, parts) -> None:
    train, _, test = parts
    ranker = fitted(name)
    with pytest.raises(FeatureMismatch, match="46 features, the data have 45"):
        ranker.predict(test.with_features(np.ascontiguousarray(test.features[:, 1:])))
    names = list(train.feature_names)
    names[2] = "something else"
    other = Dataset.from_arrays(test.features, test.labels, np.zeros(test.n_docs, int), feature_names=names)
    with pytest.raises(FeatureMismatch, match="feature 3 is 'something else' in the data but"):
        ranker.predict(other)


@pytest.mark.parametrize("name", RECIPES)
def test_a_model_that_is_not_fitted_says_so(name, parts) -> None:
    with pytest.raises(UsageError, match="not fitted yet; call fit first"):
        recipe(name).predict(parts[2])


@pytest.mark.parametrize("name", RECIPES)
def test_parameters_can_be_read_and_set(name) -> None:
    ranker = recipe(name)
    copy = type(ranker)(**ranker.get_params())
    assert copy.get_params() == ranker.get_params()
    with pytest.raises(UsageError, match="has no parameter 'height'"):
        ranker.set_params(height=3)


def test_missing_features_go_into_trees_but_not_into_linear_models() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    X[::7, 1] = np.nan
    data = Dataset.from_arrays(X, rng.integers(0, 3, 60), np.repeat(range(12), 5), missing="nan")
    scores = recipe("xendcg-mart", trees=3, threads=1).fit(data).predict(data)
    assert np.all(np.isfinite(scores))
    with pytest.raises(DataError, match='transforms=\\("impute", "standard"\\)'):
        recipe("listnet-linear").fit(data)
    imputing = recipe("listnet-linear", transforms=("impute", "standard"))
    assert np.all(np.isfinite(imputing.fit(data).predict(data)))


def test_an_unknown_recipe_is_answered_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="Did you mean 'xendcg-mart'"):
        recipe("xendcg-mrt")


KINDS = {
    "linear": (LinearRanker, {"C": 1.0, "max_iterations": 3, "starts": ("zero",)}),
    "trees": (TreeRanker, {"trees": 2, "leaves": 4, "min_documents": 3}),
    "nets": (NeuralRanker, {"layers": (4,), "epochs": 1, "learning_rate": 0.1}),
}


@pytest.mark.filterwarnings("ignore::plackett.ConvergenceWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda each: each.name)
def test_every_objective_runs_in_every_model_with_noise_and_document_weights(kind, objective) -> None:
    data = synthetic("letor", n_lists=8, seed=5)
    weights = np.where(np.arange(data.n_docs) % 3 == 0, 4.0, 0.5)
    model, settings = KINDS[kind]
    for loss in (objective(), Stochastic(objective(), samples=2, beta=0.5)):
        plain = model(objective=loss, threads=1, **settings).fit(data).predict(data)
        assert np.all(np.isfinite(plain))
        assert np.ptp(plain) > 0
        weighted = model(objective=loss, threads=1, **settings)
        if loss.weighting is None:
            with pytest.raises(UsageError, match="does not support document weights: "):
                weighted.fit(data._replace(document_weights=weights))
        else:
            assert not np.array_equal(weighted.fit(data._replace(document_weights=weights)).predict(data), plain)
