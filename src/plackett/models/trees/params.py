"""The parameters LightGBM is given, and those it must not be given here.

Sizes of trees that go by the number of training documents.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from plackett.base.errors import UsageError

if TYPE_CHECKING:
    from plackett.models.trees.ranker import TreeRanker


BUILT_IN = {"lightgbm-lambdarank": "lambdarank", "lightgbm-xendcg": "rank_xendcg"}
"""LightGBM's own objectives by the names they have here."""

# With these, one thread and many give the same model.
_DETERMINISTIC = {"deterministic": True, "force_col_wise": True}
# LightGBM's main names are taken as the user gives them. Of a main name and its alias LightGBM
# takes the main one without a word, and ours are always there: so an alias would do nothing.
_OURS = {
    "sub_feature": "feature_fraction",
    "colsample_bytree": "feature_fraction",
    "num_leaf": "leaves",
    "max_leaves": "leaves",
    "max_leaf": "leaves",
    "max_leaf_nodes": "leaves",
    "shrinkage_rate": "learning_rate",
    "eta": "learning_rate",
    "min_data_per_leaf": "min_documents",
    "min_data": "min_documents",
    "min_child_samples": "min_documents",
    "min_samples_leaf": "min_documents",
    "num_thread": "threads",
    "n_jobs": "threads",
    "nthread": "threads",
    "nthreads": "threads",
    "random_state": "seed",
    "random_seed": "seed",
    # The loop is ours: these would do nothing, or something else.
    "num_iterations": "trees",
    "n_estimators": "trees",
    "num_boost_round": "trees",
    "num_trees": "trees",
    "num_tree": "trees",
    "num_round": "trees",
    "num_rounds": "trees",
    "nrounds": "trees",
    "num_iteration": "trees",
    "n_iter": "trees",
    "max_iter": "trees",
    "early_stopping_rounds": "patience",
    "early_stopping": "patience",
    "n_iter_no_change": "patience",
    "application": "objective",
    "app": "objective",
    "loss": "objective",
    "objective": "objective",
    "early_stopping_round": "patience",
    "categorical_feature": "categorical",
}
_FORGETFUL = (
    "feature_fraction",
    "colsample_bynode",
    "sub_feature_bynode",
    "bagging_",
    "subsample",
    "extra_tree",
    "data_sample_strategy",
    "use_quantized_grad",
    "stochastic_rounding",
)
_BOOSTING = ("boosting", "boosting_type", "boost")
_PLAIN = ("gbdt", "gbrt")


def lightgbm_settings(ranker: TreeRanker, *, leaves: int, min_documents: int) -> dict[str, Any]:
    """Everything LightGBM is told, the user's own words last."""
    _check(ranker)
    name = ranker.objective if isinstance(ranker.objective, str) else ""
    settings: dict[str, Any] = {
        "objective": BUILT_IN.get(name, "none"),
        "learning_rate": ranker.learning_rate,
        "num_leaves": leaves,
        "min_data_in_leaf": min_documents,
        "feature_fraction": ranker.feature_fraction,
        "seed": ranker.seed,
        "metric": "None",
        "verbosity": -1,
        "num_threads": ranker.threads or 0,
        **_DETERMINISTIC,
    }
    if ranker.monotone:
        settings["monotone_constraints"] = _monotone(ranker)
    return {**settings, **ranker.lightgbm}


def check_resumable(ranker: TreeRanker) -> None:
    """Refuse a checkpoint where LightGBM keeps random state of its own, which a restart loses."""
    found = [key for key in ranker.lightgbm if key.startswith(_FORGETFUL)]
    if ranker.objective == "lightgbm-xendcg":
        raise UsageError(
            "a fit of lightgbm-xendcg cannot be resumed to the same model: LightGBM does not keep "
            "its random numbers. Fit without checkpoint, or take xendcg."
        )
    if found:
        raise UsageError(
            f"a fit with LightGBM's {found[0]!r} cannot be resumed to the same model: LightGBM "
            "does not keep that random state. Fit without checkpoint, or use list_fraction and "
            "feature_fraction, which can."
        )


def feature_indices(ranker: TreeRanker, wanted: tuple[str | int, ...]) -> list[int]:
    """Features given by name or number, as numbers."""
    names = ranker.feature_names_ or ()
    count = ranker.n_features_ or 0
    found = []
    for each in wanted:
        if isinstance(each, str):
            if each not in names:
                raise UsageError(f"there is no feature {each!r} in the training data.")
            found.append(names.index(each))
        elif 0 <= each < count:
            found.append(int(each))
        else:
            raise UsageError(f"there is no feature {each}: they go from 0 to {count - 1}.")
    return found


def _monotone(ranker: TreeRanker) -> list[int]:
    directions = [0] * (ranker.n_features_ or 0)
    for index, direction in zip(
        feature_indices(ranker, tuple(ranker.monotone)), ranker.monotone.values(), strict=True
    ):
        if direction not in (-1, 0, 1):
            raise UsageError(f"monotone directions are -1, 0 and 1, got {direction!r}.")
        directions[index] = direction
    return directions


def _check(ranker: TreeRanker) -> None:
    _check_words(ranker)
    _check_built_in(ranker)
    for name in ("trees", "patience", "smoothing"):
        if getattr(ranker, name) < 1:
            raise UsageError(f"{name} must be at least 1, got {getattr(ranker, name)}.")
    if ranker.smoothing % 2 == 0:
        raise UsageError(
            f"smoothing must be odd: a tree and its neighbours, got {ranker.smoothing}."
        )
    if not 0 < ranker.learning_rate < math.inf:
        raise UsageError(f"learning_rate must be above 0, got {ranker.learning_rate}.")
    for name in ("list_fraction", "feature_fraction"):
        if not 0 < getattr(ranker, name) <= 1:
            raise UsageError(f"{name} must be above 0 and at most 1, got {getattr(ranker, name)}.")


def _check_words(ranker: TreeRanker) -> None:
    """Refuse words of LightGBM that would do nothing here, or harm."""
    for key in ranker.lightgbm:
        if key in _OURS:
            raise UsageError(
                f"give {_OURS[key]!r} to TreeRanker itself instead of {key!r} in lightgbm."
            )
    if ranker.lightgbm.get("linear_tree") or ranker.lightgbm.get("linear_trees"):
        raise UsageError("trees with linear leaves cannot be scored or exported here.")
    for key in _BOOSTING:
        if ranker.lightgbm.get(key, "gbdt") not in _PLAIN:
            raise UsageError(
                f"{key}={ranker.lightgbm[key]!r} changes earlier trees as it goes, so the best "
                "number of trees cannot be cut out; only gbdt is grown here."
            )


def _check_built_in(ranker: TreeRanker) -> None:
    """LightGBM's own objectives sample lists and grow trees in LightGBM's way."""
    built_in = ranker.objective in BUILT_IN
    if not built_in and "bagging_by_query" in ranker.lightgbm:
        raise UsageError(
            "LightGBM's bagging_by_query ruins models with an objective of ours; use list_fraction."
        )
    if built_in and ranker.list_fraction < 1:
        raise UsageError(
            f"{ranker.objective} is computed inside LightGBM, which samples lists itself: use "
            'lightgbm={"bagging_by_query": True, "bagging_fraction": ..., "bagging_freq": 1}.'
        )
    if built_in and ranker.growth != "newton":
        raise UsageError(f'{ranker.objective} grows trees in LightGBM\'s way: growth="newton".')


_FEWEST, _MOST = 5, 255
_LARGE = 100_000


def sized(ranker: TreeRanker, n_docs: int) -> dict[str, int]:
    """Leaves of a tree and documents of a leaf, with ``"auto"`` filled in."""
    leaves, documents = ranker.leaves, ranker.min_documents
    for name, value, least in (("leaves", leaves, 2), ("min_documents", documents, 1)):
        if value != "auto" and value < least:
            raise UsageError(f'{name} must be "auto" or a number from {least} up, got {value!r}.')
    return {
        "leaves": _leaves(n_docs) if leaves == "auto" else leaves,
        "min_documents": _documents(n_docs) if documents == "auto" else documents,
    }


def _leaves(n_docs: int) -> int:
    """1.5 times the root of the documents in units of 500: 7 for 10,000, 28 for 180,000.

    Small data want small trees: on sets of 10,000 and 35,000 documents 7 leaves ranked held-out
    lists better than 15, and 15 better than 31. Large data want large ones; the papers' settings
    for millions of documents have some hundreds.
    """
    return min(max(round(1.5 * math.sqrt(n_docs / 500)), _FEWEST), _MOST)


def _documents(n_docs: int) -> int:
    """LightGBM's 20 for small data, more where there is enough."""
    return 20 if n_docs < _LARGE else 50
