"""LightGBM's parameters: which are passed to it, which are rejected, and automatic sizes of trees.

Names of LightGBM (its core parameters, their aliases and those of its scikit-learn interface), and the most common ones
of XGBoost and CatBoost, belong to one of three groups: an alias of one of our parameters (``n_estimators`` is
``trees``), a parameter that LightGBM gets unchanged (``reg_lambda``), or one that has no meaning here, which raises an
error that says what to use instead.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from plackett.base.errors import UsageError
from plackett.models.parameters import ALIASES, translate

if TYPE_CHECKING:
    from plackett.models.trees.ranker import TreeRanker


BUILT_IN = {"lightgbm-lambdarank": "lambdarank", "lightgbm-xendcg": "rank_xendcg"}
"""LightGBM's built-in objectives, by their names in plackett."""

_NEVER = 2**31 - 1  # patience that does not end


def _names(**groups: str) -> dict[str, str]:
    return {alias: ours for ours, text in groups.items() for alias in text.split()}


OUR_NAMES = _names(
    trees="num_iterations n_estimators num_boost_round num_trees num_tree num_round num_rounds "
    "nrounds num_iteration n_iter max_iter iterations",
    leaves="num_leaves num_leaf max_leaves max_leaf max_leaf_nodes",
    learning_rate="shrinkage_rate eta",
    min_documents="min_data_in_leaf min_data_per_leaf min_data min_child_samples min_samples_leaf",
    feature_fraction="sub_feature colsample_bytree rsm",
    patience="early_stopping_round early_stopping_rounds early_stopping n_iter_no_change od_wait",
    objective="objective_type application app loss loss_function",
    categorical="categorical_feature cat_feature categorical_column cat_column categorical_features cat_features",
    monotone="monotone_constraints mc monotone_constraint monotonic_cst",
)
"""Other names of the parameters of :class:`TreeRanker`, besides those of all rankers."""

_XGBOOST_AND_CATBOOST = {
    "gamma": "min_gain_to_split",
    "l2_leaf_reg": "lambda_l2",
    "depth": "max_depth",
    "border_count": "max_bin",
}
_FRACTION = ("subsample", "bagging_fraction", "sub_row", "bagging")
_FREQUENCY = ("subsample_freq", "bagging_freq")

_REFUSED = _names(
    metric="metric metrics metric_types eval_at map_at ndcg_at map_eval_at ndcg_eval_at eval_metric first_metric_only",
    classes="class_weight scale_pos_weight is_unbalance unbalance unbalanced_sets num_class "
    "num_classes auc_mu_weights multi_error_top_k",
    cluster="machines nodes workers num_machines num_machine local_listen_port local_port port "
    "machine_list_filename machine_list_file machine_list mlist",
    importance="importance_type saved_feature_importance_type",
    delta="early_stopping_min_delta",
    files="config config_file task task_type data train train_data data_filename "
    "train_data_file valid test test_data valid_data test_data_file valid_data_file "
    "valid_filenames input_model model_in model_input output_model model_out model_output "
    "label_column label weight_column weight group_column group query group_id query_id "
    "query_column ignore_column blacklist ignore_feature header has_header save_binary "
    "is_save_binary is_save_binary_file snapshot_freq save_period output_result",
    growth="tree_method booster grow_policy od_type use_best_model enable_categorical base_score silent",
)
_ADVICE = {
    "metric": 'give the metric to fit: fit(train, validation, metric="ndcg@10")',
    "classes": "it is for classification",
    "cluster": 'give fit(..., cluster="auto")',
    "importance": 'call importance("gain") or importance("split") on the fitted model',
    "delta": "use patience and smoothing",
    "growth": "trees grow by leaves on histograms, and early stopping keeps the best; leave it out",
    "files": "data are given to fit and predict, not by files and columns of LightGBM",
}
_OF_BUILT_IN = {
    "lambdarank_truncation_level": "use LambdaRank(truncation=...) of plackett.objectives",
    "lambdarank_norm": "use LambdaRank(score_norm=..., query_norm=...) of plackett.objectives",
    "sigmoid": "use LambdaRank(sigma=...) of plackett.objectives",
    "label_gain": "gains are 2^label - 1, so change the labels",
    "objective_seed": "use seed=",
    "lambdarank_position_bias_regularization": "use document weights, see the guide to clicks",
}
"""Parameters of LightGBM's own objectives that ours do not read, and what to do instead."""
_FOREIGN_OBJECTIVES = {
    "rank_xendcg": "'xendcg', or 'lightgbm-xendcg' for LightGBM's code",
    "xendcg_mart": "'xendcg', or 'lightgbm-xendcg' for LightGBM's code",
    "rank:ndcg": "'lambdarank'",
    "rank:map": "'lambdarank' with plackett.objectives.LambdaRank(weight=\"map\")",
    "rank:pairwise": "'ranknet'",
    "YetiRank": "'yetirank'",
    "YetiRankPairwise": "'yetirank'",
    "PairLogit": "'ranknet'",
    "QueryRMSE": "'pairsquared'",
    "QuerySoftMax": "'crossentropy'",
    "StochasticRank": "'stochasticrank'",
}


@lru_cache(maxsize=1)
def lightgbm_names() -> dict[str, str]:
    """Every name of a LightGBM parameter, with the main name of that parameter."""
    from lightgbm.basic import _ConfigAliases

    table = _ConfigAliases._get_all_param_aliases()
    return {alias: main for main, aliases in table.items() for alias in (main, *aliases)}


def translate_names(parameters: Mapping[str, Any], known: set[str], current: Mapping[str, Any]) -> dict[str, Any]:
    """Convert parameters to our names; those that LightGBM gets unchanged are merged into ``lightgbm``."""
    if known.issuperset(parameters):
        return dict(parameters)
    not_sampling = {name: v for name, v in parameters.items() if name not in (*_FRACTION, *_FREQUENCY)}
    result = translate(not_sampling, {**ALIASES, **OUR_NAMES})
    others = {name: result.pop(name) for name in list(result) if name not in known}
    for name, convert in (("categorical", _categorical), ("monotone", _monotone), ("patience", _patience)):
        if name in result and name not in parameters:
            result[name] = convert(result[name])
    objective = result.get("objective", current["objective"])
    lightgbm = _sampling(parameters, result, objective)
    for name, value in others.items():
        if name in _REFUSED:
            raise UsageError(f"TreeRanker does not take {name!r}: {_ADVICE[_REFUSED[name]]}.")
        main = _XGBOOST_AND_CATBOOST.get(name) or lightgbm_names().get(name)
        if main is None:
            result[name] = value  # unknown everywhere; the caller raises the error
        elif main in lightgbm:
            raise UsageError(f"{name!r} and {main!r} are the same parameter; give one of them.")
        else:
            lightgbm[main] = value
    if lightgbm:
        result["lightgbm"] = {**result.get("lightgbm", current["lightgbm"]), **lightgbm}
    return result


def _sampling(parameters: Mapping[str, Any], result: dict[str, Any], objective: Any) -> dict[str, Any]:
    """Set ``list_fraction`` from row-sampling parameters; return those for a built-in objective of LightGBM."""
    shares = [parameters[name] for name in _FRACTION if name in parameters]
    every = [parameters[name] for name in _FREQUENCY if name in parameters]
    if isinstance(objective, str) and objective in BUILT_IN:
        pairs = (("bagging_fraction", shares), ("bagging_freq", every))
        return {name: values[-1] for name, values in pairs if values}
    if every and every[-1] not in (0, 1, None):
        raise UsageError(
            f"subsample_freq={every[-1]!r}: lists are sampled for each tree; use list_fraction=0.7 "
            "(and subsample_freq=1, or leave it out)."
        )
    if every and every[-1] == 0:
        result.setdefault("list_fraction", 1.0)  # LightGBM's way to say: no sampling
    elif shares:
        if "list_fraction" in result:
            raise UsageError("'list_fraction' and 'subsample' are the same; give one of them.")
        result["list_fraction"] = shares[-1]
    return {}


def _categorical(value: Any) -> Any:
    if value in ("auto", "", None):
        return ()
    if isinstance(value, str):  # LightGBM's text: "0,1,2" or "name:color,size"
        items = value.removeprefix("name:").split(",")
        return tuple(items if value.startswith("name:") else map(int, items))
    return tuple(value)


def _monotone(value: Any) -> Any:
    if value is None or isinstance(value, Mapping):
        return dict(value or {})
    items = value.strip("() ").split(",") if isinstance(value, str) else value
    return {j: int(direction) for j, direction in enumerate(items) if int(direction)}


def _patience(value: Any) -> Any:
    return _NEVER if value is None or (isinstance(value, int) and value <= 0) else value


_MIN_LEAVES, _MAX_LEAVES = 5, 255
_LARGE = 100_000
# With these, the model does not depend on the number of threads.
_DETERMINISTIC = {"deterministic": True, "force_col_wise": True}
# LightGBM's default of 4 bins ruins rankings, and so do leaf values of rounded gradients.
# Sums of integers are the same in any order, so LightGBM may choose the faster form of its histograms.
_QUANTIZED = {
    "use_quantized_grad": True,
    "num_grad_quant_bins": 16,
    "quant_train_renew_leaf": True,
    "force_col_wise": False,
}
_MIN_QUANT_BINS = 8
_SAMPLING = ("feature_fraction", "colsample", "sub_feature", "bagging_fr", "subsample")
# LightGBM's main names that override ours in ``lightgbm``. Of a main name and its alias LightGBM
# silently uses the main name, which we always set: an alias would have no effect.
_OVERRIDES = {
    *("num_leaves", "learning_rate", "min_data_in_leaf", "feature_fraction"),
    *("num_threads", "seed", "monotone_constraints"),
}
_NOT_RESUMABLE = (
    *("feature_fraction", "colsample_bynode", "sub_feature_bynode", "bagging_", "subsample"),
    *("extra_tree", "data_sample_strategy", "use_quantized_grad", "stochastic_rounding"),
)


def lightgbm_settings(ranker: TreeRanker, n_docs: int) -> dict[str, Any]:
    """All of LightGBM's parameters for ``n_docs`` documents; the user's come last."""
    _check(ranker)
    # 7 leaves for 10,000 documents, 28 for 180,000. Small data need small trees: on sets of 10,000 and 35,000
    # documents 7 leaves ranked held-out lists better than 15, and 15 better than 31. The papers use a few hundred
    # leaves for millions of documents.
    auto_leaves = min(max(round(1.5 * math.sqrt(n_docs / 500)), _MIN_LEAVES), _MAX_LEAVES)
    auto_documents = 20 if n_docs < _LARGE else 50  # LightGBM's default of 20 for small data
    name = ranker.objective if isinstance(ranker.objective, str) else ""
    settings: dict[str, Any] = {
        "objective": BUILT_IN.get(name, "none"),
        "learning_rate": ranker.learning_rate,
        "num_leaves": auto_leaves if ranker.leaves == "auto" else ranker.leaves,
        "min_data_in_leaf": auto_documents if ranker.min_documents == "auto" else ranker.min_documents,
        "feature_fraction": ranker.feature_fraction,
        "seed": ranker.seed,
        "metric": "None",
        "verbosity": -1,
        "num_threads": ranker.threads or 0,
        **_DETERMINISTIC,
    }
    if ranker.quantized:
        settings |= _QUANTIZED
    if ranker.monotone:
        settings["monotone_constraints"] = _monotone_constraints(ranker)
    _check_lightgbm_values(ranker.lightgbm)
    return {**settings, **ranker.lightgbm}


def _check_lightgbm_values(settings: Mapping[str, Any]) -> None:
    """Raise UsageError for a value that LightGBM rejects, and suppress its message on standard error."""
    from lightgbm import Booster, Dataset
    from lightgbm.basic import LightGBMError

    quiet = {"verbosity": -1, "objective": "none"}
    for name, value in settings.items():
        try:
            with _silent_stderr():
                data = Dataset(np.arange(4.0).reshape(4, 1), label=[0, 1, 0, 1], params=quiet)
                Booster({**quiet, name: value}, data)
        except (LightGBMError, TypeError) as error:
            text = str(error).strip()
            rule = re.search(r"Check failed: \((\w+)\) (\S+) \(([^)]*)\)", text)
            reason = f"it must be {rule[2]} {rule[3]}" if rule and rule[1] == name else text
            raise UsageError(f"LightGBM rejects {name}={value!r}: {reason}.") from error


@contextmanager
def _silent_stderr() -> Iterator[None]:
    sys.stderr.flush()
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


def why_not_resumable(ranker: TreeRanker) -> str | None:
    """The reason if LightGBM has random state of its own, which a restart loses; None if a fit can be resumed."""
    if ranker.objective == "lightgbm-xendcg":
        return (
            "a fit of lightgbm-xendcg cannot be resumed to the same model: LightGBM does not save "
            "its random state. Fit without checkpoint, or use xendcg."
        )
    for name in (*ranker.lightgbm, *(_QUANTIZED if ranker.quantized else ())):
        if name.startswith(_NOT_RESUMABLE):
            return (
                f"a fit with LightGBM's {name!r} cannot be resumed to the same model: LightGBM "
                "does not save that random state. Fit without checkpoint, or use list_fraction and "
                "feature_fraction, which can be resumed."
            )
    return None


def _feature_indices(ranker: TreeRanker, features: Iterable[str | int]) -> list[int]:
    names, count = ranker.feature_names_ or (), ranker.n_features_ or 0
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
    """The categorical features: those in ``categorical``, and those of the data."""
    return list(dict.fromkeys(_feature_indices(ranker, (*ranker.categorical, *(ranker.categories_ or ())))))


def _monotone_constraints(ranker: TreeRanker) -> list[int]:
    directions = [0] * (ranker.n_features_ or 0)
    for index, direction in zip(_feature_indices(ranker, ranker.monotone), ranker.monotone.values(), strict=True):
        if direction not in (-1, 0, 1):
            raise UsageError(f"monotone directions are -1, 0 and 1, got {direction!r}.")
        directions[index] = direction
    return directions


def _check(ranker: TreeRanker) -> None:
    for size, least in (("leaves", 2), ("min_documents", 1)):
        value = getattr(ranker, size)
        if value != "auto" and value < least:
            raise UsageError(f'{size} must be "auto" or at least {least}, got {value!r}.')
    name = ranker.objective
    if isinstance(name, str) and name in _FOREIGN_OBJECTIVES:
        raise UsageError(f"there is no objective {name!r} here; use {_FOREIGN_OBJECTIVES[name]}.")
    _check_lightgbm_names(ranker)
    _check_quantization(ranker)
    _check_built_in(ranker)
    if ranker.smoothing % 2 == 0:
        raise UsageError(f"smoothing must be odd: a tree and its neighbors, got {ranker.smoothing}.")
    if not 0 < ranker.learning_rate < math.inf:
        raise UsageError(f"learning_rate must be above 0, got {ranker.learning_rate}.")
    for name in ("list_fraction", "feature_fraction"):
        if not 0 < getattr(ranker, name) <= 1:
            raise UsageError(f"{name} must be above 0 and at most 1, got {getattr(ranker, name)}.")


def _check_lightgbm_names(ranker: TreeRanker) -> None:
    """Raise UsageError for LightGBM parameters that are unknown, or would be ineffective or harmful here."""
    ours = {**ALIASES, **OUR_NAMES, "objective": "objective"}
    for key, value in ranker.lightgbm.items():
        main = lightgbm_names().get(key)
        if key in ours and key not in _OVERRIDES:
            raise UsageError(f"give {ours[key]!r} to TreeRanker itself instead of {key!r} in lightgbm.")
        if main is None:
            close = get_close_matches(key, lightgbm_names(), n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise UsageError(f"LightGBM has no parameter {key!r} (in lightgbm={{...}}).{hint}")
        if main in _OF_BUILT_IN and ranker.objective not in BUILT_IN:
            raise UsageError(f"{key!r} has no effect with an objective of plackett; {_OF_BUILT_IN[main]}.")
        if main == "linear_tree" and value:
            raise UsageError("trees with linear leaves cannot be scored or exported here.")
        if main == "boosting" and value not in ("gbdt", "gbrt"):
            raise UsageError(
                f"{key}={value!r} changes earlier trees during training, so the "
                "model cannot be cut at the best number of trees; only gbdt is supported."
            )


def _check_quantization(ranker: TreeRanker) -> None:
    """Raise UsageError if rounded gradients would ruin the ranking, or LightGBM would fail."""
    params = ranker.lightgbm
    if not (ranker.quantized or params.get("use_quantized_grad")):
        return
    bins = params.get("num_grad_quant_bins", _QUANTIZED["num_grad_quant_bins"] if ranker.quantized else 4)
    sampled = [name for name in params if name.startswith(_SAMPLING) and params[name] not in (0, 1)]
    if ranker.feature_fraction < 1 or sampled:
        names = ", ".join(sampled) or f"feature_fraction={ranker.feature_fraction}"
        raise UsageError(
            f"quantized gradients and {names}: LightGBM adds up the wrong histograms where it samples features "
            "or documents. Use feature_fraction=1 (list_fraction may be below 1), or exact gradients."
        )
    if isinstance(bins, (int, float)) and bins < _MIN_QUANT_BINS:
        raise UsageError(
            f"gradients in {bins} bins are too coarse to rank by; use quantized=True (16 bins and exact leaf "
            f'values), or at least {_MIN_QUANT_BINS} in lightgbm={{"num_grad_quant_bins": ...}}.'
        )


def _check_built_in(ranker: TreeRanker) -> None:
    """Raise UsageError for settings that are incompatible with LightGBM's built-in objectives, or with ours."""
    built_in = ranker.objective in BUILT_IN
    if not built_in and "bagging_by_query" in ranker.lightgbm:
        raise UsageError("LightGBM's bagging_by_query ruins models with a plackett objective; use list_fraction.")
    if built_in and ranker.list_fraction < 1:
        raise UsageError(
            f"{ranker.objective} is computed inside LightGBM, which samples lists itself: use "
            'lightgbm={"bagging_by_query": True, "bagging_fraction": ..., "bagging_freq": 1}.'
        )
    if built_in and ranker.growth != "newton":
        raise UsageError(f'{ranker.objective} supports growth="newton" only.')
