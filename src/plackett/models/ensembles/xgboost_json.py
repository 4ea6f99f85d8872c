r"""XGBoost's models in JSON or UBJSON, read without XGBoost.

XGBoost sends a value left if :math:`x < t` in float32; that is :math:`x \le t'` with the next
float32 below. NaN is missing and goes to the default side of the node. The sets of categories of a
file go *right*: children and default side of such nodes are exchanged, so that members of a set go
left as everywhere here. Nodes that pruning left behind unreachable are dropped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from plackett.base.errors import DataError
from plackett.models.ensembles.assembly import assemble
from plackett.models.ensembles.ensemble import Ensemble
from plackett.models.ensembles.fields import at, numbers, whole
from plackett.models.ensembles.ubjson import decode
from plackett.models.ensembles.words import floats, text_of
from plackett.models.ensembles.xgboost_trees import Budget, read_tree

_IDENTITY = (
    "reg:squarederror",
    "reg:squaredlogerror",
    "reg:absoluteerror",
    "reg:pseudohubererror",
    "reg:quantileerror",
    "rank:ndcg",
    "rank:map",
    "rank:pairwise",
    "binary:hinge",
    "binary:logitraw",
)
_LOGISTIC = ("reg:logistic", "binary:logistic")
_LOGARITHMIC = ("count:poisson", "reg:gamma", "reg:tweedie")
_NEAREST = np.float32(1e-6)  # to 0 and 1 that XGBoost lets a logistic base score come
_LENGTHS = b"iUIlL"  # what follows the brace that opens UBJSON; JSON has a quote or a space there


def read_xgboost(source: str | bytes | Path) -> Ensemble:
    """Read a model that XGBoost has written.

    Parameters
    ----------
    source
        What ``Booster.save_raw("json")`` or ``save_raw("ubj")`` gives, or the path of a file that
        ``Booster.save_model()`` has written.

    Returns
    -------
    ensemble
        All its trees (XGBoost's ``Booster`` ignores ``best_iteration`` too); ``predict`` gives what
        ``Booster.predict(matrix, output_margin=True)`` gives, sums in float32 included.

    Raises
    ------
    DataError
        If the file is damaged, or the model is linear, ``dart`` (its trees are weighted), has
        several scores per document, or an objective whose base score we cannot transform.
    """
    if isinstance(source, Path):
        source = source.read_bytes()
    model, size = _decoded(source)
    learner = at(model, "learner", dict)
    booster = at(learner, "gradient_booster", dict)
    if at(booster, "name", str) != "gbtree":
        raise DataError(f"booster {booster['name'][:20]!r}; only gbtree is read.")
    trees = at(at(booster, "model", dict), "trees", list)
    if numbers(booster["model"], "tree_info", np.int64, where="the model").any():
        raise DataError("trees of several outputs; only models with one score per document.")
    parameters = at(learner, "learner_model_param", dict)
    n_features = _check_parameters(parameters)
    budget = Budget(size)
    names = learner.get("feature_names")
    return assemble(
        [read_tree(tree, number, budget) for number, tree in enumerate(trees)],
        library="xgboost",
        n_features=n_features,
        feature_names=tuple(map(str, names)) if isinstance(names, list) and names else None,
        base_score=_base_score(parameters, at(at(learner, "objective", dict), "name", str)),
    )


def _decoded(source: str | bytes) -> tuple[Any, int]:
    """The model as dictionaries and lists, and the size of what it was read from."""
    if not isinstance(source, str):
        source = bytes(source)
        if source[:1] == b"{" and source[1:2] and source[1] in _LENGTHS:
            return decode(source), len(source)
    text = text_of(source)
    try:
        return json.loads(text), len(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the model is not JSON: {error}.") from error


def _check_parameters(parameters: dict[str, Any]) -> int:
    """Refuse models with several scores; return the number of features."""
    for key, allowed in (("num_class", 1), ("num_target", 1)):
        found = whole(parameters.get(key, "0"), key)
        if found > allowed:
            raise DataError(f"{key} is {found}; only models with one score per document are read.")
    return whole(at(parameters, "num_feature", str), "num_feature")


def _base_score(parameters: dict[str, Any], objective: str) -> float:
    """Base score before the objective's transformation, as float32.

    XGBoost's logarithm is that of float32; ours is the float64 one rounded, which differs from it
    by one unit in the last place at a few numbers in a hundred.
    """
    word = at(parameters, "base_score", str).strip("[]")
    found = floats(word, "base_score")
    if len(found) != 1:
        raise DataError(f"base_score {word[:40]!r}; it must be one number.")
    with np.errstate(all="ignore"):
        score = found[0].astype(np.float32)
        if objective in _LOGISTIC:
            score = np.clip(score, _NEAREST, np.float32(1.0) - _NEAREST)
            return float(np.float32(-np.log(np.float64(np.float32(1.0) / score - np.float32(1.0)))))
        if objective in _LOGARITHMIC:
            return float(np.float32(np.log(np.float64(score))))
    if objective not in _IDENTITY:
        known = ", ".join((*_IDENTITY, *_LOGISTIC, *_LOGARITHMIC))
        raise DataError(f"objective {objective[:40]!r}; known are {known}.")
    return float(score)
