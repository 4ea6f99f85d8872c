"""From an ensemble to the arrays that the compiled loops read.

Holds the decision bits of nodes, what they mean for missing values, and the depth-first order of
nodes, left before right. Computing that order also proves that the arrays are trees: it must reach
every node and every leaf once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plackett.base.kernels import compiled
from plackett.models.ensembles.bitsliced import MAX_PLANES, Questions, SlicedTrees
from plackett.models.ensembles.scoring import NODE, Nodes

if TYPE_CHECKING:
    from plackett.models.ensembles.ensemble import Ensemble


CATEGORICAL = 1
"""A set of categories decides, not a threshold."""
DEFAULT_LEFT = 2
"""Missing values go left."""
MISSING_ZERO, MISSING_NAN = 1, 2
"""Missing types; 0 means that nothing is missing."""
KNOWN_BITS = 0b1111
_MISSING_SHIFT, _MISSING_MASK = 2, 3

# What NaN and zero become: the table in plackett.models.ensembles.bitsliced.
_REPLACEMENTS = np.array(
    [(0.0, 0.0), (-np.inf, 0.0), (np.nan, 0.0), (-np.inf, -np.inf), (np.nan, np.nan)], np.float32
)
_NONE, _NAN_LEFT, _NAN_RIGHT, _ZERO_LEFT, _ZERO_RIGHT = range(len(_REPLACEMENTS))


def missing_type(decision: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Missing type of each node: 0 nothing, 1 zero and NaN, 2 NaN."""
    return (decision >> np.uint8(_MISSING_SHIFT)) & np.uint8(_MISSING_MASK)


def decision_bits(
    categorical: NDArray[np.bool_], default_left: NDArray[np.bool_], missing: int
) -> NDArray[np.uint8]:
    """Decision bits of nodes that share a missing type."""
    bits = CATEGORICAL * categorical + DEFAULT_LEFT * default_left + (missing << _MISSING_SHIFT)
    return bits.astype(np.uint8)


def missing_rule(decision: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The row of ``_REPLACEMENTS`` that each node applies to its feature."""
    left = (decision & DEFAULT_LEFT) != 0
    missing = missing_type(decision)
    rules = np.full(len(decision), _NONE, np.int64)
    rules[missing == MISSING_NAN] = _NAN_RIGHT
    rules[(missing == MISSING_NAN) & left] = _NAN_LEFT
    rules[missing == MISSING_ZERO] = _ZERO_RIGHT
    rules[(missing == MISSING_ZERO) & left] = _ZERO_LEFT
    rules[(decision & CATEGORICAL) != 0] = _NAN_RIGHT  # NaN stays NaN, zero is category 0
    return rules


def nan_goes_left(decision: NDArray[np.uint8], library: str) -> NDArray[np.bool_]:
    """Whether NaN goes left at nodes with categories; in LightGBM it never does."""
    return (decision & DEFAULT_LEFT != 0) & (library != "lightgbm")


def replacements(rules: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """What NaN and zero become by each of the rules."""
    rows = _REPLACEMENTS[rules]
    return np.ascontiguousarray(rows[:, 0]), np.ascontiguousarray(rows[:, 1])


class TreeOrder(NamedTuple):
    """Positions in the depth-first order, counted from 0 in each tree."""

    node: NDArray[np.int32]
    """Position of each inner node among the inner nodes of its tree."""
    leaf: NDArray[np.int32]
    """Position of each leaf among the leaves of its tree, from left to right."""
    first_leaf: NDArray[np.int32]
    """For each inner node, the position of the leftmost leaf below it."""


@compiled
def _visit(left, right, node, leaf, first_leaf, stack):  # type: ignore[no-untyped-def]
    """Number the nodes of one tree; return one that is in a loop or not reached, or -1."""
    nodes = leaves = size = 0
    current = 0 if len(node) else -1
    while True:
        if current >= 0:
            if node[current] >= 0:
                return current
            node[current] = nodes
            first_leaf[current] = leaves
            nodes += 1
            stack[size] = right[current]
            size += 1
            current = left[current]
            continue
        if leaf[~current] >= 0:
            return len(node) + ~current
        leaf[~current] = leaves
        leaves += 1
        if size == 0:
            break
        size -= 1
        current = stack[size]
    for i in range(len(node)):
        if node[i] < 0:
            return i
    return -1


@compiled
def _visit_all(  # type: ignore[no-untyped-def]
    node_offsets, leaf_offsets, left, right, node, leaf, first_leaf
):
    largest = 0
    for tree in range(len(node_offsets) - 1):
        largest = max(largest, node_offsets[tree + 1] - node_offsets[tree])
    stack = np.empty(largest, np.int32)
    for tree in range(len(node_offsets) - 1):
        a, b, c, d = (
            node_offsets[tree],
            node_offsets[tree + 1],
            leaf_offsets[tree],
            leaf_offsets[tree + 1],
        )
        wrong = _visit(left[a:b], right[a:b], node[a:b], leaf[c:d], first_leaf[a:b], stack)
        if wrong >= 0:
            return tree, wrong
    return -1, -1


def depth_first(
    node_offsets: NDArray[np.int64],
    leaf_offsets: NDArray[np.int64],
    *,
    left: NDArray[np.int32],
    right: NDArray[np.int32],
) -> tuple[TreeOrder, int, int]:
    """Order of all trees, and the first tree and node that are invalid (-1, -1 if none is).

    Parameters
    ----------
    node_offsets, leaf_offsets
        Offsets of the inner nodes and the leaves of each tree; a tree has one leaf more than
        inner nodes.
    left, right
        Children of each inner node within its tree: ``c >= 0`` is an inner node, ``~c`` a leaf.
        They must be in range. A returned node beyond the inner ones is a leaf.
    """
    order = TreeOrder(
        np.full(len(left), -1, np.int32),
        np.full(int(leaf_offsets[-1]), -1, np.int32),
        np.zeros(len(left), np.int32),
    )
    tree, node = _visit_all(node_offsets, leaf_offsets, left, right, *order)
    return order, int(tree), int(node)


# LightGBM's kZeroThreshold; the others read every number as it is.
_TINY = {"lightgbm": np.float32(1e-35), "xgboost": np.float32(0.0), "catboost": np.float32(0.0)}
# LightGBM drops the fraction first, so that -0.5 is category 0; XGBoost tests the sign first.
_BELOW_ZERO = np.nextafter(np.float32(0.0), np.float32(-1.0))
_LOWEST = {"lightgbm": np.float32(-1.0), "xgboost": _BELOW_ZERO, "catboost": _BELOW_ZERO}


@dataclass(frozen=True)
class Layout:
    """An ensemble prepared for scoring."""

    questions: Questions
    nodes: Nodes
    trees: SlicedTrees | None
    """None if there is no tree, or one with more leaves than the fast path supports."""


def make_layout(ensemble: Ensemble, order: TreeOrder) -> Layout:
    """Prepare an ensemble for scoring."""
    rules = missing_rule(ensemble.decision)
    nan_left = nan_goes_left(ensemble.decision, ensemble.library)
    precision: Any = np.float32 if ensemble.library == "xgboost" else np.float64
    values: NDArray[np.floating] = ensemble.leaf_values.astype(precision)
    questions, question = _find_questions(ensemble, rules, nan_left)
    nodes = Nodes(
        node_offsets=ensemble.node_offsets,
        leaf_offsets=ensemble.leaf_offsets,
        inner=_make_records(ensemble, rules),
        nan_left=nan_left,
        values=values,
    )
    is_supported = 0 < np.diff(ensemble.leaf_offsets).max(initial=0) <= 1 << MAX_PLANES
    trees = _slice_trees(ensemble, order, question, values) if is_supported else None
    return Layout(questions, nodes, trees)


def _make_records(ensemble: Ensemble, rules: NDArray[np.int64]) -> NDArray[np.void]:
    """Inner nodes as records."""
    inner = np.empty(len(rules), NODE)
    for name in ("threshold", "feature", "category_set", "left", "right"):
        inner[name] = getattr(ensemble, name)
    inner["nan_becomes"], inner["zero_becomes"] = replacements(rules)
    return inner


def round_down(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest float32 not above each number: ``x <= t`` stays the same for every float32 x."""
    with np.errstate(over="ignore", under="ignore"):
        near = numbers.astype(np.float32) + np.float32(0.0)  # -0.0 becomes 0.0
    return np.where(near > numbers, np.nextafter(near, np.float32(-np.inf)), near)


def _find_questions(
    ensemble: Ensemble, rules: NDArray[np.int64], nan_left: NDArray[np.bool_]
) -> tuple[Questions, NDArray[np.int32]]:
    """The distinct questions, and the one that each inner node asks."""
    sets = ensemble.category_set
    thresholds = np.where(sets < 0, round_down(ensemble.threshold), np.float32(0.0))
    left = nan_left & (sets >= 0)
    sorting = np.lexsort((thresholds, left, sets, rules, ensemble.feature))
    new_column = _changes(rules[sorting], ensemble.feature[sorting])
    new_question = new_column | _changes(thresholds[sorting], sets[sorting], left[sorting])
    question = np.empty(len(sorting), np.int32)
    question[sorting] = np.cumsum(new_question) - 1
    kept, columns = sorting[new_question], sorting[new_column]
    nan_becomes, zero_becomes = replacements(rules[columns])
    starts = np.flatnonzero(new_column[new_question])
    return Questions(
        offsets=np.append(starts, len(kept)).astype(np.int64),
        feature=ensemble.feature[columns],
        nan_becomes=nan_becomes,
        zero_becomes=zero_becomes,
        thresholds=thresholds[kept],
        category_set=sets[kept],
        nan_left=nan_left[kept],
        set_offsets=ensemble.set_offsets,
        sets=ensemble.sets,
        tiny=_TINY[ensemble.library],
        lowest=_LOWEST[ensemble.library],
    ), question


def _changes(*keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a sorted row differs from the one before; true for the first."""
    changed = np.ones(len(keys[0]), np.bool_)
    changed[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return changed


def _slice_trees(
    ensemble: Ensemble, order: TreeOrder, question: NDArray[np.int32], values: NDArray[Any]
) -> SlicedTrees:
    """Nodes in depth-first order, and the right turns that give each bit of a leaf's number."""
    tree = np.repeat(np.arange(ensemble.n_trees), np.diff(ensemble.node_offsets))
    first = ensemble.node_offsets[tree]
    at = first + order.node
    source = np.zeros(len(at), np.int32)
    for side, child in enumerate((ensemble.left, ensemble.right), start=1):
        inner = child >= 0
        below = at[(first + child)[inner]]
        source[below] = side + 2 * order.node[inner]
    sorted_questions = np.empty(len(at), np.int32)
    sorted_questions[at] = question
    sorted_values = np.empty_like(values)
    leaf_tree = np.repeat(np.arange(ensemble.n_trees), np.diff(ensemble.leaf_offsets))
    sorted_values[ensemble.leaf_offsets[leaf_tree] + order.leaf] = values
    planes, turn_offsets, turns = _find_turns(ensemble, order, tree)
    return SlicedTrees(
        node_offsets=ensemble.node_offsets,
        source=source,
        question=sorted_questions,
        planes=planes,
        turn_offsets=turn_offsets,
        turns=turns,
        leaf_offsets=ensemble.leaf_offsets,
        values=sorted_values,
    )


def _find_turns(
    ensemble: Ensemble, order: TreeOrder, tree: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    right = ensemble.right
    inner = right >= 0
    first_right = np.empty(len(right), np.int32)
    first_right[inner] = order.first_leaf[(ensemble.node_offsets[tree] + right)[inner]]
    first_right[~inner] = order.leaf[(ensemble.leaf_offsets[tree] + ~right)[~inner]]
    code = first_right ^ order.first_leaf
    bits = np.array([int(n - 1).bit_length() for n in np.diff(ensemble.leaf_offsets)], np.int64)
    planes = np.concatenate([[0], np.cumsum(bits)]).astype(np.int64)
    of_plane = [np.flatnonzero((code >> p) & 1) for p in range(MAX_PLANES)]
    node = np.concatenate(of_plane)
    plane = planes[tree[node]] + np.repeat(
        np.arange(MAX_PLANES), [len(nodes) for nodes in of_plane]
    )
    sorting = np.argsort(plane, kind="stable")
    turn_offsets = np.searchsorted(plane[sorting], np.arange(planes[-1] + 1)).astype(np.int64)
    return planes, turn_offsets, (2 + 2 * order.node[node[sorting]]).astype(np.int32)
