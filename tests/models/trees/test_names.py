"""Names of LightGBM's parameters."""

from __future__ import annotations

import inspect

import lightgbm
import numpy as np
import pytest

from plackett import recipe
from plackett.base.errors import UsageError
from plackett.models import LinearRanker, NeuralRanker, TreeRanker
from plackett.models.trees.params import OUR_NAMES, lightgbm_names

FIELDS = set(TreeRanker().get_params())
VALUES = {"categorical": "auto", "monotone": [1], "objective": "xendcg"}


def test_every_name_of_lightgbm_works_or_says_what_to_use() -> None:
    scikit = list(inspect.signature(lightgbm.LGBMRanker.__init__).parameters)[1:-1]
    taken, refused, messages = [], [], []
    for name in {*lightgbm_names(), *scikit}:
        try:
            ranker = TreeRanker(**{name: VALUES.get(OUR_NAMES.get(name, name), 1)})
        except UsageError as error:
            refused.append(name)
            messages.append(str(error))
        else:
            assert set(ranker.get_params()) == FIELDS
            taken.append(name)
    assert all(repr(name) in text for name, text in zip(refused, messages, strict=True))
    assert {"n_estimators", "max_depth", "reg_lambda", "subsample", "extra_trees"} <= set(taken)
    assert {"metric", "eval_at", "class_weight", "importance_type"} <= set(refused)


def test_names_of_lightgbm_set_our_parameters() -> None:
    ranker = TreeRanker(
        n_estimators=7,
        num_leaves=9,
        random_state=np.random.RandomState(1),
        n_jobs=-1,
        min_child_samples=3,
        subsample=0.5,
        colsample_bytree=0.25,
        reg_lambda=2.0,
        early_stopping_rounds=None,
        categorical_feature="0,2",
        monotone_constraints=[1, 0, -1],
        lightgbm={"max_bin": 15},
    )
    assert (ranker.trees, ranker.leaves, ranker.threads, ranker.min_documents) == (7, 9, None, 3)
    assert (ranker.list_fraction, ranker.feature_fraction) == (0.5, 0.25)
    assert ranker.lightgbm == {"max_bin": 15, "lambda_l2": 2.0}
    assert ranker.categorical == (0, 2)
    assert ranker.monotone == {0: 1, 2: -1}
    assert ranker.patience > 10**6
    assert isinstance(ranker.seed, int)
    assert ranker.set_params(max_depth=3, n_estimators=2).trees == 2
    assert ranker.lightgbm == {"max_bin": 15, "lambda_l2": 2.0, "max_depth": 3}


def test_recipes_take_the_names_too() -> None:
    ranker = recipe("lambdamart", preset="A-web30k", n_estimators=5, reg_alpha=0.5)
    assert ranker.trees == 5
    assert ranker.lightgbm == {"min_sum_hessian_in_leaf": 200.0, "lambda_l1": 0.5}
    built_in = recipe("lightgbm-lambdarank", subsample=0.7, subsample_freq=1)
    assert built_in.lightgbm == {"bagging_fraction": 0.7, "bagging_freq": 1}
    assert recipe("lambdamart", subsample=0.9, subsample_freq=0).list_fraction == 1.0
    assert NeuralRanker(random_state=3, n_jobs=1).seed == 3
    assert LinearRanker(random_state=None).seed == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_estimatrs": 3}, "Did you mean 'n_estimators'"),
        ({"trees": 3, "n_estimators": 4}, "'trees' and 'n_estimators' are the same"),
        ({"reg_lambda": 3, "lambda_l2": 4}, "are the same"),
        ({"subsample": 0.5, "subsample_freq": 3}, "list_fraction"),
        ({"subsample": 0.5, "list_fraction": 0.5}, "are the same"),
    ],
)
def test_mistakes_are_answered_when_the_ranker_is_made(settings, message) -> None:
    with pytest.raises(UsageError, match=message):
        TreeRanker(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lightgbm": {"max_dept": 3}}, "no parameter 'max_dept'.*Did you mean 'max_depth'"),
        ({"lightgbm": {"n_estimators": 3}}, "give 'trees' to TreeRanker"),
        ({"lambdarank_truncation_level": 5}, r"LambdaRank\(truncation=...\)"),
        ({"label_gain": [0, 1]}, "change the labels"),
        ({"objective": "rank_xendcg"}, "'xendcg'"),
        ({"objective": "rank:ndcg"}, "'lambdarank'"),
        ({"boosting_type": "dart"}, "only gbdt"),
    ],
)
def test_mistakes_are_answered_by_fit(settings, message) -> None:
    X = np.arange(40.0).reshape(-1, 2)
    with pytest.raises(UsageError, match=message):
        TreeRanker(**settings).fit(X, np.tile([0, 1], 10), group=[10, 10])
