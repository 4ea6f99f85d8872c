r"""Solr's MultipleAdditiveTreesModel.

Solr goes left if :math:`x \le t + 10^{-6}`, with the sum rounded to float32. So a threshold t is
written as a float32 s for which s + 1e-6 is t exactly. There is one for nearly all thresholds
further than about 1e-6 from zero; where there is none, the model is refused, with one exception.
Splits between zero and what is next to it, which LightGBM writes as 1e-35, become splits at 0 and
at the nearest number below zero that the sum can be, -1.1e-13: values closer to zero than that
count as zero.

Scores of documents without a feature: Solr reads it as 0, unless ``isNullSameAsZero`` is false;
then each node says where it goes. That is written only where the model needs it. Solr versions that
do not know it refuse such a model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.serving.export.missing import Missing, differs_from_zero
from plackett.serving.export.nested import nested
from plackett.serving.export.solr import features, model
from plackett.serving.export.trees import Trees

SLACK = np.float32(1e-6)
"""What Solr adds to every threshold."""
NEAR_ZERO = np.float32(2.0**-43)
"""The step of sums of 1e-6 and a number close to -1e-6."""
_ZERO = np.float32(1e-30)  # thresholds up to this size only tell the sides of zero apart
_NEIGHBOURS = 4  # the right number is next to the difference, if it exists

Single = NDArray[np.float32]


def solr_trees(trees: Trees, names: tuple[str, ...], name: str, *, missing: Missing) -> str:
    """Trees as Solr takes them."""
    trees = trees.with_base_as_tree()
    told = missing == "keep" and differs_from_zero(trees)
    thresholds = without_slack(trees, names)
    values = trees.values.astype(np.float32)

    def leaf(place: int, depth: int) -> dict[str, Any]:  # noqa: ARG001 - one signature
        return {"value": repr(float(values[place]))}

    def split(node: int, depth: int, left: Any, right: Any) -> dict[str, Any]:  # noqa: ARG001
        written = {
            "feature": names[trees.feature[node]],
            "threshold": repr(float(thresholds[node])),
        }
        if told:
            written["missing"] = "left" if trees.nan_left[node] else "right"
        return {**written, "left": left, "right": right}

    params: dict[str, Any] = {"isNullSameAsZero": False} if told else {}
    params["trees"] = [
        {"weight": "1.0", "root": nested(trees, tree, leaf=leaf, split=split)}
        for tree in range(trees.n_trees)
    ]
    return model("MultipleAdditiveTreesModel", name, features(names, None), params)


def without_slack(trees: Trees, names: tuple[str, ...]) -> Single:
    """Numbers that become the thresholds when Solr has added its slack."""
    wanted = np.where(np.abs(trees.threshold) > _ZERO, trees.threshold, np.float32(0.0))
    wanted = np.where((wanted == 0) & (trees.threshold < 0), -NEAR_ZERO, wanted)
    with np.errstate(over="ignore"):
        found = wanted - SLACK
        right = found + SLACK == wanted
        for direction in (np.float32(np.inf), np.float32(-np.inf)):
            candidate = found.copy()
            for _ in range(_NEIGHBOURS):
                candidate = np.nextafter(candidate, direction)
                better = ~right & (candidate + SLACK == wanted)
                found, right = np.where(better, candidate, found), right | better
    if not right.all():
        at = int(np.flatnonzero(~right)[0])
        raise UsageError(
            f"Solr adds 1e-6 to each threshold in float32, and no number becomes "
            f"{float(wanted[at])!r}, a threshold on feature {names[trees.feature[at]]!r}, that "
            f"way ({int((~right).sum())} of {len(right)} thresholds). Multiply the feature by a "
            "thousand or more and fit again."
        )
    return found
