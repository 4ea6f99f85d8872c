"""The names of LightGBM's parameters, and what :class:`TreeRanker` does with each.

Names of LightGBM (its core parameters, their aliases and those of its scikit-learn interface), and
the most common ones of XGBoost and CatBoost, belong to one of three groups: another name of one of
our parameters (``n_estimators`` is ``trees``), a parameter that LightGBM gets unchanged
(``reg_lambda``), or one that has no meaning here, which is refused with what to use instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from plackett.base.errors import UsageError
from plackett.models.parameters import ALIASES, translate

BUILT_IN = {"lightgbm-lambdarank": "lambdarank", "lightgbm-xendcg": "rank_xendcg"}
"""LightGBM's built-in objectives by their names here."""

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
    categorical="categorical_feature cat_feature categorical_column cat_column "
    "categorical_features cat_features",
    monotone="monotone_constraints mc monotone_constraint monotonic_cst",
)
"""Other names of the parameters of :class:`TreeRanker`, besides those of all rankers."""

_XGBOOST_AND_CATBOOST = {"gamma": "min_gain_to_split", "l2_leaf_reg": "lambda_l2"}
_FRACTION = ("subsample", "bagging_fraction", "sub_row", "bagging")
_FREQUENCY = ("subsample_freq", "bagging_freq")

_REFUSED = {
    **_names(
        metric="metric metrics metric_types eval_at map_at ndcg_at map_eval_at ndcg_eval_at "
        "eval_metric first_metric_only",
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
    )
}
_ADVICE = {
    "metric": 'give the metric to fit: fit(train, validation, metric="ndcg@10")',
    "classes": "it is for classification",
    "cluster": 'give fit(..., cluster="auto")',
    "importance": 'call importance("gain") or importance("split") on the fitted model',
    "delta": "use patience and smoothing",
    "files": "data are given to fit and predict, not by files and columns of LightGBM",
}
_OF_BUILT_IN = {
    "lambdarank_truncation_level": "LambdaRank(truncation=...)",
    "lambdarank_norm": "LambdaRank(score_norm=..., query_norm=...)",
    "sigmoid": "LambdaRank(sigma=...)",
    "label_gain": None,
    "objective_seed": "seed=",
    "lambdarank_position_bias_regularization": "document weights, see the guide to clicks",
}
"""What LightGBM's own objectives read and ours do not, and what ours have instead."""
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


def translate_names(
    parameters: Mapping[str, Any], known: Iterable[str], current: Mapping[str, Any]
) -> dict[str, Any]:
    """Parameters by our names; what LightGBM gets unchanged is merged into ``lightgbm``.

    Parameters
    ----------
    parameters
        By any name.
    known
        Our names.
    current
        The values of ``objective`` and ``lightgbm`` that hold where ``parameters`` has none.
    """
    known = set(known)
    if known.issuperset(parameters):
        return dict(parameters)
    result = translate(
        {name: value for name, value in parameters.items() if not _is_sampling(name)},
        {**ALIASES, **OUR_NAMES},
    )
    others = {name: result.pop(name) for name in list(result) if name not in known}
    for name in ("categorical", "monotone", "patience"):
        if name in result and name not in parameters:
            result[name] = _CONVERTERS[name](result[name])
    objective = result.get("objective", current["objective"])
    lightgbm = _sampling(parameters, result, objective)
    for name, value in others.items():
        refuse(name)
        main = _XGBOOST_AND_CATBOOST.get(name) or lightgbm_names().get(name)
        if main is None:
            result[name] = value  # unknown to all; the caller says so
        elif main in lightgbm:
            raise UsageError(f"{name!r} and {main!r} are the same parameter; give one of them.")
        else:
            lightgbm[main] = value
    if lightgbm:
        result["lightgbm"] = {**result.get("lightgbm", current["lightgbm"]), **lightgbm}
    return result


def _is_sampling(name: str) -> bool:
    return name in _FRACTION or name in _FREQUENCY


def _sampling(
    parameters: Mapping[str, Any], result: dict[str, Any], objective: Any
) -> dict[str, Any]:
    """Set ``list_fraction`` by a sampling of rows; return what LightGBM gets instead, if anything.

    LightGBM's own objectives get it unchanged. For ours a tree is trained on a share of the lists.
    """
    shares = [parameters[name] for name in _FRACTION if name in parameters]
    every = [parameters[name] for name in _FREQUENCY if name in parameters]
    if objective in BUILT_IN if isinstance(objective, str) else False:
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


def refuse(name: str) -> None:
    """Raise UsageError for a parameter that has no meaning here, with what to use instead."""
    if name in _REFUSED:
        raise UsageError(f"TreeRanker does not take {name!r}: {_ADVICE[_REFUSED[name]]}.")


def check_lightgbm_dictionary(settings: Mapping[str, Any], *, built_in: bool) -> None:
    """Raise UsageError for keys of ``lightgbm={...}`` that are unknown or have no effect here."""
    for key in settings:
        main = lightgbm_names().get(key)
        if main is None:
            close = get_close_matches(key, lightgbm_names(), n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise UsageError(f"LightGBM has no parameter {key!r} (in lightgbm={{...}}).{hint}")
        if not built_in and main in _OF_BUILT_IN:
            ours = _OF_BUILT_IN[main]
            remedy = (
                "; gains are 2^label - 1, so change the labels"
                if ours is None
                else f"; use {ours} of plackett.objectives"
                if ours.startswith("LambdaRank")
                else f"; use {ours}"
            )
            raise UsageError(f"{key!r} has no effect with an objective of plackett{remedy}.")


def check_objective_name(objective: Any) -> None:
    """Raise UsageError for an objective's name in another library, with ours."""
    if isinstance(objective, str) and objective in _FOREIGN_OBJECTIVES:
        raise UsageError(
            f"there is no objective {objective!r} here; use {_FOREIGN_OBJECTIVES[objective]}."
        )


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


_CONVERTERS = {"categorical": _categorical, "monotone": _monotone, "patience": _patience}
