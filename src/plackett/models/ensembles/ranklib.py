r"""RankLib's tree ensembles (LambdaMART, MART), read without RankLib.

After lines that begin with ``#`` comes XML::

    <ensemble>
      <tree id="1" weight="0.1">
        <split>
          <feature> 2 </feature>
          <threshold> 10.5 </threshold>
          <split pos="left"> <output> 0.3 </output> </split>
          <split pos="right"> <output> -0.1 </output> </split>
        </split>
      </tree>
    </ensemble>

Features count from 1. A document goes left if :math:`x \le t` in float32; a missing value is zero.
A score is the sum of weight times output in float32, so the ensemble uses XGBoost's rules of
summation. The file does not give the number of features beyond those that the trees use.

XML declarations raise an error, because entities can make a small file expand to a huge one.
"""

from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.models.ensembles.ensemble import Ensemble, Tree, assemble, collect_nodes, numeric_tree
from plackett.models.ensembles.fields import parse_floats, parse_integers, read_text

KINDS = ("LambdaMART", "MART")
"""RankLib's models that are a sum of trees."""

_NUMBERS = ("feature", "threshold", "output")
_LARGEST = float(np.finfo(np.float32).max)


def read_ranklib(source: str | bytes | Path, *, n_features: int | None = None) -> Ensemble:
    """Read a LambdaMART or MART model that RankLib has written: its text, or the path of its file.

    ``n_features`` is by default the largest feature number that a tree uses. Raises DataError if the text is damaged or
    is another kind of model.
    """
    text = read_text(source)
    lines = text.splitlines()
    title = next((line for line in lines if line.strip()), "")
    kind = title[2:].strip()
    if title.startswith("##") and kind not in KINDS:
        raise DataError(f"a RankLib model of kind {kind[:40]!r}; read are {' and '.join(KINDS)}.")
    trees = _parse_trees("\n".join(line for line in lines if not line.lstrip().startswith("#")))
    used = max((int(tree.feature.max(initial=-1)) + 1 for tree in trees), default=0)
    if n_features is not None and n_features < used:
        raise DataError(f"the trees use feature {used}, the documents have {n_features}.")
    return assemble(trees, library="xgboost", n_features=n_features or max(used, 1))


def _parse_trees(text: str) -> list[Tree]:
    if "<!" in text:
        raise DataError("the model's XML has a declaration or a comment; RankLib writes none.")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise DataError(f"the model is not XML: {error}.") from error
    if root.tag != "ensemble":
        raise DataError(f"the model's XML begins with <{root.tag[:20]}>, not with <ensemble>.")
    return [_parse_tree(tree, f"tree {number}") for number, tree in enumerate(root)]


def _parse_tree(tree: ElementTree.Element, where: str) -> Tree:
    """Convert a tree, with all of its numbers at once, which is ten times as fast as one by one."""
    if tree.tag != "tree":
        raise DataError(f"{where}: <{tree.tag[:20]}> inside <ensemble>.")
    weight = parse_floats(tree.get("weight", ""), f"{where}: weight")
    if len(weight) != 1 or not abs(weight[0]) <= _LARGEST:
        raise DataError(f"{where} must have a weight that float32 can hold.")
    if [part.tag for part in tree] != ["split"]:
        raise DataError(f"{where} must hold one <split>, its root.")
    splits, children, outputs = collect_nodes(tree[0], partial(_read_split, where=where))
    feature = parse_integers(" ".join(feature for feature, _ in splits), f"{where}: feature", np.int32)
    if (feature < 1).any():
        raise DataError(f"{where}: features are whole numbers from 1.")
    threshold = _parse_numbers([threshold for _, threshold in splits], where, "threshold")
    values = float(_to_float32(weight)[0]) * _parse_numbers(outputs, where, "output")
    values = np.clip(values, -_LARGEST, _LARGEST)
    nan_left = threshold >= 0  # NaN goes with zero
    return numeric_tree(feature - np.int32(1), threshold, nan_left, children, values)


def _read_split(split: ElementTree.Element, where: str) -> tuple[Any, tuple[Any, Any] | None]:
    """Feature and threshold of a split, and its two parts; or the output of a leaf, and None."""
    texts: dict[str, str] = {}
    parts = []
    for item in split:
        if item.tag == "split":
            parts.append(item)
            continue
        if item.tag not in _NUMBERS or len(item):
            inner, outer = (item[0], item) if item.tag in _NUMBERS else (item, split)
            raise DataError(f"{where}: <{inner.tag[:20]}> inside <{outer.tag}>.")
        if item.tag in texts or parts:
            raise DataError(f"{where}: <{item.tag}> twice, or after the parts of its split.")
        texts[item.tag] = (item.text or "").strip()
        if len(texts[item.tag].split()) != 1:
            raise DataError(f"{where}: <{item.tag}> must hold one number.")
    if not parts:
        if texts.keys() != {"output"}:
            raise DataError(f"{where}: a split without parts has an output, nothing else.")
        return texts["output"], None
    if texts.keys() != {"feature", "threshold"}:
        raise DataError(f"{where}: a split with parts has a feature and a threshold.")
    if [part.get("pos") for part in parts] != ["left", "right"]:
        raise DataError(f'{where}: a split has one part pos="left", then one pos="right".')
    return (texts["feature"], texts["threshold"]), (parts[0], parts[1])


def _parse_numbers(texts: list[str], where: str, name: str) -> NDArray[np.float64]:
    values = parse_floats(" ".join(texts), f"{where}: {name}")
    if not np.isfinite(values).all():
        raise DataError(f"{where}: each <{name}> must hold a finite number.")
    return _to_float32(values).astype(np.float64)


def _to_float32(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round as Java's Float.parseFloat does, but keep large numbers finite."""
    return np.clip(numbers, -_LARGEST, _LARGEST).astype(np.float32)
