"""Score documents with an ensemble: its layout in memory, the compiled loops, and how many threads.

Most documents take the bit-sliced path. Walking from root to leaf is faster for a few documents; it is the only way for
float64 features that float32 cannot represent, and for trees with more leaves than the fast path supports.

The threads are Python's: the loops release the global interpreter lock and write separate parts of the scores. No
thread pool stays alive, so calls from several threads or after a fork are safe.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from plackett.base.errors import DataError, FeatureMismatch, UsageError
from plackett.base.kernels import compiled
from plackett.base.ragged import Scores
from plackett.models.ensembles import bitsliced

if TYPE_CHECKING:
    from plackett.models.ensembles.ensemble import Ensemble


NODE = np.dtype(
    [
        ("threshold", np.float64),
        ("feature", np.int32),
        ("category_set", np.int32),
        ("nan_becomes", np.float32),
        ("zero_becomes", np.float32),
        ("left", np.int32),
        ("right", np.int32),
    ]
)
"""An inner node in 32 bytes, so that a step down a tree reads one cache line."""


class Nodes(NamedTuple):
    """Inner nodes and leaves in the order of the ensemble."""

    node_offsets: NDArray[np.int64]
    """Offsets of each tree's inner nodes."""
    leaf_offsets: NDArray[np.int64]
    """Offsets of each tree's leaves."""
    inner: NDArray[np.void]
    """Inner nodes, of type :data:`NODE`."""
    nan_left: NDArray[np.bool_]
    """Of each inner node: with a set of categories, whether NaN goes left."""
    values: NDArray[np.floating]
    """Leaf values; their precision is that of the sum."""


@compiled
def _goes_right(row, at, nodes, questions):  # type: ignore[no-untyped-def]
    node = nodes.inner[at]
    x = bitsliced.read_value(row[node.feature], node.nan_becomes, node.zero_becomes, questions.tiny)
    number = node.category_set
    if number < 0:
        return not x <= node.threshold
    start, stop = questions.set_offsets[number], questions.set_offsets[number + 1]
    return bitsliced.not_in_set(x, nodes.nan_left[at], questions.sets, start, stop, questions.lowest)


@compiled
def traverse(features, nodes, questions, scores):  # type: ignore[no-untyped-def]
    """Add the scores of all trees to the scores of documents."""
    for tree in range(len(nodes.node_offsets) - 1):
        first = nodes.node_offsets[tree]
        root = 0 if nodes.node_offsets[tree + 1] > first else -1
        for i in range(len(features)):
            node = root
            while node >= 0:
                at = first + node
                right = _goes_right(features[i], at, nodes, questions)
                node = nodes.inner[at].right if right else nodes.inner[at].left
            scores[i] += nodes.values[nodes.leaf_offsets[tree] + ~node]


NARROW, WIDE = (0,) * 2, (0,) * 8
"""Lanes of a mask, for one list and for many documents."""
FEW = 3
"""Up to this number of documents, :func:`traverse` is faster."""
MIN_PER_THREAD = 1024
"""The smallest number of documents for which starting a thread pays off."""
_SPARSE_ROWS = 8192  # rows of a sparse matrix that are made dense at a time


def score(ensemble: Ensemble, features: Any, *, n_threads: int | None) -> Scores:
    """Score documents; see :meth:`plackett.models.ensembles.Ensemble.predict`."""
    if n_threads is not None and n_threads < 1:
        raise UsageError(f"n_threads must be at least 1, got {n_threads}.")
    if scipy.sparse.issparse(features):
        return _score_sparse(ensemble, features, n_threads)
    array = _as_array(ensemble, features)
    scores = np.full(len(array), ensemble.base_score, ensemble.layout.nodes.values.dtype)
    if n_threads is None:
        n_threads = numba.get_num_threads() if len(array) >= 2 * MIN_PER_THREAD else 1
    n_parts = min(n_threads, max(len(array) // MIN_PER_THREAD, 1))
    if n_parts == 1:
        _score_part(ensemble, array, scores)
    else:
        block = bitsliced.DOCUMENTS * len(WIDE)
        n_blocks = -(-len(array) // block)
        bounds = [min(n_blocks * i // n_parts * block, len(array)) for i in range(n_parts + 1)]
        with ThreadPoolExecutor(n_parts) as pool:
            parts = [pool.submit(_score_part, ensemble, array[a:b], scores[a:b]) for a, b in pairwise(bounds)]
            for part in parts:
                part.result()
    return scores.astype(np.float64, copy=False)


def _check_shape(ensemble: Ensemble, shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise DataError(f"features must have 2 dimensions, documents x features, got {shape}.")
    if shape[1] != ensemble.n_features:
        raise FeatureMismatch(f"the ensemble scores documents with {ensemble.n_features} features, got {shape[1]}.")


def _as_array(ensemble: Ensemble, features: Any) -> NDArray[np.floating]:
    """Contiguous rows of float32, or of float64 where float32 would change a decision."""
    array = np.asarray(features)
    _check_shape(ensemble, array.shape)
    if array.dtype == np.float64:
        with np.errstate(over="ignore", under="ignore"):
            narrow = array.astype(np.float32)
        if ensemble.library != "lightgbm" or np.array_equal(narrow, array, equal_nan=True):
            array = narrow
    elif array.dtype != np.float32:
        try:
            array = array.astype(np.float32)
        except (TypeError, ValueError) as error:
            raise DataError(f"features must be numbers, got an array of {array.dtype}.") from error
    array = np.require(array, requirements=["C", "A"]).view()
    array.flags.writeable = False  # so that writable and read-only arrays share one compiled loop
    return array


_LARGE = 8  # wide blocks


def _score_part(ensemble: Ensemble, array: NDArray[np.floating], scores: NDArray[np.floating]) -> None:
    """Score documents on this thread."""
    layout = ensemble.layout
    if len(array) <= FEW or layout.trees is None or array.dtype != np.float32:
        traverse(array, layout.nodes, layout.questions, scores)
        return
    narrow, wide = bitsliced.DOCUMENTS * len(NARROW), bitsliced.DOCUMENTS * len(WIDE)
    rest = len(array) % wide
    # In a large part, one more wide block takes little time, and one loop less must be compiled.
    ends_narrow = rest <= 2 * narrow and len(array) < _LARGE * wide
    n = len(array) - rest if ends_narrow else len(array)
    if n:
        bitsliced.score_blocks(WIDE, array[:n], layout.questions, layout.trees, scores[:n])
    if n < len(array):
        bitsliced.score_blocks(NARROW, array[n:], layout.questions, layout.trees, scores[n:])


def _score_sparse(ensemble: Ensemble, features: Any, n_threads: int | None) -> Scores:
    matrix = scipy.sparse.csr_array(features)
    _check_shape(ensemble, matrix.shape)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    scores = np.empty(matrix.shape[0])
    absent = np.nan if ensemble.library == "xgboost" else 0.0
    dtype = np.float64 if matrix.dtype == np.float64 else np.float32
    for start in range(0, matrix.shape[0], _SPARSE_ROWS):
        stop = min(start + _SPARSE_ROWS, matrix.shape[0])
        a, b = matrix.indptr[start], matrix.indptr[stop]
        rows = np.repeat(np.arange(stop - start), np.diff(matrix.indptr[start : stop + 1]))
        dense = np.full((stop - start, matrix.shape[1]), absent, dtype)
        dense[rows, matrix.indices[a:b]] = matrix.data[a:b]
        scores[start:stop] = score(ensemble, dense, n_threads=n_threads)
    return scores


CATEGORICAL = 1
"""A set of categories decides, not a threshold."""
DEFAULT_LEFT = 2
"""Missing values go left."""
MISSING_ZERO, MISSING_NAN = 1, 2
"""Missing types; 0 means that nothing is missing."""
KNOWN_BITS = 0b1111
_MISSING_SHIFT, _MISSING_MASK = 2, 3

# What NaN and zero become: the table in plackett.models.ensembles.bitsliced.
_NAN_BECOMES = np.array([0.0, -np.inf, np.nan, -np.inf, np.nan], np.float32)
_ZERO_BECOMES = np.array([0.0, 0.0, 0.0, -np.inf, np.nan], np.float32)
_NAN_RIGHT = 2
_RULES = np.array([(0, 0), (4, 3), (_NAN_RIGHT, 1)])  # by missing type and default side: right, left


def missing_type(decision: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Missing type of each node: 0 nothing, 1 zero and NaN, 2 NaN."""
    return (decision >> np.uint8(_MISSING_SHIFT)) & np.uint8(_MISSING_MASK)


def decision_bits(categorical: NDArray[np.bool_], default_left: NDArray[np.bool_], missing: int) -> NDArray[np.uint8]:
    """Decision bits of nodes that share a missing type."""
    bits = CATEGORICAL * categorical + DEFAULT_LEFT * default_left + (missing << _MISSING_SHIFT)
    return bits.astype(np.uint8)


def missing_rule(decision: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The index in ``_NAN_BECOMES`` and ``_ZERO_BECOMES`` of the rule that each node applies to its feature."""
    rules = _RULES[missing_type(decision), (decision & DEFAULT_LEFT) // DEFAULT_LEFT]
    rules[(decision & CATEGORICAL) != 0] = _NAN_RIGHT  # NaN stays NaN, zero is category 0
    return rules


class TreeOrder(NamedTuple):
    """Positions in the depth-first order, counted from 0 in each tree."""

    node: NDArray[np.int32]
    """Position of each inner node among the inner nodes of its tree."""
    leaf: NDArray[np.int32]
    """Position of each leaf among the leaves of its tree, from left to right."""
    first_leaf: NDArray[np.int32]
    """For each inner node, the position of the leftmost leaf below it."""


def depth_first(
    node_offsets: NDArray[np.int64],
    leaf_offsets: NDArray[np.int64],
    *,
    left: NDArray[np.int32],
    right: NDArray[np.int32],
) -> TreeOrder:
    """Order of all trees; DataError if a node has no parent or several.

    NumPy walks all trees together, level by level. 500 trees of 64 leaves take 6 ms; a loop over nodes would take 0.4 s
    to compile. A tree has one leaf more than inner nodes. Children within their tree must be in range: ``c >= 0`` is an
    inner node, ``~c`` a leaf.
    """
    counts, n_nodes = np.diff(node_offsets), len(left)
    # Nodes of all trees come first, leaves after them.
    children = np.stack([left, right]).astype(np.int64)
    in_tree = np.where(children >= 0, np.repeat(node_offsets[:-1], counts), np.repeat(leaf_offsets[:-1], counts))
    children = in_tree + np.where(children >= 0, children, n_nodes + ~children)
    reached = np.bincount(children.ravel(), minlength=n_nodes + int(leaf_offsets[-1]))
    roots = np.concatenate([node_offsets[:-1][counts > 0], n_nodes + leaf_offsets[:-1][counts == 0]])
    reached[roots] += 1
    _check_parents(reached != 1, node_offsets, leaf_offsets)
    levels = [roots[roots < n_nodes]]
    while len(levels[-1]):
        reached[levels[-1]] = 0
        below = children[:, levels[-1]].ravel()
        levels.append(below[below < n_nodes])
    # Each node has one parent: those that are not below a root form loops.
    _check_parents(reached[:n_nodes] != 0, node_offsets, leaf_offsets)
    leaves = np.ones(len(reached), np.int64)
    for level in reversed(levels):
        leaves[level] = leaves[children[:, level]].sum(axis=0)
    place, first_leaf = np.zeros((2, len(reached)), np.int64)
    for level in levels:
        before = leaves[children[0, level]]  # a subtree has one inner node less than leaves
        for child, nodes_before, leaves_before in ((children[0, level], 1, 0), (children[1, level], before, before)):
            place[child] = place[level] + nodes_before
            first_leaf[child] = first_leaf[level] + leaves_before
    numbers = (place[:n_nodes], first_leaf[n_nodes:], first_leaf[:n_nodes])
    return TreeOrder(*(number.astype(np.int32) for number in numbers))


def _check_parents(
    is_wrong: NDArray[np.bool_], node_offsets: NDArray[np.int64], leaf_offsets: NDArray[np.int64]
) -> None:
    """Raise an error that names the first tree with a wrong node or leaf, and which."""
    wrong, n_nodes = np.flatnonzero(is_wrong), node_offsets[-1]
    if not len(wrong):
        return
    nodes, leaves = wrong[wrong < n_nodes], wrong[wrong >= n_nodes] - n_nodes
    tree_of_node = np.searchsorted(node_offsets, nodes, side="right") - 1
    tree_of_leaf = np.searchsorted(leaf_offsets, leaves, side="right") - 1
    tree = min((*tree_of_node[:1], *tree_of_leaf[:1]))
    in_nodes = len(nodes) > 0 and tree_of_node[0] == tree
    what = f"node {nodes[0] - node_offsets[tree]}" if in_nodes else f"leaf {leaves[0] - leaf_offsets[tree]}"
    raise DataError(
        f"tree {tree}, {what}: every node of a tree but the root must have exactly one parent; "
        "this one has none or several."
    )


# LightGBM's kZeroThreshold; the others read every number as it is.
_TINY = {"lightgbm": np.float32(1e-35), "xgboost": np.float32(0.0), "catboost": np.float32(0.0)}
# LightGBM drops the fraction first, so that -0.5 is category 0; XGBoost tests the sign first.
_BELOW_ZERO = np.nextafter(np.float32(0.0), np.float32(-1.0))
_LOWEST = {"lightgbm": np.float32(-1.0), "xgboost": _BELOW_ZERO, "catboost": _BELOW_ZERO}


@dataclass(frozen=True)
class Layout:
    """An ensemble prepared for scoring."""

    questions: bitsliced.Questions
    nodes: Nodes
    trees: bitsliced.SlicedTrees | None
    """None if there is no tree, or a tree has more leaves than the fast path supports."""


def make_layout(ensemble: Ensemble, order: TreeOrder) -> Layout:
    """Prepare an ensemble for scoring."""
    rules = missing_rule(ensemble.decision)
    # At nodes with categories; in LightGBM NaN never goes left there.
    nan_left = (ensemble.decision & DEFAULT_LEFT != 0) & (ensemble.library != "lightgbm")
    precision: Any = np.float32 if ensemble.library == "xgboost" else np.float64
    values: NDArray[np.floating] = ensemble.leaf_values.astype(precision)
    questions, question = _find_questions(ensemble, rules, nan_left)
    inner = np.empty(len(rules), NODE)
    for name in ("threshold", "feature", "category_set", "left", "right"):
        inner[name] = getattr(ensemble, name)
    inner["nan_becomes"], inner["zero_becomes"] = _NAN_BECOMES[rules], _ZERO_BECOMES[rules]
    nodes = Nodes(ensemble.node_offsets, ensemble.leaf_offsets, inner, nan_left, values)
    is_supported = 0 < np.diff(ensemble.leaf_offsets).max(initial=0) <= 1 << bitsliced.MAX_PLANES
    trees = _slice_trees(ensemble, order, question, values) if is_supported else None
    return Layout(questions, nodes, trees)


def round_down(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest float32 not above each number: ``x <= t`` stays the same for every float32 x."""
    with np.errstate(over="ignore", under="ignore"):
        near = numbers.astype(np.float32) + np.float32(0.0)  # -0.0 becomes 0.0
        return np.where(near > numbers, np.nextafter(near, np.float32(-np.inf)), near)


def _find_questions(
    ensemble: Ensemble, rules: NDArray[np.int64], nan_left: NDArray[np.bool_]
) -> tuple[bitsliced.Questions, NDArray[np.int32]]:
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
    starts = np.flatnonzero(new_column[new_question])
    return bitsliced.Questions(
        offsets=np.append(starts, len(kept)).astype(np.int64),
        feature=ensemble.feature[columns],
        nan_becomes=_NAN_BECOMES[rules[columns]],
        zero_becomes=_ZERO_BECOMES[rules[columns]],
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
) -> bitsliced.SlicedTrees:
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
    return bitsliced.SlicedTrees(
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
    of_plane = [np.flatnonzero((code >> p) & 1) for p in range(bitsliced.MAX_PLANES)]
    node = np.concatenate(of_plane)
    plane = planes[tree[node]] + np.repeat(np.arange(bitsliced.MAX_PLANES), [len(nodes) for nodes in of_plane])
    sorting = np.argsort(plane, kind="stable")
    turn_offsets = np.searchsorted(plane[sorting], np.arange(planes[-1] + 1)).astype(np.int64)
    return planes, turn_offsets, (2 + 2 * order.node[node[sorting]]).astype(np.int32)
