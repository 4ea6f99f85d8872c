r"""An ensemble of regression trees as a value: flat arrays, checked once, scored at once.

The score of a document is the base score plus the value of the leaf it reaches in each tree, added
in the order of the trees. Shrinkage is already part of the leaf values. At an inner node the
document goes left if :math:`x \le t`, or if its category is in the node's set; *decision* bits say
what happens to missing values, in LightGBM's spelling:

=====  =====================================================================================
bit    meaning
=====  =====================================================================================
0      a set of categories decides, not a threshold
1      missing values go left
2, 3   what is missing: 0 nothing (NaN is read as zero), 1 zero and NaN, 2 NaN
=====  =====================================================================================

Two libraries differ in more than the file: ``library`` says whose rules hold.

================================  ===========================  ==============================
rule                              ``lightgbm``                 ``xgboost``
================================  ===========================  ==============================
sums                              float64                      float32
values up to 1e-35 in size        zero                         themselves
categories between -1 and 0       category 0                   no category
absent entries of a sparse row    zero                         missing
================================  ===========================  ==============================
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from plackett.base.ragged import Scores
from plackett.models.ensembles.checks import check
from plackett.models.ensembles.layout import Layout, lay_out
from plackett.models.ensembles.order import Order
from plackett.models.ensembles.scoring import score


@dataclass(frozen=True, eq=False, kw_only=True)
class Ensemble:
    """Regression trees in flat arrays.

    Arrays over inner nodes hold those of the first tree, then those of the second, and so on;
    children are counted within their tree. Construction copies nothing but makes the arrays
    read-only, and raises :class:`~plackett.base.errors.DataError` on anything that is not a tree.

    Parameters
    ----------
    library
        Whose rules hold, ``lightgbm`` or ``xgboost``.
    n_features
        Columns of the features it scores.
    nodes, leaves
        Offsets of each tree's inner nodes and leaves, one more than trees.
    feature, threshold, decision
        Of each inner node; the threshold of a node with categories is not looked at.
    left, right
        Children of each inner node: ``c >= 0`` is an inner node of the same tree, ``~c`` a leaf.
    category_set
        The set of each inner node, or -1.
    leaf_values
        Of each leaf.
    set_offsets, sets
        Words of each set of categories; bit b of word w stands for category 32 w + b.
    base_score
        Added first.
    feature_names
        If known.
    """

    library: Literal["lightgbm", "xgboost"]
    n_features: int
    nodes: NDArray[np.int64]
    leaves: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    decision: NDArray[np.uint8]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    category_set: NDArray[np.int32]
    leaf_values: NDArray[np.float64]
    set_offsets: NDArray[np.int64]
    sets: NDArray[np.uint32]
    base_score: float = 0.0
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                value = np.ascontiguousarray(value).view()
                value.flags.writeable = False
                object.__setattr__(self, name, value)
        object.__setattr__(self, "_order", check(self))

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.nodes) - 1

    def predict(self, features: Any, *, n_threads: int | None = None) -> Scores:
        """Scores of documents, the same to the bit on any number of threads.

        Parameters
        ----------
        features
            One row per document: an array or a SciPy sparse matrix. Arrays of float32 take the
            fast path. For LightGBM's models, float64 values are compared as they are, as LightGBM
            does; for XGBoost's they are rounded to float32 first, as XGBoost does.
        n_threads
            Threads at most; None takes Numba's number.

        Returns
        -------
        scores
            What ``Booster.predict(features, raw_score=True)`` of LightGBM gives, or
            ``output_margin=True`` of XGBoost; float64.
        """
        return score(self, features, n_threads=n_threads)

    @cached_property
    def layout(self) -> Layout:
        """Questions and trees in the form that the compiled loops read."""
        order: Order = self.__dict__["_order"]
        return lay_out(self, order)

    def __repr__(self) -> str:
        largest = int(np.diff(self.leaves).max(initial=0))
        return (
            f"Ensemble({self.library}, {self.n_trees} trees of up to {largest} leaves, "
            f"{self.n_features} features)"
        )
