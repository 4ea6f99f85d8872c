"""What a new user gets wrong in Python is answered in one sentence that says what to do."""

from __future__ import annotations

import numpy as np
import pytest

import plackett as pk


@pytest.fixture(scope="module")
def data():
    return pk.synthetic("letor", n_lists=20, seed=1)


ARRAY = np.ones((4, 2))
MISTAKES = {
    "trees=0": (lambda _: pk.TreeRanker(trees=0), "trees must be at least 1, got 0"),
    "recipe with trees=0": (lambda _: pk.recipe("lambdamart", trees=0), "at least 1, got 0"),
    "misspelled parameter": (lambda _: pk.TreeRanker(leafs=5), "Did you mean 'leaves'"),
    "misspelled folds": (lambda _: pk.CrossFit(pk.recipe("umart"), fold=3), "Did you mean 'folds'"),
    "parameter of the objective": (lambda _: pk.recipe("e-lambdamart", objective__sigm=1), "Did you mean 'sigma'"),
    "text in an objective": (lambda _: pk.recipe("lambdamart", objective__sigma="a"), "cannot take sigma='a'"),
    "key of lightgbm": (
        lambda d: pk.recipe("lambdamart", lightgbm={"max_bim": 5}).fit(d),
        "LightGBM has no parameter 'max_bim'.*Did you mean 'max_bin'",
    ),
    "value of lightgbm": (
        lambda d: pk.recipe("lambdamart", lightgbm={"max_bin": -5}).fit(d),
        "LightGBM refuses max_bin=-5: it must be > 1",
    ),
    "preset": (lambda _: pk.recipe("umart", preset="A-web30k"), "Recipes with that preset: lambdamart"),
    "cut-off as convention": (lambda _: pk.metric("ndcg", 5), "as in 'ndcg@5'"),
    "metric of one argument": (lambda _: pk.metric(lambda _: 0), "two arguments"),
    "parameter of an objective": (lambda _: pk.objective("lambdarank", sigm=1), "Did you mean 'sigma'"),
    "stochastic ranker": (lambda _: pk.Stochastic(pk.TreeRanker()), "takes an objective"),
    "one share": (lambda d: pk.split(d, 0.5), "one number per part"),
    "array to compare on": (lambda _: pk.compare(ARRAY, ["lambdamart"]), "got ndarray"),
    "unknown test": (lambda d: pk.compare(d, ["lambdamart"], test="t-test"), "Did you mean 't_test'"),
    "array to write": (lambda _: pk.write(ARRAY, "x.txt"), "expected a plackett.Dataset"),
    "array to describe": (lambda _: pk.describe(ARRAY), "expected a plackett.Dataset"),
    "array to join": (lambda d: pk.concat([d, ARRAY]), "expected a plackett.Dataset"),
    "no target": (
        lambda d: pk.export(pk.recipe("listnet-linear", C=1.0).fit(d), "x"),
        "export needs a target, one of vespa",
    ),
    "folder to import": (lambda _: pk.import_model("."), "plackett.load reads the folders"),
    "share above 1": (lambda d: pk.tune(d, "lambdamart", validation_share=2.0), "between 0 and 1, got 2"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_with_what_to_do(data, mistake) -> None:
    call, message = MISTAKES[mistake]
    with pytest.raises(pk.PlackettError, match=message):
        call(data)


def test_lightgbm_writes_no_lines_of_its_own(data, capfd) -> None:
    with pytest.raises(pk.UsageError):
        pk.recipe("lambdamart", lightgbm={"max_bin": -5}).fit(data)
    assert "[LightGBM]" not in "".join(capfd.readouterr())


def test_a_model_says_which_objective_it_was_trained_with(data, tmp_path) -> None:
    ranker = pk.recipe("lambdamart", trees=2, objective="xendcg", seed=3).fit(data)
    expected = {"name": "xendcg", "order": 3, "epsilon": 0.0, "one_level": "skip", "seed": 3}
    assert ranker.training_["objective"] == expected
    assert ranker.summary() == "lambdamart with xendcg on 46 features"
    ranker.save(tmp_path / "m.plackett")
    assert pk.load(tmp_path / "m.plackett").training_["objective"] == expected
    plain = pk.recipe("e-lambdamart", trees=2).fit(data)
    assert plain.training_["objective"]["objective"]["name"] == "lambdarank"
    assert plain.summary() == "e-lambdamart on 46 features"


def test_parameters_of_the_objective_are_set_by_name() -> None:
    ranker = pk.recipe("e-lambdamart", objective__beta=0.5, objective__sigma=3.0)
    assert (ranker.objective.beta, ranker.objective.objective.sigma) == (0.5, 3.0)
    ranker.set_params(objective__samples=2, lightgbm__max_bin=63)
    assert (ranker.objective.samples, ranker.lightgbm) == (2, {"max_bin": 63})
    named = pk.TreeRanker(objective="approxndcg").set_params(objective__eta=5.0)
    assert named.objective.eta == 5.0
    outer = pk.CrossFit(ranker).set_params(ranker__objective__beta=1.0)
    assert outer.ranker.objective.beta == 1.0


def test_a_saved_model_is_exported_by_its_path(data, tmp_path) -> None:
    pk.recipe("lambdamart", trees=2).fit(data).save(tmp_path / "m.plackett")
    assert pk.export(tmp_path / "m.plackett", tmp_path / "m.txt", "lightgbm")
    assert pk.import_model(tmp_path / "m.txt").n_features_ == data.n_features


def test_old_names_are_taken_with_a_warning(data) -> None:
    with pytest.warns(DeprecationWarning, match="'share' is deprecated; use 'validation_share'"):
        pk.tune(data, "listnet-linear", trials=1, share=0.3, refit=False)
