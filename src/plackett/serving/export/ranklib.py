r"""RankLib's XML, for the plugins of Elasticsearch and OpenSearch (``model/ranklib``) and RankLib.

RankLib's reader selects the children of a tag by position and strips line breaks and trailing
space, so the file has one tag per line and nothing between tags. A document goes left if
:math:`x \le t` in float32; features count from 1 and have no names; a missing value is zero.
"""

from __future__ import annotations

import numpy as np

from plackett.serving.export.parts import ExportRequest, check_absent_is_zero
from plackett.serving.export.trees import Trees, fold_tree

Lines = list[str]


def ranklib_xml(request: ExportRequest) -> str:
    """Write trees as a LambdaMART model of RankLib."""
    check_absent_is_zero(request, "RankLib")
    trees = request.trees.with_base_as_tree()
    head = [
        "## LambdaMART",
        f"## No. of trees = {trees.n_trees}",
        f"## No. of leaves = {int(np.diff(trees.leaf_offsets).max(initial=1))}",
        "## No. of threshold candidates = 256",
        "## Learning rate = 1.0",
        "## Stop early = 100",
        "",
        "<ensemble>",
    ]
    body = [line for tree in range(trees.n_trees) for line in _tree_lines(trees, tree)]
    return "\n".join([*head, *body, "</ensemble>"]) + "\n"


def _tree_lines(trees: Trees, tree: int) -> Lines:
    def leaf(place: int, depth: int) -> Lines:
        value = float(np.float32(trees.values[place]))
        return [f"{_indent(depth)}<output> {value!r} </output>"]

    def split(node: int, depth: int, left: Lines, right: Lines) -> Lines:
        indent = _indent(depth)
        return [
            f"{indent}<feature> {trees.feature[node] + 1} </feature>",
            f"{indent}<threshold> {float(trees.threshold[node])!r} </threshold>",
            f'{indent}<split pos="left">',
            *left,
            f"{indent}</split>",
            f'{indent}<split pos="right">',
            *right,
            f"{indent}</split>",
        ]

    lines = fold_tree(trees, tree, leaf=leaf, split=split)
    begin = [f'\t<tree id="{tree + 1}" weight="1.0">', "\t\t<split>"]
    return [*begin, *lines, "\t\t</split>", "\t</tree>"]


def _indent(depth: int) -> str:
    return "\t" * (depth + 3)
