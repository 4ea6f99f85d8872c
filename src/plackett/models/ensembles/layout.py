"""From an ensemble to the arrays that the compiled loops read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plackett.models.ensembles.decisions import nan_goes_left, reading, replacements
from plackett.models.ensembles.order import Order
from plackett.models.ensembles.questions import Questions
from plackett.models.ensembles.sliced import MAX_PLANES, Trees
from plackett.models.ensembles.traversal import NODE, Nodes

if TYPE_CHECKING:
    from plackett.models.ensembles.ensemble import Ensemble

# LightGBM's kZeroThreshold; XGBoost reads every number as it is.
_TINY = {"lightgbm": np.float32(1e-35), "xgboost": np.float32(0.0)}
# LightGBM drops the fraction first, so that -0.5 is category 0; XGBoost looks at the sign first.
_LOWEST = {
    "lightgbm": np.float32(-1.0),
    "xgboost": np.nextafter(np.float32(0.0), np.float32(-1.0)),
}


@dataclass(frozen=True)
class Layout:
    """An ensemble prepared for scoring."""

    questions: Questions
    nodes: Nodes
    trees: Trees | None
    """None if there is no tree, or one with more leaves than the fast path can number."""


def lay_out(ensemble: Ensemble, order: Order) -> Layout:
    """Prepare an ensemble for scoring."""
    readings = reading(ensemble.decision)
    nan_left = nan_goes_left(ensemble.decision, ensemble.library)
    precision: Any = np.float32 if ensemble.library == "xgboost" else np.float64
    values: NDArray[np.floating] = ensemble.leaf_values.astype(precision)
    questions, question = _questions(ensemble, readings, nan_left)
    nodes = Nodes(
        nodes=ensemble.nodes,
        leaves=ensemble.leaves,
        inner=_inner(ensemble, readings),
        nan_left=nan_left,
        values=values,
    )
    held = 0 < np.diff(ensemble.leaves).max(initial=0) <= 1 << MAX_PLANES
    return Layout(questions, nodes, _trees(ensemble, order, question, values) if held else None)


def _inner(ensemble: Ensemble, readings: NDArray[np.int64]) -> NDArray[np.void]:
    """Inner nodes as records."""
    inner = np.empty(len(readings), NODE)
    for name in ("threshold", "feature", "category_set", "left", "right"):
        inner[name] = getattr(ensemble, name)
    inner["nan_becomes"], inner["zero_becomes"] = replacements(readings)
    return inner


def round_down(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest float32 not above each number: ``x <= t`` is the same for every float32 x."""
    with np.errstate(over="ignore"):
        near = numbers.astype(np.float32) + np.float32(0.0)  # -0.0 becomes 0.0
    return np.where(near > numbers, np.nextafter(near, np.float32(-np.inf)), near)


def _questions(
    ensemble: Ensemble, readings: NDArray[np.int64], nan_left: NDArray[np.bool_]
) -> tuple[Questions, NDArray[np.int32]]:
    """Distinct questions, and the one that each inner node asks."""
    chosen = ensemble.category_set
    thresholds = np.where(chosen < 0, round_down(ensemble.threshold), np.float32(0.0))
    left = nan_left & (chosen >= 0)
    sorting = np.lexsort((thresholds, left, chosen, readings, ensemble.feature))
    new_column = _changes(readings[sorting], ensemble.feature[sorting])
    new_question = new_column | _changes(thresholds[sorting], chosen[sorting], left[sorting])
    question = np.empty(len(sorting), np.int32)
    question[sorting] = np.cumsum(new_question) - 1
    kept, columns = sorting[new_question], sorting[new_column]
    nan_becomes, zero_becomes = replacements(readings[columns])
    starts = np.flatnonzero(new_column[new_question])
    return Questions(
        offsets=np.append(starts, len(kept)).astype(np.int64),
        feature=ensemble.feature[columns],
        nan_becomes=nan_becomes,
        zero_becomes=zero_becomes,
        thresholds=thresholds[kept],
        category_set=chosen[kept],
        nan_left=nan_left[kept],
        set_offsets=ensemble.set_offsets,
        sets=ensemble.sets,
        tiny=_TINY[ensemble.library],
        lowest=_LOWEST[ensemble.library],
    ), question


def _changes(*keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a sorted row differs from the one before; the first does."""
    changed = np.ones(len(keys[0]), np.bool_)
    changed[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return changed


def _trees(
    ensemble: Ensemble, order: Order, question: NDArray[np.int32], values: NDArray[Any]
) -> Trees:
    """Nodes in the order of the walk, and the right turns that give each bit of a leaf's number."""
    tree = np.repeat(np.arange(ensemble.n_trees), np.diff(ensemble.nodes))
    first = ensemble.nodes[tree]
    at = first + order.node
    source = np.zeros(len(at), np.int32)
    for side, child in enumerate((ensemble.left, ensemble.right), start=1):
        inner = child >= 0
        below = at[(first + child)[inner]]
        source[below] = side + 2 * order.node[inner]
    asked = np.empty(len(at), np.int32)
    asked[at] = question
    sorted_values = np.empty_like(values)
    leaf_tree = np.repeat(np.arange(ensemble.n_trees), np.diff(ensemble.leaves))
    sorted_values[ensemble.leaves[leaf_tree] + order.leaf] = values
    planes, turn_offsets, turns = _turns(ensemble, order, tree)
    return Trees(
        nodes=ensemble.nodes,
        source=source,
        question=asked,
        planes=planes,
        turn_offsets=turn_offsets,
        turns=turns,
        leaves=ensemble.leaves,
        values=sorted_values,
    )


def _turns(
    ensemble: Ensemble, order: Order, tree: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    right = ensemble.right
    inner = right >= 0
    first_right = np.empty(len(right), np.int32)
    first_right[inner] = order.first_leaf[(ensemble.nodes[tree] + right)[inner]]
    first_right[~inner] = order.leaf[(ensemble.leaves[tree] + ~right)[~inner]]
    code = first_right ^ order.first_leaf
    bits = np.array([int(n - 1).bit_length() for n in np.diff(ensemble.leaves)], np.int64)
    planes = np.concatenate([[0], np.cumsum(bits)]).astype(np.int64)
    chosen = [np.flatnonzero((code >> p) & 1) for p in range(MAX_PLANES)]
    node = np.concatenate(chosen)
    plane = planes[tree[node]] + np.repeat(np.arange(MAX_PLANES), [len(c) for c in chosen])
    sorting = np.argsort(plane, kind="stable")
    turn_offsets = np.searchsorted(plane[sorting], np.arange(planes[-1] + 1)).astype(np.int64)
    return planes, turn_offsets, (2 + 2 * order.node[node[sorting]]).astype(np.int32)
