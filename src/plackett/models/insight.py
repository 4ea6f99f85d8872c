r"""Inspection of fitted models: importance, explanations, curves and a summary.

Contributions are what each feature adds to the score of each document. They are computed by the best method that a
model supports:

``shap``
    Trees: SHAP values. With the base, the mean score of the training data, they sum to the score.
``weights``
    Linear models: weight times (transformed) value. Stumps: the value of a feature's steps. They sum to the score.
``replacement``
    All other models: how much the score falls when the feature gets the median of its list,
    :math:`s(x) - s(x_{j \leftarrow \text{median}})`, one feature at a time. Features that can
    replace each other all get small values, and the values do not sum to the score.

The contributions of a cross-fit are the mean of those of its members, divided by their scales,
where members are trees, linear models or stumps.

Importance is a measure of how much each feature matters.

============  ==================================================================================
kind          importance of a feature
============  ==================================================================================
gain, split   trees: the total gain of its splits, and their number
weights       linear models: absolute coefficient times the feature's standard deviation; stumps:
              how far the feature can move the score
gradient      nets: the mean over documents of :math:`|\partial s / \partial x_j|`, times the
              feature's standard deviation, on a sample of the training lists
permutation   any model: how far a metric falls when the feature's values are permuted over the
              documents of given data
============  ==================================================================================

A cross-fit has the mean of its members' shares, an :class:`AutoRanker` their weighted mean (kind ``shares``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from plackett.base.errors import UsageError, require, unknown_name
from plackett.base.ragged import Features, Offsets, Scores, list_of_document
from plackett.data import Dataset
from plackett.data.large_arrays import iter_blocks, release_pages
from plackett.metrics import evaluate
from plackett.models.fit_context import MetricSpec

if TYPE_CHECKING:
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
    """The score of a document to which no feature adds anything, if contributions sum to the score."""
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


def contributions(
    ranker: Ranker, features: Any, offsets: Offsets, *, scorer: Scorer | None = None
) -> tuple[Method, float, NDArray[np.float64]]:
    """Method, base, and contributions of grouped documents; ``replacement`` scores changed documents by ``scorer``."""
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


Importances = NDArray[np.float64]
"""One number per feature."""


def permutation_importance(ranker: Ranker, data: Dataset, *, metric: Any, seed: int) -> Importances:
    """How much the mean of a metric falls when a feature is permuted over all documents."""
    (before,) = evaluate(ranker.predict(data), data, metric).values()
    features = data.features
    dense = features.toarray() if isinstance(features, csr_array) else np.array(features)
    rng = np.random.default_rng(seed)
    result = np.zeros(data.n_features)
    for j in range(data.n_features):
        column = dense[:, j].copy()
        if len(column) == 0 or np.all(column == column[0]):
            continue
        dense[:, j] = rng.permutation(column)
        changed = data.with_features(dense.copy())
        (after,) = evaluate(ranker.predict(changed), data, metric).values()
        result[j] = before - after
        dense[:, j] = column
    return result


def shares(amounts: Importances) -> Importances:
    """Divide amounts by their sum, so that they add up to 1; all zeros stay zeros."""
    total = amounts.sum()
    return amounts / total if total > 0 else np.zeros(len(amounts))


def deviations(features: NDArray[np.float32] | csr_array) -> Importances:
    """The standard deviation of each feature; missing values are ignored."""
    if isinstance(features, csr_array):
        squares = features.multiply(features).mean(axis=0)
        return np.sqrt(np.maximum(squares - np.square(features.mean(axis=0)), 0.0))
    shift = np.nan_to_num(np.array(features[0], dtype=np.float64))  # against cancellation
    count, total, square = (np.zeros(features.shape[1]) for _ in range(3))
    for rows in iter_blocks(features):
        block = features[rows] - shift
        known = ~np.isnan(block)
        block[~known] = 0.0
        count += known.sum(axis=0)
        total += block.sum(axis=0)
        square += np.square(block).sum(axis=0)
        release_pages(features)
    count = np.maximum(count, 1)
    return np.sqrt(np.maximum(square / count - np.square(total / count), 0.0))


def _objective_name(objective: Any) -> str:
    if isinstance(objective, dict):
        inner = objective.get("objective")
        if isinstance(inner, dict):
            return f"E[{_objective_name(inner)}]"
        return str(objective.get("name") or objective.get("custom"))
    return str(getattr(objective, "name", objective))


class Insight:
    """The part of a ranker that describes a fitted model."""

    @property
    def _ranker(self) -> Ranker:
        return cast("Ranker", self)

    def summary(self) -> str:
        """A one-line description."""
        ranker = self._ranker
        name = (ranker.recipe_name or type(self).__name__) + self._other_objective()
        return f"{name} on {ranker.n_features_} feature{'' if ranker.n_features_ == 1 else 's'}"

    def _other_objective(self) -> str:
        """Name the objective if it is not the one of the recipe."""
        from plackett.models.recipes import RECIPES

        trained = (self._ranker.training_ or {}).get("objective")
        entry = RECIPES.get(self._ranker.recipe_name or "")
        if entry is None or not isinstance(trained, dict):
            return ""
        names = [_objective_name(objective) for objective in (trained, entry.settings.get("objective"))]
        return "" if names[0] == names[1] else f" with {names[0]}"

    def importance(
        self, kind: str | None = None, data: Dataset | None = None, *, metric: MetricSpec = "ndcg@10", seed: int = 0
    ) -> dict[str, float]:
        """How much each feature matters, the most important first.

        :mod:`plackett.models.insight` describes the kinds.

        Parameters
        ----------
        kind
            ``"gain"`` or ``"split"`` for trees, ``"weights"`` for linear models and stumps,
            ``"gradient"`` for nets, ``"permutation"`` for every model. By default
            ``"permutation"`` if data are given, else the first kind that the model supports.
        data
            For ``"permutation"``: the lists to measure on.
        metric, seed
            For ``"permutation"``: what to measure, and the seed of the permutations.
        """
        names, kinds = self._ranker._feature_labels(), self._importance_kinds
        if kind is None:
            kind = kinds[0] if kinds and data is None else "permutation"
        if kind == "permutation":
            if data is None:
                raise UsageError("importance by permutation is measured on data: importance(data=validation).")
            values = permutation_importance(self._ranker, data, metric=metric, seed=seed)
        elif kind in kinds:
            values = np.asarray(self._importance(kind), dtype=np.float64)
        else:
            listed = ", ".join(repr(name) for name in (*kinds, "permutation"))
            raise UsageError(f"the kind of importance of a {type(self).__name__} is one of {listed}, got {kind!r}.")
        order = np.argsort(-values, kind="stable")
        return {names[j]: float(values[j]) for j in order}

    def importance_shares(self) -> NDArray[np.float64] | None:
        """The importance of each feature as shares that add up to 1; None if it is not known."""
        if not self._importance_kinds:
            return None
        try:
            return shares(np.asarray(self._importance(self._importance_kinds[0]), np.float64))
        except UsageError:
            return None

    _importance_kinds: ClassVar[tuple[str, ...]] = ()
    _explained_by: ClassVar[Method] = "replacement"

    def _importance(self, kind: str) -> Any:
        """One number per feature, for a kind of ``_importance_kinds``."""
        raise NotImplementedError

    def _contributions(self, features: Any, offsets: Offsets) -> tuple[float, NDArray[np.float64]]:
        """Base and contributions of grouped documents, for models not explained by replacement."""
        raise NotImplementedError

    def _transform_grouped(self, features: Any, offsets: Offsets) -> Any:
        transform = self._ranker.transform_
        return features if transform is None else transform.apply(features, offsets)

    def explain(self, data: Dataset | ArrayLike, *, query_ids: ArrayLike | None = None) -> Explanation:
        """What each feature adds to the score of each document.

        :mod:`plackett.models.insight` describes the methods.

        Parameters
        ----------
        data, query_ids
            As for :meth:`predict`.
        """
        ranker = self._ranker
        ranker._require_fitted()
        dataset = ranker._as_dataset(data, query_ids)
        ranker._check_features(dataset)
        grouped = dataset.grouped()
        method, base, values = contributions(ranker, grouped.features, grouped.offsets)
        if grouped is not dataset:
            values = values[np.argsort(np.argsort(dataset.list_of_row, kind="stable"))]
        return Explanation(method, base, values, ranker._feature_labels())

    def plot_curves(self, metric: str | None = None, *, ax: Any = None) -> Any:
        """Draw the learning curves with Matplotlib (extra ``figures``); return the axes.

        Parameters
        ----------
        metric
            By default the first.
        ax
            Axes to draw on; by default new ones.
        """
        ranker = self._ranker
        ranker._require_fitted()
        names = list(dict.fromkeys(name for part in ranker.curves_.values() for name in part))
        if not names:
            raise UsageError(
                f"this {type(ranker).__name__} has no learning curves; they are recorded by fit"
                + (" with validation lists." if ranker.training_ else ".")
            )
        if metric is None:
            metric = next((name for name in names if name != "loss"), names[0])
        if metric not in names:
            raise unknown_name("curve", metric, names)
        axes = _axes(ax)
        for part, by_name in ranker.curves_.items():
            if metric in by_name:
                axes.plot(range(1, len(by_name[metric]) + 1), by_name[metric], label=part)
        if ranker.best_step_ and "validation" in ranker.curves_:
            axes.axvline(ranker.best_step_, color="0.6", linewidth=1, linestyle="--")
        axes.set(xlabel="step", ylabel=metric, title=self.summary())
        axes.legend(frameon=False)
        return axes

    def plot_importance(
        self, kind: str | None = None, data: Dataset | None = None, *, top: int = 20, ax: Any = None
    ) -> Any:
        """Draw the importance of the ``top`` features with Matplotlib; return the axes.

        ``kind`` and ``data`` are those of :meth:`importance`.
        """
        values = dict(list(self.importance(kind, data).items())[:top])
        axes = _axes(ax)
        axes.barh(list(values), list(values.values()))
        axes.invert_yaxis()
        default = self._importance_kinds[0] if data is None else "permutation"
        axes.set(xlabel=f"importance ({kind or default})", title=self.summary())
        return axes

    def _repr_html_(self) -> str:
        """A summary for notebooks."""
        from jinja2 import Environment

        ranker = self._ranker
        return (
            Environment(autoescape=True)
            .from_string(_TEMPLATE)
            .render(
                title=type(self).__name__,
                recipe=ranker.recipe_name,
                status=_status(ranker),
                bars=_bars(ranker),
                parameters=[(name, repr(value)) for name, value in ranker.get_params().items()],
            )
        )


_TOP = 10  # features in a notebook


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    require("matplotlib")
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


_TEMPLATE = """\
<div style="font-family: sans-serif; font-size: 13px; line-height: 1.5">
<b>{{ title }}</b>{% if recipe %} &middot; {{ recipe }}{% endif %}
<div style="opacity: .7">{{ status }}</div>
{% if bars %}
<table style="margin: 6px 0; border-collapse: collapse">
{% for name, share, value in bars %}
<tr><td style="text-align: left; padding: 0 8px 0 0">{{ name }}</td>
<td style="width: 160px; padding: 0"><div style="width: {{ share }}%; height: 9px;
 background: #4c78a8"></div></td><td style="padding: 0 0 0 8px">{{ value }}</td></tr>
{% endfor %}
</table>
{% endif %}
<details><summary>parameters</summary><table>
{% for name, value in parameters %}
<tr><td style="text-align: left">{{ name }}</td>
<td style="text-align: left"><code>{{ value }}</code></td></tr>
{% endfor %}
</table></details>
</div>"""


def _status(ranker: Ranker) -> str:
    if ranker.n_features_ is None:
        return "not fitted"
    parts = [f"{ranker.n_features_:,} features"]
    train = (ranker.training_ or {}).get("train")
    if isinstance(train, dict) and {"lists", "documents"} <= set(train):
        parts.append(f"fitted on {train['lists']:,} lists, {train['documents']:,} documents")
    step = ranker.best_step_
    if step is not None:
        parts.append(f"{step:,} steps")
    for name, values in ranker.curves_.get("validation", {}).items():
        # Of a continued fit the curve begins after the steps of the first model.
        if step is not None and 1 <= step <= len(values):
            parts.append(f"validation {name} {values[step - 1]:.4f}")
    return ", ".join(parts)


def _bars(ranker: Ranker) -> list[tuple[str, float, str]]:
    if ranker.n_features_ is None or not ranker._importance_kinds:
        return []
    try:
        values = list(ranker.importance().items())[:_TOP]
    except UsageError:
        return []
    largest = max((value for _, value in values), default=0.0)
    if largest <= 0:
        return []
    return [(name, round(100 * max(value, 0) / largest, 1), f"{value:.4g}") for name, value in values]
