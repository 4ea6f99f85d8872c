"""LightGBM's parameters: which it gets, which it must not get, and automatic sizes of trees."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from plackett.base.errors import UsageError
from plackett.models.parameters import ALIASES
from plackett.models.trees.names import (
    BUILT_IN,
    OUR_NAMES,
    check_lightgbm_dictionary,
    check_objective_name,
)

if TYPE_CHECKING:
    from plackett.models.trees.ranker import TreeRanker


# With these, the model does not depend on the number of threads.
_DETERMINISTIC = {"deterministic": True, "force_col_wise": True}
# LightGBM's main names that override ours in ``lightgbm``. Of a main name and its alias LightGBM
# silently uses the main name, which we always set: an alias would have no effect.
_OVERRIDES = {
    "num_leaves",
    "learning_rate",
    "min_data_in_leaf",
    "feature_fraction",
    "num_threads",
    "seed",
    "monotone_constraints",
}
_NOT_RESUMABLE = (
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
    """All of LightGBM's parameters; the user's come last."""
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
        settings["monotone_constraints"] = _monotone_constraints(ranker)
    _check_lightgbm_values(ranker.lightgbm)
    return {**settings, **ranker.lightgbm}


def _check_lightgbm_values(settings: Mapping[str, Any]) -> None:
    """Raise UsageError for a value that LightGBM refuses, in place of its own error output."""
    from lightgbm import Booster, Dataset
    from lightgbm.basic import LightGBMError

    quiet = {"verbosity": -1, "objective": "none"}
    for name, value in settings.items():
        try:
            with silent_lightgbm():
                data = Dataset(np.arange(4.0).reshape(4, 1), label=[0, 1, 0, 1], params=quiet)
                Booster({**quiet, name: value}, data)
        except (LightGBMError, TypeError) as error:
            text = str(error).strip()
            rule = re.search(r"Check failed: \((\w+)\) (\S+) \(([^)]*)\)", text)
            reason = f"it must be {rule[2]} {rule[3]}" if rule and rule[1] == name else text
            raise UsageError(f"LightGBM refuses {name}={value!r}: {reason}.") from error


@contextmanager
def silent_lightgbm() -> Iterator[None]:
    """Keep LightGBM from writing the errors that it raises to standard error as well."""
    sys.stderr.flush()
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


def check_resumable(ranker: TreeRanker) -> None:
    """Raise UsageError where LightGBM has random state of its own, which a restart loses."""
    if ranker.objective == "lightgbm-xendcg":
        raise UsageError(
            "a fit of lightgbm-xendcg cannot be resumed to the same model: LightGBM does not save "
            "its random state. Fit without checkpoint, or use xendcg."
        )
    for name in ranker.lightgbm:
        if name.startswith(_NOT_RESUMABLE):
            raise UsageError(
                f"a fit with LightGBM's {name!r} cannot be resumed to the same model: LightGBM "
                "does not save that random state. Fit without checkpoint, or use list_fraction and "
                "feature_fraction, which can be resumed."
            )


def feature_indices(ranker: TreeRanker, features: tuple[str | int, ...]) -> list[int]:
    """Features given by name or number, as numbers."""
    names = ranker.feature_names_ or ()
    count = ranker.n_features_ or 0
    indices = []
    for feature in features:
        if isinstance(feature, str):
            if feature not in names:
                raise UsageError(f"there is no feature {feature!r} in the training data.")
            indices.append(names.index(feature))
        elif 0 <= feature < count:
            indices.append(int(feature))
        else:
            raise UsageError(f"there is no feature {feature}: they go from 0 to {count - 1}.")
    return indices


def categorical_indices(ranker: TreeRanker) -> list[int]:
    """The features that are categories: those of ``categorical``, and those of the data."""
    features = dict.fromkeys((*ranker.categorical, *(ranker.categories_ or ())))
    return list(dict.fromkeys(feature_indices(ranker, tuple(features))))


def _monotone_constraints(ranker: TreeRanker) -> list[int]:
    directions = [0] * (ranker.n_features_ or 0)
    for index, direction in zip(
        feature_indices(ranker, tuple(ranker.monotone)), ranker.monotone.values(), strict=True
    ):
        if direction not in (-1, 0, 1):
            raise UsageError(f"monotone directions are -1, 0 and 1, got {direction!r}.")
        directions[index] = direction
    return directions


def _check(ranker: TreeRanker) -> None:
    check_objective_name(ranker.objective)
    _check_lightgbm_names(ranker)
    _check_built_in(ranker)
    for name in ("trees", "patience", "smoothing"):
        if getattr(ranker, name) < 1:
            raise UsageError(f"{name} must be at least 1, got {getattr(ranker, name)}.")
    if ranker.smoothing % 2 == 0:
        raise UsageError(
            f"smoothing must be odd: a tree and its neighbors, got {ranker.smoothing}."
        )
    if not 0 < ranker.learning_rate < math.inf:
        raise UsageError(f"learning_rate must be above 0, got {ranker.learning_rate}.")
    for name in ("list_fraction", "feature_fraction"):
        if not 0 < getattr(ranker, name) <= 1:
            raise UsageError(f"{name} must be above 0 and at most 1, got {getattr(ranker, name)}.")


def _check_lightgbm_names(ranker: TreeRanker) -> None:
    """Raise UsageError for LightGBM parameters that would have no effect here, or a bad one."""
    ours = {**ALIASES, **OUR_NAMES, "objective": "objective"}
    for key in ranker.lightgbm:
        if key in ours and key not in _OVERRIDES:
            raise UsageError(
                f"give {ours[key]!r} to TreeRanker itself instead of {key!r} in lightgbm."
            )
    check_lightgbm_dictionary(ranker.lightgbm, built_in=ranker.objective in BUILT_IN)
    if ranker.lightgbm.get("linear_tree") or ranker.lightgbm.get("linear_trees"):
        raise UsageError("trees with linear leaves cannot be scored or exported here.")
    for key in _BOOSTING:
        if ranker.lightgbm.get(key, "gbdt") not in _PLAIN:
            raise UsageError(
                f"{key}={ranker.lightgbm[key]!r} changes earlier trees during training, so the "
                "model cannot be cut at the best number of trees; only gbdt is supported."
            )


def _check_built_in(ranker: TreeRanker) -> None:
    """Raise UsageError for settings that do not fit LightGBM's built-in objectives, or ours."""
    built_in = ranker.objective in BUILT_IN
    if not built_in and "bagging_by_query" in ranker.lightgbm:
        raise UsageError(
            "LightGBM's bagging_by_query ruins models with a plackett objective; use list_fraction."
        )
    if built_in and ranker.list_fraction < 1:
        raise UsageError(
            f"{ranker.objective} is computed inside LightGBM, which samples lists itself: use "
            'lightgbm={"bagging_by_query": True, "bagging_fraction": ..., "bagging_freq": 1}.'
        )
    if built_in and ranker.growth != "newton":
        raise UsageError(f'{ranker.objective} supports growth="newton" only.')


_MIN_LEAVES, _MAX_LEAVES = 5, 255
_LARGE = 100_000


def resolve_sizes(ranker: TreeRanker, n_docs: int) -> dict[str, int]:
    """Leaves per tree and documents per leaf, with ``"auto"`` resolved."""
    leaves, documents = ranker.leaves, ranker.min_documents
    for name, value, minimum in (("leaves", leaves, 2), ("min_documents", documents, 1)):
        if value != "auto" and value < minimum:
            raise UsageError(f'{name} must be "auto" or at least {minimum}, got {value!r}.')
    return {
        "leaves": _auto_leaves(n_docs) if leaves == "auto" else leaves,
        # LightGBM's default of 20 for small data.
        "min_documents": (20 if n_docs < _LARGE else 50) if documents == "auto" else documents,
    }


def _auto_leaves(n_docs: int) -> int:
    """1.5 sqrt(documents / 500): 7 for 10,000 documents, 28 for 180,000.

    Small data need small trees: on sets of 10,000 and 35,000 documents 7 leaves ranked held-out
    lists better than 15, and 15 better than 31. The papers use some hundreds of leaves for millions
    of documents.
    """
    return min(max(round(1.5 * math.sqrt(n_docs / 500)), _MIN_LEAVES), _MAX_LEAVES)
