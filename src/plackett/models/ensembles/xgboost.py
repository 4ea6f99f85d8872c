r"""XGBoost's models in JSON or UBJSON, read without XGBoost.

XGBoost sends a value left if :math:`x < t` in float32; that is :math:`x \le t'` with :math:`t'` the next float32 below
t. In a file, the members of a set of categories go *right*: children and default side of such nodes are exchanged, so
that members go left as in every :class:`~plackett.models.ensembles.Ensemble`. Unreachable nodes, which pruning leaves
behind, are dropped.

UBJSON (Universal Binary JSON, draft 12) is read as far as XGBoost writes it: a one-byte marker and its content, numbers
big-endian. A length beyond the end of the data raises before memory is allocated.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.models.ensembles.ensemble import Ensemble, Tree, assemble
from plackett.models.ensembles.fields import get_array, get_field, parse_floats, parse_integer, read_text
from plackett.models.ensembles.scoring import MISSING_NAN, decision_bits

# Markers of numbers and their types.
_UBJSON_TYPES: dict[int, np.dtype[Any]] = {
    ord(marker): np.dtype(kind)
    for marker, kind in zip("iUIlLdD", (">i1", ">u1", ">i2", ">i4", ">i8", ">f4", ">f8"), strict=True)
}
_CONSTANTS = {ord("T"): True, ord("F"): False, ord("Z"): None}
_MAX_DEPTH = 32  # XGBoost's models are nested eight levels deep


class _UbjsonReader:
    """A position in UBJSON data; every method reads one item and advances."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise DataError(f"the binary model is cut off or damaged at byte {self.at}.")
        self.at += size
        return self.data[self.at - size : self.at]

    def marker(self) -> int:
        return self.take(1)[0]

    def follows(self, marker: str) -> bool:
        """Whether this marker comes next; if so, skip it."""
        matches = self.data[self.at : self.at + 1] == marker.encode()
        self.at += matches
        return matches

    def number(self, marker: int) -> int | float:
        if marker not in _UBJSON_TYPES:
            raise DataError(f"the binary model is damaged at byte {self.at}: no number there.")
        kind = _UBJSON_TYPES[marker]
        return np.frombuffer(self.take(kind.itemsize), kind)[0].item()

    def length(self) -> int:
        length = self.number(self.marker())
        if not isinstance(length, int):
            raise DataError(f"the binary model is damaged at byte {self.at}: no length there.")
        return length

    def text(self) -> str:
        return self.take(self.length()).decode("utf-8", errors="replace")

    def value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise DataError(f"the binary model is nested more than {_MAX_DEPTH} levels deep.")
        marker = self.marker()
        if marker == ord("{"):
            return self.object(depth)
        if marker == ord("["):
            return self.array(depth)
        if marker == ord("S"):
            return self.text()
        return _CONSTANTS[marker] if marker in _CONSTANTS else self.number(marker)

    def object(self, depth: int) -> dict[str, Any]:
        entries = {}
        while not self.follows("}"):
            key = self.text()
            entries[key] = self.value(depth + 1)
        return entries

    def array(self, depth: int) -> Any:
        if self.follows("$"):
            kind = _UBJSON_TYPES.get(self.marker())
            if kind is None or not self.follows("#"):
                raise DataError(f"the binary model is damaged at byte {self.at}: no array there.")
            return np.frombuffer(self.take(self.length() * kind.itemsize), kind)
        if self.follows("#"):
            count = self.length()
            if count > len(self.data) - self.at:
                raise DataError(f"the binary model is cut off at byte {self.at}.")
            return [self.value(depth + 1) for _ in range(count)]
        values = []
        while not self.follows("]"):
            values.append(self.value(depth + 1))
        return values


_NO_CHILD = -1
_CATEGORIES = 1 << 24  # float32 holds no more whole numbers without gaps
_BITS = 32
_MAX_WORDS_PER_FILE_BYTE = 16


class _SetBudget:
    """The words of sets, a bit per category up to its largest, that a file of this size may claim."""

    def __init__(self, size: int) -> None:
        self.left = _MAX_WORDS_PER_FILE_BYTE * size

    def spend(self, words: int, where: str) -> None:
        """Raise if the budget is exceeded."""
        self.left -= words
        if self.left < 0:
            raise DataError(f"{where}: its sets of categories are too large for the file.")


def _parse_tree(tree: Any, number: int, budget: _SetBudget) -> Tree:
    where = f"tree {number}"
    if not isinstance(tree, dict):
        raise DataError(f"{where} is not an object.")
    leaf_size = get_field(get_field(tree, "tree_param", dict), "size_leaf_vector", str)
    if leaf_size not in ("0", "1"):
        raise DataError(f"{where} has vectors at its leaves; only one score per document is read.")
    inner, leaf, left, right = _find_children(tree, where)
    conditions = _get_sized(tree, "split_conditions", np.float32, len(inner), where)
    kinds = _get_sized(tree, "split_type", np.uint8, len(inner), where)[inner]
    if (kinds > 1).any():
        raise DataError(f"{where}: split_type must be 0 (numeric) or 1 (categorical).")
    categorical = kinds == 1
    default_left = _get_sized(tree, "default_left", np.uint8, len(inner), where)[inner] != 0
    category_set, set_offsets, sets = _parse_sets(tree, inner, categorical, where, budget)
    return Tree(
        feature=_get_sized(tree, "split_indices", np.int32, len(inner), where)[inner],
        threshold=_next_below(conditions[inner], categorical, where),
        decision=decision_bits(categorical, default_left != categorical, MISSING_NAN),
        left=np.where(categorical, right, left),
        right=np.where(categorical, left, right),
        category_set=category_set,
        leaf_values=conditions[leaf].astype(np.float64),
        set_offsets=set_offsets,
        sets=sets,
    )


def _find_children(
    tree: Any, where: str
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.int32], NDArray[np.int32]]:
    """Which nodes are inner ones and which leaves, and the children of the inner ones."""
    left = get_array(tree, "left_children", np.int32, where=where)
    right = get_array(tree, "right_children", np.int32, where=where)
    reached = _find_reached(left, right, where)
    inner = reached & (left != _NO_CHILD)
    if (right[inner] != left[inner] + 1).any():
        # XGBoost itself goes to the left child or the node after it.
        raise DataError(f"{where}: a right child does not follow the left one.")
    leaf = reached & ~inner
    # New number of each node: inner nodes count up from 0, leaves down from -1.
    renumbered = np.where(inner, np.cumsum(inner) - 1, -np.cumsum(leaf)).astype(np.int32)
    return inner, leaf, renumbered[left[inner]], renumbered[right[inner]]


def _get_sized(tree: Any, key: str, dtype: Any, size: int, where: str) -> NDArray[Any]:
    array = get_array(tree, key, dtype, where=where)
    if len(array) != size:
        raise DataError(f"{where}: {key} has {len(array)} entries for {size} nodes.")
    return array


def _find_reached(left: NDArray[np.int32], right: NDArray[np.int32], where: str) -> NDArray[np.bool_]:
    """Nodes below the root, level by level; raise if one is met twice or does not exist."""
    if len(left) == 0 or len(left) != len(right):
        raise DataError(f"{where}: {len(left)} left children and {len(right)} right ones.")
    reached = np.zeros(len(left), np.bool_)
    level = np.zeros(1, np.int32)
    while len(level):
        if level.min() < 0 or level.max() >= len(left):
            raise DataError(f"{where}: a child is not in the tree; nodes are 0 to {len(left) - 1}.")
        if reached[level].any() or len(np.unique(level)) < len(level):
            raise DataError(f"{where}: a node has several parents.")
        reached[level] = True
        parents = level[left[level] != _NO_CHILD]
        level = np.concatenate([left[parents], right[parents]])
    return reached


def _next_below(conditions: NDArray[np.float32], categorical: NDArray[np.bool_], where: str) -> NDArray[np.float64]:
    """Thresholds t' for which x <= t' equals x < t in float32."""
    numeric = conditions[~categorical]
    if np.isnan(numeric).any() or np.isneginf(numeric).any():
        raise DataError(f"{where}: a threshold is not a number above minus infinity.")
    below = np.zeros(len(conditions), np.float64)
    with np.errstate(over="ignore", under="ignore"):
        below[~categorical] = np.nextafter(numeric, np.float32(-np.inf))
    return below


def _parse_sets(
    tree: Any, inner: NDArray[np.bool_], categorical: NDArray[np.bool_], where: str, budget: _SetBudget
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.uint32]]:
    """Number of the set of each inner node, and the sets as bits."""
    category_set = np.full(len(categorical), -1, np.int32)
    if not categorical.any():
        return category_set, np.zeros(1, np.int64), np.empty(0, np.uint32)
    categories = get_array(tree, "categories", np.int64, where=where)
    nodes = get_array(tree, "categories_nodes", np.int64, where=where)
    starts = _get_sized(tree, "categories_segments", np.int64, len(nodes), where)
    counts = _get_sized(tree, "categories_sizes", np.int64, len(nodes), where)
    if len(categories) and (categories.min() < 0 or categories.max() >= _CATEGORIES):
        raise DataError(f"{where}: categories must be 0 to {_CATEGORIES - 1}.")
    if (starts < 0).any() or (counts < 0).any() or (starts > len(categories) - counts).any():
        raise DataError(f"{where}: a set of categories lies outside the list of categories.")
    number = {int(node): i for i, node in enumerate(nodes)}
    owners = np.flatnonzero(inner)[categorical].tolist()
    if not number.keys() >= set(owners):
        raise DataError(f"{where}: a categorical split without a set.")
    category_set[categorical] = [number[node] for node in owners]
    words = []
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        members = categories[start : start + count]
        size = int(members.max(initial=-1)) // _BITS + 1
        budget.spend(size + count, where)
        bits = np.zeros(size, np.uint32)
        np.bitwise_or.at(bits, members // _BITS, np.uint32(1) << (members % _BITS).astype(np.uint32))
        words.append(bits)
    return category_set, np.cumsum([0, *map(len, words)]), np.concatenate(words)


_IDENTITY = (
    *(f"reg:{name}error" for name in ("squared", "squaredlog", "absolute", "pseudohuber", "quantile")),
    *("rank:ndcg", "rank:map", "rank:pairwise", "binary:hinge", "binary:logitraw"),
)
_LOGISTIC = ("reg:logistic", "binary:logistic")
_LOGARITHMIC = ("count:poisson", "reg:gamma", "reg:tweedie")
_MARGIN = np.float32(1e-6)  # XGBoost keeps a logistic base score this far from 0 and 1
_LENGTHS = b"iUIlL"  # follow the first brace of UBJSON; JSON has a quote or a space there


def read_xgboost(source: str | bytes | Path) -> Ensemble:
    """Read a model that XGBoost has written: what ``Booster.save_raw()`` gives, or the path of a file.

    The ensemble has all trees (XGBoost's ``Booster`` ignores ``best_iteration`` too); ``predict`` returns what
    ``Booster.predict(matrix, output_margin=True)`` returns, including sums in float32. Raises DataError if the file is
    damaged, or if the model is linear, is ``dart`` (its trees are weighted), has several scores per document, or has an
    objective whose base score cannot be transformed.
    """
    if isinstance(source, Path):
        source = source.read_bytes()
    model, size = _decode(source)
    learner = get_field(model, "learner", dict)
    booster = get_field(learner, "gradient_booster", dict)
    if get_field(booster, "name", str) != "gbtree":
        raise DataError(f"booster {booster['name'][:20]!r}; only gbtree is read.")
    trees = get_field(get_field(booster, "model", dict), "trees", list)
    if get_array(booster["model"], "tree_info", np.int64, where="the model").any():
        raise DataError("trees of several outputs; only models with one score per document.")
    parameters = get_field(learner, "learner_model_param", dict)
    n_features = _check_parameters(parameters)
    budget = _SetBudget(size)
    names = learner.get("feature_names")
    return assemble(
        [_parse_tree(tree, number, budget) for number, tree in enumerate(trees)],
        library="xgboost",
        n_features=n_features,
        feature_names=tuple(map(str, names)) if isinstance(names, list) and names else None,
        base_score=_base_score(parameters, get_field(get_field(learner, "objective", dict), "name", str)),
    )


def _decode(source: str | bytes) -> tuple[Any, int]:
    """The model as dictionaries and lists, and the size of the source."""
    if not isinstance(source, str):
        source = bytes(source)
        if source[:1] == b"{" and source[1:2] and source[1] in _LENGTHS:
            return _UbjsonReader(source).value(0), len(source)
    text = read_text(source)
    try:
        return json.loads(text), len(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the model is not JSON: {error}.") from error


def _check_parameters(parameters: dict[str, Any]) -> int:
    """Raise if the model has several scores; return the number of features."""
    for key in ("num_class", "num_target"):
        count = parse_integer(parameters.get(key, "0"), key)
        if count > 1:
            raise DataError(f"{key} is {count}; only models with one score per document are read.")
    return parse_integer(get_field(parameters, "num_feature", str), "num_feature")


def _base_score(parameters: dict[str, Any], objective: str) -> float:
    """Base score before the objective's transformation, as float32; logarithms may differ in the last bit."""
    word = get_field(parameters, "base_score", str).strip("[]")
    values = parse_floats(word, "base_score")
    if len(values) != 1:
        raise DataError(f"base_score {word[:40]!r}; it must be one number.")
    with np.errstate(all="ignore"):
        score = values[0].astype(np.float32)
        if objective in _LOGISTIC:
            score = np.clip(score, _MARGIN, np.float32(1.0) - _MARGIN)
            return float(np.float32(-np.log(np.float64(np.float32(1.0) / score - np.float32(1.0)))))
        if objective in _LOGARITHMIC:
            return float(np.float32(np.log(np.float64(score))))
    if objective not in _IDENTITY:
        known = ", ".join((*_IDENTITY, *_LOGISTIC, *_LOGARITHMIC))
        raise DataError(f"objective {objective[:40]!r}; known are {known}.")
    return float(score)
