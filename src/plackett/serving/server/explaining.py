r"""What each feature adds to a document's score, by the best method a model allows.

``shap``
    Trees: SHAP values. With the base, the mean score of the training data, they sum to the score.
``weights``
    Linear models: weight times (transformed) value. They sum to the score.
``replacement``
    All other models: how much the score falls when the feature gets the median of its list,
    :math:`s(x) - s(x_{j \leftarrow \text{median}})`. Each feature alone: features that stand in for
    each other all seem to matter little, and the numbers do not sum to the score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plackett.base.ragged import list_of_document
from plackett.data.dataset import Dataset
from plackett.models.linear import LinearRanker
from plackett.models.trees import TreeRanker
from plackett.serving.server.bodies import Lists
from plackett.serving.server.models import Model
from plackett.serving.server.scoring import ALONE

NOTES = {
    "shap": "SHAP values: with the base they sum to the score.",
    "weights": "Weight times value, after the model's transforms: they sum to the score.",
    "replacement": "By how much the score falls when this feature alone gets the median of its "
    "list; they do not sum to the score.",
}
_ROWS = 20_000  # scored at a time by replacement


@dataclass(frozen=True, eq=False)
class Explanation:
    """Contributions of features."""

    method: str
    base: float
    """What a score begins with, where contributions sum to it."""
    values: NDArray[np.float64]
    """One row per document, one column per feature."""


def explain(model: Model, lists: Lists) -> Explanation:
    """Contributions of the features to the score of each document."""
    with ALONE:
        if isinstance(model.ranker, TreeRanker):
            return _shap(model.ranker, lists)
        if isinstance(model.ranker, LinearRanker):
            return _weights(model.ranker, lists)
        return _replacement(model, lists)


def _weights(ranker: LinearRanker, lists: Lists) -> Explanation:
    features = lists.features
    if ranker.transform_ is not None:
        features = np.asarray(ranker.transform_.apply(features, lists.offsets))
    return Explanation("weights", 0.0, features * ranker.coefficients_)


def _shap(ranker: TreeRanker, lists: Lists) -> Explanation:
    ids = list_of_document(lists.offsets)
    data = Dataset.from_arrays(lists.features, None, ids, missing="nan")
    found = data.to_rows(ranker.contributions(data))
    return Explanation("shap", float(found[0, -1]), found[:, :-1])


def _replacement(model: Model, lists: Lists) -> Explanation:
    scores = model.scorer(lists.features, lists.offsets)
    values = np.zeros(lists.features.shape)
    for low, high in zip(lists.offsets[:-1], lists.offsets[1:], strict=True):
        part = lists.features[low:high]
        varying = np.flatnonzero((part != part[0]).any(axis=0) & ~np.isnan(part).all(axis=0))
        step = max(_ROWS // len(part), 1)
        for k in range(0, len(varying), step):
            columns = varying[k : k + step]
            changed = np.repeat(part[None], len(columns), axis=0)
            for place, j in enumerate(columns):
                changed[place, :, j] = np.nanmedian(part[:, j])
            # Each changed list is a list of its own: some models look at whole lists.
            offsets = np.arange(len(columns) + 1) * len(part)
            found = model.scorer(changed.reshape(-1, part.shape[1]), offsets)
            values[low:high, columns] = scores[low:high, None] - found.reshape(-1, len(part)).T
    return Explanation("replacement", 0.0, values)
