"""Metrics of a dataset: a value per list, or their mean.

This is the second stage of a metric: one number per list, from rankings that the metrics share.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias, overload

import numpy as np
from numba import boolean, float64, int64, void
from numba.types import Tuple
from numpy.typing import ArrayLike

from plackett.base.errors import DataError, UsageError
from plackett.base.kernels import FLOATS, INTEGERS, LABELS, function_maker, list_function
from plackett.base.ragged import Ids, Keys, Labels, Offsets, Rows, Values, factorize, offsets_from_sizes
from plackett.base.threads import run_parallel
from plackett.metrics.definition import SIGNATURE
from plackett.metrics.metric import FunctionMetric, Metric, MetricLike, metrics as make_metrics
from plackett.metrics.ranking import LEAST_LISTS, RankingRule, ScoredLists, check_lists, ideal_ranking, rank


class LabeledLists(Protocol):
    """The attributes of a dataset that evaluation needs.

    If it also has an ``order`` (``rows``, ``lists``, ``offsets``, ``keys``), as
    :class:`plackett.Dataset` has, its rows may be in any order, and ties are broken in that order.
    """

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


Metrics: TypeAlias = MetricLike | Iterable[MetricLike]
_DEFAULT = "ndcg@10"


@overload
def evaluate(scores: ArrayLike, dataset: LabeledLists, /, metrics: Metrics = ...) -> dict[str, float]: ...
@overload
def evaluate(
    labels: ArrayLike, scores: ArrayLike, /, query_ids: ArrayLike, metrics: Metrics = ...
) -> dict[str, float]: ...
def evaluate(scores: Any, dataset: Any, *more: Any, metrics: Any = _DEFAULT, query_ids: Any = None) -> dict[str, float]:
    """Mean of each metric over the lists that count, by the metric's spelling ``str(metric)``.

    ``evaluate(scores, dataset, metrics)``, or ``evaluate(labels, scores, query_ids, metrics)`` for
    plain arrays. A list that the convention drops counts neither in the sum nor in the sum of
    weights; if no list is left, the mean is NaN.

    Parameters
    ----------
    scores
        One per document, in the order of the rows.
    dataset
        A :class:`plackett.Dataset`, or anything with its labels, offsets, weights, document ids
        and keys.
    metrics
        One metric or several, as spellings or values; a text may be comma-separated.
    labels, query_ids
        For plain arrays, one per document. Without a data set, equal scores keep the order of the rows.

    Examples
    --------
    >>> import plackett as pk
    >>> pk.evaluate([0, 2, 1], [0.1, 0.9, 0.4], ["a", "a", "b"], "ndcg@10")
    {'ndcg@10': 1.0}
    """
    values, weights, _ = _compute(scores, dataset, more, metrics, query_ids)
    means = {}
    for spelling, value in values.items():
        counts = ~np.isnan(value)
        total = weights[counts].sum()
        means[spelling] = float((value[counts] * weights[counts]).sum() / total) if total > 0 else float("nan")
    return means


@overload
def per_list(scores: ArrayLike, dataset: LabeledLists, /, metrics: Metrics = ...) -> dict[str, Values]: ...
@overload
def per_list(
    labels: ArrayLike, scores: ArrayLike, /, query_ids: ArrayLike, metrics: Metrics = ...
) -> dict[str, Values]: ...
def per_list(
    scores: Any, dataset: Any, *more: Any, metrics: Any = _DEFAULT, query_ids: Any = None
) -> dict[str, Values]:
    """Value of each metric for each list, NaN where dropped; arguments as :func:`evaluate`.

    Lists are in the order in which they first appear in the rows.

    Examples
    --------
    >>> import plackett as pk
    >>> data = pk.Dataset.from_arrays([[0.2], [0.9], [0.4], [0.1]], [0, 2, 1, 0], ["b", "a", "b", "a"])
    >>> pk.per_list(data.features[:, 0], data, "dcg@1")["dcg@1"].tolist()
    [1.0, 3.0]
    """
    values, _, numbers = _compute(scores, dataset, more, metrics, query_ids)
    return {spelling: value[np.argsort(numbers)] for spelling, value in values.items()}


def _compute(
    first: Any, second: Any, more: tuple[Any, ...], metrics: Any, query_ids: Any
) -> tuple[dict[str, Values], Values, Rows]:
    """Values for (scores, dataset, metrics) or (labels, scores, query_ids, metrics); weights and numbers of the lists.

    Lists come in the order in which ties are broken; they are numbered by first appearance.
    """
    is_dataset = hasattr(second, "labels") and hasattr(second, "document_ids")
    names = ("metrics",) if is_dataset else ("query_ids", "metrics")
    default = {"metrics": _DEFAULT, "query_ids": None}
    named = {"metrics": metrics, "query_ids": query_ids}
    if len(more) > len(names) or any(named[name] is not default[name] for name in names[: len(more)]):
        raise TypeError(f"{_FORMS}, got {2 + len(more)} positional arguments and those by name.")
    named |= dict(zip(names, more, strict=False))
    if is_dataset != (named["query_ids"] is None):
        raise UsageError(f"{_FORMS}, got {type(first).__name__} and {type(second).__name__}.")
    selected = make_metrics(named["metrics"])
    weights, numbers = None, None
    if is_dataset:
        lists, weights, numbers = _sort_dataset(first, second)
    else:
        lists = _sort_arrays(first, second, named["query_ids"])
    values = {str(metric): value for metric, value in zip(selected, values_per_list(selected, lists), strict=True)}
    n_lists = len(lists.sizes)
    numbers = np.arange(n_lists) if numbers is None else numbers
    if weights is None:
        return values, np.ones(n_lists), numbers
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (n_lists,) or not np.all((array >= 0) & (array < np.inf)):
        raise DataError(f"weights must be finite, not negative and one for each of the {n_lists} lists.")
    return values, array, numbers


_FORMS = "give evaluate(scores, dataset, metrics), or evaluate(labels, scores, query_ids, metrics) for arrays"


def _sort_dataset(scores: ArrayLike, dataset: Any) -> tuple[ScoredLists, Values | None, Rows | None]:
    if hasattr(scores, "predict"):
        raise UsageError("evaluate takes scores, not a model: evaluate(ranker.predict(data), data).")
    order = getattr(dataset, "order", None)
    labels, ids, weights = dataset.labels, dataset.document_ids, dataset.weights
    if order is None or order.is_identity:
        return check_lists(scores, labels, dataset.offsets, document_ids=ids, keys=dataset.keys), weights, None
    values = np.asarray(scores)
    if values.shape != labels.shape:
        raise DataError(f"there must be one score for each document, got {values.shape} for {labels.shape}.")
    ids = None if ids is None else ids[order.rows]
    lists = check_lists(values[order.rows], labels[order.rows], order.offsets, document_ids=ids, keys=order.keys)
    return lists, None if weights is None else np.asarray(weights)[order.lists], order.lists


def _sort_arrays(labels: ArrayLike, scores: ArrayLike, query_ids: ArrayLike) -> ScoredLists:
    y, s, ids = np.asarray(labels), np.asarray(scores), np.asarray(query_ids)
    if not y.shape == s.shape == ids.shape or y.ndim != 1:
        raise DataError(
            "labels, scores and query_ids must have one value per document, got shapes "
            f"{y.shape}, {s.shape} and {ids.shape}."
        )
    lists = factorize(ids)[1]
    rows = np.argsort(lists, kind="stable")
    return check_lists(s[rows], y[rows], offsets_from_sizes(np.bincount(lists)))


def values_per_list(metrics: Sequence[Metric], lists: ScoredLists) -> list[Values]:
    """Compute each metric for each list; metrics share rankings where they can."""
    others = [metric for metric in metrics if not isinstance(metric, FunctionMetric)]
    computed = iter(_kernel_values(others, lists))
    return [_call_function(m, lists) if isinstance(m, FunctionMetric) else next(computed) for m in metrics]


def _call_function(metric: FunctionMetric, lists: ScoredLists) -> Values:
    """Call a user's function for each list with documents."""
    values = np.full(len(lists.offsets) - 1, np.nan)
    labels = lists.labels.astype(np.float64)
    for q in np.flatnonzero(lists.sizes):
        documents = slice(lists.offsets[q], lists.offsets[q + 1])
        value = metric.function(lists.scores[documents].copy(), labels[documents].copy())
        if np.ndim(value) != 0 or not isinstance(value, (int, float, np.number, np.bool_)):
            raise UsageError(f"the metric {metric} must return one number for a list, got {value!r}.")
        values[q] = value
    return values


def _kernel_values(metrics: Sequence[Metric], lists: ScoredLists) -> list[Values]:
    highest = lists.labels.max(initial=0)
    for metric in metrics:
        largest = metric.definition.largest_label
        # Labels are float32: compare in that precision, or a grade of 0.1 would reject a label 0.1.
        if largest is not None and highest > np.float32(allowed := largest(metric.settings)):
            raise DataError(
                f"{metric} allows labels up to {allowed:g}, but there is a label "
                f"{highest:g}; choose the option gain or grade to fit the labels."
            )
    rules = [metric.rule for metric in metrics]
    depths: dict[RankingRule, int] = {}
    for metric, rule in zip(metrics, rules, strict=True):
        depths[rule] = max(depths.get(rule, 1), metric.depth)
    longest = int(lists.sizes.max(initial=1))
    rankings = {rule: rank(rule, lists, min(depth, longest)) for rule, depth in depths.items()}
    ideal_depth = max((m.depth for m in metrics if m.definition.uses_ideal), default=0)
    ideal = ideal_ranking(lists, min(ideal_depth, longest))
    results = [np.empty(len(lists.offsets) - 1) for _ in metrics]
    for metric, rule, values in zip(metrics, rules, results, strict=True):
        ranking, definition, settings = rankings[rule], metric.definition, metric.settings
        empty = np.nan if settings.empty == "drop" else float(settings.empty)
        run_parallel(
            evaluate_lists.compiled,
            len(values),
            definition.function.address,
            (ranking.labels, ranking.ends, ranking.starts, ranking.depth),
            (ideal.labels, ideal.starts, lists.labels, lists.offsets),
            (metric.depth, definition.discounts(settings, min(metric.depth, longest))),
            np.array(definition.params(settings), dtype=np.float64),
            (settings.short == "zero" and metric.cutoff is not None, empty),
            values,
            least=LEAST_LISTS,
        )
    return results


_function_at = function_maker(SIGNATURE)


_RANKING = Tuple((LABELS, INTEGERS, INTEGERS, INTEGERS))  # labels, ends, starts and depth
_LISTS = Tuple((LABELS, INTEGERS, LABELS, INTEGERS))  # of the ideal ranking, and of all documents


@list_function(
    void(int64, int64, int64, _RANKING, _LISTS, Tuple((int64, FLOATS)), FLOATS, Tuple((boolean, float64)), float64[::1])
)
def evaluate_lists(first, last, address, ranking, lists, discounting, params, rules, values):  # type: ignore[no-untyped-def]
    """Call a list function for each list and apply the rules for short and empty lists."""
    ranked, ends, starts, depth = ranking
    ideal, ideal_starts, labels, offsets = lists
    cutoff, discounts = discounting
    short_is_zero, empty = rules
    function = _function_at(address)
    for q in range(first, last):
        low, high = starts[q], starts[q] + depth[q]
        list_labels = labels[offsets[q] : offsets[q + 1]]
        value = function(
            ranked[low:high],
            ends[low:high] if len(ends) > 0 else ends,
            ideal[ideal_starts[q] : ideal_starts[q + 1]],
            list_labels,
            cutoff,
            discounts,
            params,
        )
        if np.isnan(value):
            values[q] = empty
        elif short_is_zero and len(list_labels) < cutoff:
            values[q] = 0.0
        else:
            values[q] = value
