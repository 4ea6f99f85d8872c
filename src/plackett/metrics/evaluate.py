"""Metrics of a dataset: a value per list, or their mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from plackett.base.errors import DataError
from plackett.base.ragged import Ids, Keys, Labels, Offsets, Values
from plackett.metrics.compute import values_per_list
from plackett.metrics.lists import check_lists
from plackett.metrics.metric import Metric, metrics


class LabelledLists(Protocol):
    """The attributes of a dataset that evaluation needs."""

    @property
    def labels(self) -> Labels:
        """One per document."""

    @property
    def offsets(self) -> Offsets:
        """List q holds the documents ``offsets[q]`` to ``offsets[q + 1]``."""

    @property
    def weights(self) -> Values | None:
        """One per list."""

    @property
    def document_ids(self) -> Ids | None:
        """One per document; only ``ties=docid`` uses them."""

    @property
    def keys(self) -> Keys | None:
        """One per list; only ``ties=random`` uses them."""


def evaluate(
    scores: ArrayLike, dataset: LabelledLists, metrics: str | Metric | Iterable[str | Metric]
) -> dict[str, float]:
    """Mean of each metric over the lists that count, by the metric's spelling ``str(metric)``.

    A list that the convention drops counts neither in the sum nor in the sum of weights; if no
    list is left, the mean is NaN.

    Parameters
    ----------
    scores
        One per document of the data set.
    dataset
        A :class:`plackett.Dataset`, or anything with its labels, offsets, weights, document ids
        and keys.
    metrics
        One metric or several, as spellings or values; a text may be comma-separated.
    """
    values = per_list(scores, dataset, metrics)
    n_lists = len(dataset.offsets) - 1
    weights = _check_weights(dataset.weights, n_lists)
    return {spelling: _mean(value, weights) for spelling, value in values.items()}


def per_list(
    scores: ArrayLike, dataset: LabelledLists, metrics: str | Metric | Iterable[str | Metric]
) -> dict[str, Values]:
    """Value of each metric for each list, NaN where dropped; parameters as :func:`evaluate`."""
    selected = _metrics(metrics)
    lists = check_lists(
        scores,
        dataset.labels,
        dataset.offsets,
        document_ids=dataset.document_ids,
        keys=dataset.keys,
    )
    values = values_per_list(selected, lists)
    return {str(metric): value for metric, value in zip(selected, values, strict=True)}


_metrics = metrics  # the functions above have a parameter of that name


def _check_weights(weights: Values | None, n_lists: int) -> Values:
    if weights is None:
        return np.ones(n_lists)
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (n_lists,) or not np.all((array >= 0) & (array < np.inf)):
        raise DataError(
            f"weights must be finite, not negative and one for each of the {n_lists} lists."
        )
    return array


def _mean(values: Values, weights: Values) -> float:
    counts = ~np.isnan(values)
    total = weights[counts].sum()
    return float((values[counts] * weights[counts]).sum() / total) if total > 0 else float("nan")
