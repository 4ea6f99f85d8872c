r"""What each feature adds to the score of each document.

Contributions are computed by the best method that a model supports:

``shap``
    Trees: SHAP values. With the base, the mean score of the training data, they sum to the score.
``weights``
    Linear models: weight times (transformed) value. Stumps: the value of a feature's steps. They
    sum to the score.
``replacement``
    All other models: how much the score falls when the feature gets the median of its list,
    :math:`s(x) - s(x_{j \leftarrow \text{median}})`, one feature at a time. Features that can
    replace each other all get small values, and the values do not sum to the score.

The contributions of a cross-fit are the mean of those of its members, divided by their scales,
where members are trees, linear models or stumps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plackett.base.ragged import Features, Offsets, Scores, list_of_document

if TYPE_CHECKING:
    from plackett.data.dataset import Dataset
    from plackett.models.ranker import Ranker

Method: TypeAlias = Literal["shap", "weights", "replacement"]
Scorer: TypeAlias = Callable[[Features, Offsets], Scores]

NOTES: dict[Method, str] = {
    "shap": "SHAP values: with the base they sum to the score.",
    "weights": "Weight times value, after the model's transforms: they sum to the score.",
    "replacement": "By how much the score falls when this feature alone gets the median of its "
    "list; they do not sum to the score.",
}
_REPLACED_ROWS = 20_000  # scored at a time by replacement


@dataclass(frozen=True, eq=False)
class Explanation:
    """What each feature adds to the score of each document."""

    method: Method
    """How contributions are computed: shap, weights or replacement."""
    base: float
    """The score of a document to which no feature adds anything, where they sum to the score."""
    contributions: NDArray[np.float64]
    """Documents x features, in the order of the caller's rows and of the model's features."""
    features: tuple[str, ...]

    @property
    def note(self) -> str:
        """What the numbers mean."""
        return NOTES[self.method]

    def document(self, row: int) -> dict[str, float]:
        """What each feature adds to one document's score, the largest in absolute value first."""
        values = self.contributions[row]
        order = np.argsort(-np.abs(values), kind="stable")
        return {self.features[j]: float(values[j]) for j in order}

    def __repr__(self) -> str:
        n_docs, n_features = self.contributions.shape
        return f"Explanation({n_docs} documents x {n_features} features, {self.method})"


def explain_dataset(ranker: Ranker, data: Dataset) -> Explanation:
    """Explain the documents of a data set, in its order."""
    grouped = data.grouped()
    method, base, values = contributions(ranker, grouped.features, grouped.offsets)
    if grouped is not data:
        values = values[np.argsort(np.argsort(data.list_of_row, kind="stable"))]
    return Explanation(method, base, values, ranker._feature_labels())


def contributions(
    ranker: Ranker, features: Any, offsets: Offsets, *, scorer: Scorer | None = None
) -> tuple[Method, float, NDArray[np.float64]]:
    """Method, base, and one row of contributions per document.

    Parameters
    ----------
    ranker
        Fitted.
    features, offsets
        Documents grouped by list.
    scorer
        What scores changed documents, for the method ``replacement``; by default the ranker.
    """
    method = method_of(ranker)
    if method != "replacement":
        base, values = ranker._contributions(features, offsets)
        return method, base, values

    def predict(rows: Features, lists: Offsets) -> Scores:
        return ranker.predict(rows, query_ids=list_of_document(lists))

    return method, 0.0, _replace(scorer or predict, features, offsets)


def method_of(ranker: Ranker) -> Method:
    """How a ranker's contributions are computed."""
    return ranker._explained_by


def _replace(scorer: Scorer, features: Any, offsets: Offsets) -> NDArray[np.float64]:
    features = features if isinstance(features, np.ndarray) else features.toarray()
    scores = scorer(features, offsets)
    result = np.zeros(features.shape)
    for low, high in pairwise(offsets):
        part = features[low:high]
        varying = np.flatnonzero((part != part[0]).any(axis=0) & ~np.isnan(part).all(axis=0))
        step = max(_REPLACED_ROWS // len(part), 1)
        for k in range(0, len(varying), step):
            columns = varying[k : k + step]
            changed = np.repeat(part[None], len(columns), axis=0)
            for copy, j in enumerate(columns):
                changed[copy, :, j] = np.nanmedian(part[:, j])
            # Each copy is a list of its own, because some models compare the documents of a list.
            lists = np.arange(len(columns) + 1) * len(part)
            lower = scorer(changed.reshape(-1, part.shape[1]), lists)
            result[low:high, columns] = scores[low:high, None] - lower.reshape(-1, len(part)).T
    return result
