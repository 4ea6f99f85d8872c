"""What a new user gets wrong in Python is answered in one sentence that says what to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
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
        "LightGBM rejects max_bin=-5: it must be > 1",
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
    "arrays to a table": (lambda _: pk.Dataset(ARRAY, [0, 1, 0, 1], [1, 1, 2, 2]), r"Dataset\.from_arrays\(features"),
    "file to a table": (lambda _: pk.Dataset("train.txt"), r"for files plackett\.read\(path\)"),
    "table to read": (lambda _: pk.read({"a": [1]}), r"got dict; a table in memory is Dataset\(table"),
    "file to fit": (lambda _: pk.TreeRanker().fit("train.txt"), r"fit\(plackett\.read\('train\.txt'\)\)"),
    "file to predict": (lambda d: pk.LinearRanker(C=1.0).fit(d).predict("test.txt"), "predict takes data"),
    "column as qid": (lambda _: pk.TreeRanker().fit(ARRAY, [0, 1, 0, 1], qid="q"), "a column of a table is query='q'"),
    "argument of LightGBM": (lambda d: pk.TreeRanker().fit(d, eval_set=[]), r"use validation=\(X, y, qid\)"),
    "argument of Keras": (lambda d: pk.TreeRanker().fit(d, validation_data=d), "use validation="),
    "setting to fit": (lambda d: pk.NeuralRanker().fit(d, epochs=3), r"parameter of the ranker: NeuralRanker\(epochs"),
    "misspelled argument": (lambda d: pk.TreeRanker().fit(d, metrc="map"), "Did you mean 'metric'"),
    "text as callback": (lambda d: pk.TreeRanker().fit(d, callbacks=["x"]), "callbacks are functions of a FitStep"),
    "path as init": (lambda d: pk.TreeRanker().fit(d, init="m.plackett"), r"plackett\.load\('m\.plackett'\)"),
    "narrow validation": (
        lambda d: pk.TreeRanker(trees=1).fit(d, pk.Dataset.from_arrays(ARRAY, [0, 1, 0, 1], [1, 1, 2, 2])),
        "the validation data have 2 features, the training data 46",
    ),
    "model to evaluate": (lambda d: pk.evaluate(pk.TreeRanker(), d), r"evaluate\(ranker\.predict\(data\), data\)"),
    "arrays without queries": (lambda _: pk.evaluate([0, 1], [0.1, 0.2]), "got list and list"),
    "list of recipes": (lambda _: pk.recipe(["lambdamart"]), "Did you mean 'lambdamart'"),
    "class as objective": (lambda d: pk.TreeRanker(pk.objectives.XENDCG).fit(d), r"objective=XENDCG\(\)"),
    "function as objective": (lambda d: pk.TreeRanker(lambda _s, _y: 0).fit(d), r"objectives\.custom\(function\)"),
    "objective of two arguments": (lambda _: pk.objectives.custom(lambda _s, _y: 0), "five arguments"),
    "recipe's name to cross-fit": (lambda d: pk.CrossFit("umart").fit(d), r"ranker=plackett\.recipe\('umart'\)"),
    "model to import": (lambda _: pk.import_model(pk.TreeRanker()), "takes the path of a file, got TreeRanker"),
    "number as protocol": (lambda d: pk.compare(d, ["lambdamart"], protocol=5), "there is no protocol 5"),
    "text as seed": (lambda d: pk.split(d, (0.5, 0.5), seed="a"), "seed must be a whole number, got 'a'"),
    "setting of XGBoost": (lambda _: pk.TreeRanker(tree_method="hist"), "does not take 'tree_method'.*leave it out"),
    "dates as queries": (
        lambda _: pk.Dataset.from_arrays(ARRAY, [0, 1, 0, 1], np.array([1, 1, 2, 2], "datetime64[D]")),
        r"convert them with astype\(str\)",
    ),
    "share above 1": (lambda d: pk.tune(d, "lambdamart", validation_share=2.0), "between 0 and 1, got 2"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_with_what_to_do(data, mistake) -> None:
    call, message = MISTAKES[mistake]
    with pytest.raises(pk.PlackettError, match=message):
        call(data)


def test_names_of_others_work(data) -> None:
    features, labels, ids = data.features, data.labels, data.query_ids
    ranker = pk.TreeRanker(depth=3, border_count=63, trees=2).fit(features, labels, query_ids=ids)
    assert ranker.lightgbm == {"max_depth": 3, "max_bin": 63}
    scores = ranker.predict(features, qid=ids)
    assert np.array_equal(scores, ranker.predict(features, group=np.diff(data.offsets)))
    expected = pk.evaluate(labels, scores, ids, "ndcg@10")
    assert expected == pk.evaluate(labels, scores, ids) == pk.evaluate(labels, scores, query_ids=ids, metrics="ndcg@10")
    assert pk.metric("hit@5") == pk.metric("success@5")
    frame = {"qid": np.array([1.0, 1.0, 2.0]), "label": [0, 1, 2], "x": [1.0, 2.0, 3.0]}  # whole numbers as floats
    assert pk.Dataset.from_pandas(pd.DataFrame(frame)).query_ids.tolist() == [1, 1, 2]


def test_callbacks_of_lightgbm_are_refused_with_what_to_use(data) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    with pytest.raises(pk.UsageError, match=r"goes to plackett\.sklearn\.Ranker; here early stopping is"):
        pk.TreeRanker().fit(data, callbacks=[lightgbm.early_stopping(3)])


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
