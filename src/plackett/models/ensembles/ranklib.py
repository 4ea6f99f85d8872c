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

The XML is parsed as a stream of tags, so nesting costs no memory. Declarations are refused, among
them the entities by which a small file can expand to a large one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.models.ensembles.ensemble import Ensemble, Tree, assemble
from plackett.models.ensembles.fields import parse_floats, parse_integers, read_text
from plackett.models.ensembles.scoring import MISSING_NAN, decision_bits

KINDS = ("LambdaMART", "MART")
"""RankLib's models that are a sum of trees."""

_ROOT = "ensemble"
_NUMBERS = ("feature", "threshold", "output")
_LARGEST = float(np.finfo(np.float32).max)


def read_ranklib(source: str | bytes | Path, *, n_features: int | None = None) -> Ensemble:
    """Read a LambdaMART or MART model that RankLib has written: its text, or the path of its file.

    ``n_features`` is by default the largest number that a tree uses. A DataError says if the text is damaged or another
    kind of model.
    """
    text = read_text(source)
    lines = text.splitlines()
    title = next((line for line in lines if line.strip()), "")
    kind = title[2:].strip()
    if title.startswith("##") and kind not in KINDS:
        raise DataError(f"a RankLib model of kind {kind[:40]!r}; read are {' and '.join(KINDS)}.")
    trees = _XmlReader().read("\n".join(line for line in lines if not line.lstrip().startswith("#")))
    used = max((int(tree.feature.max(initial=-1)) + 1 for tree in trees), default=0)
    if n_features is not None and n_features < used:
        raise DataError(f"the trees use feature {used}, the documents have {n_features}.")
    return assemble(trees, library="xgboost", n_features=n_features or max(used, 1))


class _XmlReader:
    """Builds trees from a stream of tags.

    Numbers stay text until a tree is complete: converting them together is ten times as fast.
    """

    def __init__(self) -> None:
        self.trees: list[Tree] = []
        self.path: list[str] = []
        self.text: list[str] = []

    def read(self, text: str) -> list[Tree]:
        if "<!" in text:
            raise DataError("the model's XML has a declaration or a comment; RankLib writes none.")
        parser = expat.ParserCreate()
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.text.append
        try:
            parser.Parse(text, True)
        except expat.ExpatError as error:
            raise DataError(f"the model is not XML: {error}.") from error
        return self.trees

    @property
    def where(self) -> str:
        return f"tree {len(self.trees)}"

    def start(self, name: str, attributes: dict[str, str]) -> None:
        parent = self.path[-1] if self.path else ""
        if name == "tree" and parent == "ensemble":
            self.begin_tree(attributes)
        elif name == "split" and parent in ("tree", "split"):
            self.begin_split(parent, attributes)
        elif not (name in _NUMBERS and parent == "split") and not (name == _ROOT and not parent):
            raise DataError(f"{self.where}: <{name[:20]}> inside <{parent}>.")
        self.path.append(name)
        self.text.clear()

    def begin_tree(self, attributes: dict[str, str]) -> None:
        weight = parse_floats(attributes.get("weight", ""), f"{self.where}: weight")
        if len(weight) != 1 or not abs(weight[0]) <= _LARGEST:
            raise DataError(f"{self.where} must have a weight that float32 can hold.")
        self.weight = _to_float32(weight)[0]
        self.open: list[_Split] = []
        self.feature: list[str] = []
        self.threshold: list[str] = []
        self.children: list[list[int]] = []
        self.output: list[str] = []
        self.complete = False

    def begin_split(self, parent: str, attributes: dict[str, str]) -> None:
        if parent == "tree":
            if self.open or self.complete:
                raise DataError(f"{self.where} has two roots.")
        else:
            node = self.number_of(self.open[-1])
            side = len(self.children[node])
            if side > 1 or attributes.get("pos") != ("left", "right")[side]:
                raise DataError(f'{self.where}: a split has one part pos="left", then one pos="right".')
        self.open.append(_Split())

    def number_of(self, split: _Split) -> int:
        """The index of a split that has parts, assigned when the first part begins."""
        if split.node is None:
            if split.texts.keys() != {"feature", "threshold"}:
                raise DataError(f"{self.where}: a split with parts has a feature and a threshold.")
            split.node = len(self.feature)
            self.feature.append(split.texts["feature"])
            self.threshold.append(split.texts["threshold"])
            self.children.append([])
        return split.node

    def end(self, name: str) -> None:
        self.path.pop()
        if name in _NUMBERS:
            self.end_number(name)
        elif name == "split":
            self.end_split()
        elif name == "tree":
            if not self.complete:
                raise DataError(f"{self.where} is empty.")
            self.trees.append(self.finish_tree())
        self.text.clear()

    def end_number(self, name: str) -> None:
        split, text = self.open[-1], "".join(self.text).strip()
        if name in split.texts or split.node is not None:
            raise DataError(f"{self.where}: <{name}> twice, or after the parts of its split.")
        if len(text.split()) != 1:
            raise DataError(f"{self.where}: <{name}> must hold one number.")
        split.texts[name] = text

    def end_split(self) -> None:
        split = self.open.pop()
        if split.node is not None:
            number = split.node
            if len(self.children[number]) != 2:
                raise DataError(f"{self.where}: a split has a left and a right part.")
        else:
            if split.texts.keys() != {"output"}:
                raise DataError(f"{self.where}: a split without parts has an output, nothing else.")
            number = ~len(self.output)
            self.output.append(split.texts["output"])
        if self.open:
            self.children[self.number_of(self.open[-1])].append(number)
        self.complete = not self.open

    def finish_tree(self) -> Tree:
        """Convert the tree that has just ended."""
        feature = parse_integers(" ".join(self.feature), f"{self.where}: feature", np.int32)
        if (feature < 1).any():
            raise DataError(f"{self.where}: features are whole numbers from 1.")
        threshold = self.parse_numbers(self.threshold, "threshold")
        values = float(self.weight) * self.parse_numbers(self.output, "output")
        children = np.array(self.children, np.int32).reshape(-1, 2)
        numeric = np.zeros(len(threshold), np.bool_)
        return Tree(
            feature=feature - np.int32(1),
            threshold=threshold,
            decision=decision_bits(numeric, threshold >= 0, MISSING_NAN),  # NaN goes with zero
            left=children[:, 0],
            right=children[:, 1],
            category_set=np.full(len(threshold), -1, np.int32),
            leaf_values=np.clip(values, -_LARGEST, _LARGEST),
            set_offsets=np.zeros(1, np.int64),
            sets=np.empty(0, np.uint32),
        )

    def parse_numbers(self, texts: list[str], name: str) -> NDArray[np.float64]:
        values = parse_floats(" ".join(texts), f"{self.where}: {name}")
        if not np.isfinite(values).all():
            raise DataError(f"{self.where}: each <{name}> must hold a finite number.")
        return _to_float32(values).astype(np.float64)


@dataclass
class _Split:
    """A split whose end tag has not been read."""

    texts: dict[str, str] = field(default_factory=dict)
    node: int | None = None
    """Its index among the inner nodes; None while no part has been seen."""


def _to_float32(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round as Java's Float.parseFloat does, but keep large numbers finite."""
    return np.clip(numbers, -_LARGEST, _LARGEST).astype(np.float32)
