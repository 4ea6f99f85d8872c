"""What the comparison of rankers compares: our recipes, and the rankers of other libraries.

Peers have their libraries' defaults, up to 1,000 trees, and stop on NDCG@5 of the validation lists
as they measure it themselves; ours have the defaults of their recipes and stop on the same metric.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import plackett as pk
from plackett.data.dataset import Dataset
from plackett.data.folds import Fold

METRIC = "ndcg@5"
TREES = 1000
PATIENCE = 50

Run = dict[str, Any]
"""Test scores, validation scores and the number of trees."""
System = Callable[[Fold, int], Run]


def recipe(name: str, **settings: Any) -> System:
    def run(fold: Fold, seed: int) -> Run:
        ranker = pk.recipe(name, seed=seed, threads=1, **settings)
        ranker.fit(fold.train, fold.validation, metric=METRIC)
        curve = ranker.curves_["validation"][METRIC]  # type: ignore[attr-defined]
        return _found(ranker.predict, fold) | {
            "trees": int(np.argmax(curve)) + 1,
            "curve": [round(value, 5) for value in curve],
        }

    return run


def cross_fitted(name: str, **settings: Any) -> System:
    def run(fold: Fold, seed: int) -> Run:
        inner = pk.recipe(name, seed=100 * seed, threads=1, **settings)
        ranker = pk.CrossFit(inner, folds=5, seed=seed)
        ranker.fit(fold.train, fold.validation, metric=METRIC)
        return _found(ranker.predict, fold)

    return run


def on_test(name: str) -> System:
    """The number of trees chosen on the test lists, which the name says and tables must say too."""

    def run(fold: Fold, seed: int) -> Run:
        ranker = pk.recipe(name, seed=seed, threads=1)
        metric = pk.metric(METRIC, convention="lightgbm")
        ranker.fit(fold.train, fold.test, metric=metric)
        return _found(ranker.predict, fold)

    return run


def lightgbm(objective: str) -> System:
    def run(fold: Fold, seed: int) -> Run:
        import lightgbm as lgb

        def data(part: Dataset, reference: Any = None) -> Any:
            sizes = np.diff(part.offsets)
            return lgb.Dataset(part.features, part.labels, group=sizes, reference=reference)

        train = data(fold.train)
        settings = {"objective": objective, "metric": "ndcg", "eval_at": [5], "seed": seed}
        booster = lgb.train(
            settings | {"verbosity": -1, "num_threads": 1},
            train,
            TREES,
            valid_sets=[data(fold.validation, train)],
            callbacks=[lgb.early_stopping(PATIENCE, verbose=False)],
        )
        found = _found(lambda part: booster.predict(part.features), fold)
        return found | {"trees": booster.best_iteration}

    return run


def xgboost(fold: Fold, seed: int) -> Run:
    import xgboost as xgb

    def data(part: Dataset) -> Any:
        queries = np.repeat(np.arange(part.n_lists), np.diff(part.offsets))
        return xgb.DMatrix(part.features, part.labels, qid=queries)

    settings = {"objective": "rank:ndcg", "eval_metric": "ndcg@5", "seed": seed, "nthread": 1}
    booster = xgb.train(
        settings,
        data(fold.train),
        TREES,
        evals=[(data(fold.validation), "validation")],
        early_stopping_rounds=PATIENCE,
        verbose_eval=False,
    )
    best = booster.best_iteration + 1

    def score(part: Dataset) -> Any:
        return booster.predict(xgb.DMatrix(part.features), iteration_range=(0, best))

    return _found(score, fold) | {"trees": best}


def catboost(fold: Fold, seed: int) -> Run:
    from catboost import CatBoostRanker, Pool

    def data(part: Dataset) -> Any:
        queries = np.repeat(np.arange(part.n_lists), np.diff(part.offsets))
        return Pool(part.features, part.labels, group_id=queries)

    ranker = CatBoostRanker(
        loss_function="YetiRank",
        custom_metric=["NDCG:top=5;type=Exp"],
        eval_metric="NDCG:top=5;type=Exp",
        iterations=TREES,
        random_seed=seed,
        thread_count=1,
        verbose=False,
        allow_writing_files=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranker.fit(data(fold.train), eval_set=data(fold.validation), early_stopping_rounds=PATIENCE)
    found = _found(lambda part: ranker.predict(part.features), fold)
    return found | {"trees": ranker.tree_count_}


def _found(score: Callable[[Dataset], Any], fold: Fold) -> Run:
    """Scores of the test lists to keep, and what the validation lists say."""
    validation = pk.evaluate(np.asarray(score(fold.validation), float), fold.validation, METRIC)
    return {"scores": np.asarray(score(fold.test), float), "validation": validation[METRIC]}


SYSTEMS: dict[str, System] = {
    "e-lambdaloss-mart": recipe("e-lambdaloss-mart"),
    "e-lambdamart": recipe("e-lambdamart"),
    "lambdamart": recipe("lambdamart"),
    "xendcg-mart": recipe("xendcg-mart"),
    "e-xendcg-mart": recipe("e-xendcg-mart"),
    "listnet-mart": recipe("listnet-mart"),
    "umart": recipe("umart"),
    "umart, window 1": recipe("umart", objective=pk.objective("umart", window=1)),
    "umart, window 5": recipe("umart", objective=pk.objective("umart", window=5)),
    "umart, window 10": recipe("umart", objective=pk.objective("umart", window=10)),
    "umart, window all": recipe("umart", objective=pk.objective("umart", window=None)),
    "lambdamart-ranklib": recipe("lambdamart-ranklib"),
    "umart, on test": on_test("umart"),
    "lambdamart, on test": on_test("lambdamart"),
    "LightGBM lambdarank": lightgbm("lambdarank"),
    "LightGBM rank_xendcg": lightgbm("rank_xendcg"),
    "XGBoost rank:ndcg": xgboost,
    "CatBoost YetiRank": catboost,
    "e-lambdaloss-mart, cross-fitted": cross_fitted("e-lambdaloss-mart"),
}
