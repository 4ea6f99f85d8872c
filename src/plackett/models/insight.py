"""What every fitted model tells about itself: importance, explanations, curves and a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import UsageError
from plackett.base.ragged import Offsets
from plackett.data.dataset import Dataset
from plackett.models.explanation import Explanation, Method, explain_dataset
from plackett.models.fit_context import MetricSpec
from plackett.models.importance import importances, shares

if TYPE_CHECKING:
    from plackett.models.ranker import Ranker


class Insight:
    """The part of a ranker that tells about a fitted model."""

    @property
    def _ranker(self) -> Ranker:
        return cast("Ranker", self)

    def importance(
        self,
        kind: str | None = None,
        data: Dataset | None = None,
        *,
        metric: MetricSpec = "ndcg@10",
        seed: int = 0,
    ) -> dict[str, float]:
        """How much each feature counts, the most important first.

        :mod:`plackett.models.importance` describes the kinds.

        Parameters
        ----------
        kind
            ``"gain"`` or ``"split"`` for trees, ``"weights"`` for linear models and stumps,
            ``"gradient"`` for nets, ``"permutation"`` for every model. By default
            ``"permutation"`` if data are given, else the first of the model's kind.
        data
            For ``"permutation"``: the lists to measure on.
        metric, seed
            For ``"permutation"``: what to measure, and the seed of the permutations.
        """
        names = self._ranker._feature_labels()
        values = importances(self._ranker, kind, data, metric=metric, seed=seed)
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

    def explain(
        self, data: Dataset | ArrayLike, *, query_ids: ArrayLike | None = None
    ) -> Explanation:
        """What each feature adds to the score of each document.

        :mod:`plackett.models.explanation` describes the methods.

        Parameters
        ----------
        data, query_ids
            As for :meth:`predict`.
        """
        self._ranker._require_fitted()
        dataset = self._ranker._as_dataset(data, query_ids)
        self._ranker._check_features(dataset)
        return explain_dataset(self._ranker, dataset)

    def plot_curves(self, metric: str | None = None, *, ax: Any = None) -> Any:
        """Draw the learning curves with Matplotlib (extra ``figures``); return the axes.

        Parameters
        ----------
        metric
            By default the first.
        ax
            Axes to draw on; by default new ones.
        """
        from plackett.models.display import plot_curves

        return plot_curves(self._ranker, metric, ax=ax)

    def plot_importance(
        self, kind: str | None = None, data: Dataset | None = None, *, top: int = 20, ax: Any = None
    ) -> Any:
        """Draw the importance of the ``top`` features with Matplotlib; return the axes.

        ``kind`` and ``data`` are those of :meth:`importance`.
        """
        from plackett.models.display import plot_importance

        return plot_importance(self._ranker, kind, data, top=top, ax=ax)

    def _repr_html_(self) -> str:
        """A summary for notebooks."""
        from plackett.models.display import html_summary

        return html_summary(self._ranker)
