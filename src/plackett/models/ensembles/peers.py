"""Trees trained by CatBoost and XGBoost with their own ranking losses, as baselines and members.

The number of trees is selected by the metric of ``fit``, and the model is read from the library's file and scored by
:class:`~plackett.models.ensembles.Ensemble`, with the library's scores to the bit.
"""

from __future__ import annotations

import math
import tempfile
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from plackett.base.errors import DataError, UsageError, require
from plackett.base.ragged import list_of_document
from plackett.data import Dataset
from plackett.models.ensembles.ranker import EnsembleRanker
from plackett.models.fit_context import FitContext, Selection, measure
from plackett.models.parameters import ALIASES, accept_aliases
from plackett.models.ranker import Ranker

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(eq=False)
class PeerEnsembleRanker(EnsembleRanker):
    """The common base of the rankers of other libraries; :class:`CatBoostRanker` documents the parameters."""

    threads_matter: ClassVar[bool] = True
    supports_init: ClassVar[bool] = False
    library: ClassVar[str]
    aliases: ClassVar[Mapping[str, str]] = {
        **ALIASES,
        "n_estimators": "trees",
        "iterations": "trees",
        "early_stopping_rounds": "patience",
    }

    trees: int = 1000
    learning_rate: float | None = None
    patience: int = 100
    seed: int = 0
    threads: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def fit(self, *args: Any, **options: Any) -> Self:
        """Fit like every ranker."""
        return Ranker.fit(self, *args, **options)

    def _fit(self, train: Dataset, validation: Dataset | None, context: FitContext) -> None:
        require(self.library)
        if self.trees < 1 or self.patience < 1:
            raise UsageError(
                f"{type(self).__name__} needs trees >= 1 and patience >= 1, got {self.trees} and {self.patience}."
            )
        if train.document_weights is not None:
            raise UsageError(f"{type(self).__name__} does not support document weights.")
        source = self._train(train, validation, context)
        self._load(source, self.library, train.n_features)

    def _settings(self, **defaults: Any) -> dict[str, Any]:
        """The library's parameters: ``defaults``, and those that the user gave."""
        rate = {} if self.learning_rate is None else {"learning_rate": self.learning_rate}
        return {**defaults, **rate, **self.settings}

    @abstractmethod
    def _train(self, train: Dataset, validation: Dataset | None, context: FitContext) -> bytes:
        """Train, select the number of trees, and return the library's file."""


@accept_aliases
@dataclass(eq=False)
class CatBoostRanker(PeerEnsembleRanker):
    """Symmetric trees of CatBoost; needs ``pip install 'plackett[peers]'``.

    Parameters
    ----------
    trees
        Maximum number of trees.
    learning_rate
        Shrinkage; None: chosen by CatBoost.
    patience
        With validation data: stop if the metric has not improved for this many trees.
    seed, threads
        Random seed, and number of threads; None: all.
    settings
        Parameters passed to CatBoost unchanged; ``loss_function`` is by default ``"YetiRank"``.
    transforms
        Applied to the features first; trees seldom need any.
    """

    library: ClassVar[str] = "catboost"
    libraries: ClassVar[tuple[str, ...]] = ("numpy", "catboost")

    def _train(self, train: Dataset, validation: Dataset | None, context: FitContext) -> bytes:
        import catboost

        settings = self._settings(
            loss_function="YetiRank",
            iterations=self.trees,
            random_seed=self.seed % 2**63,
            thread_count=self.threads or -1,
            allow_writing_files=False,
            verbose=False,
        )
        follower = _CatBoostFollower(self.trees, context, "learn" if validation is None else "validation")
        options: dict[str, Any] = {"callbacks": [follower]}
        if validation is not None:
            # CatBoost stops by its own NDCG; the number of trees is then selected by our metric.
            cutoff = context.metrics[0].cutoff or 10
            settings |= {"eval_metric": f"NDCG:top={cutoff};type=Exp", "use_best_model": False}
            settings |= {"od_type": "Iter", "od_wait": self.patience}
            options["eval_set"] = _pool(validation)
        try:
            model = catboost.CatBoost(settings).fit(_pool(train), **options)
            if follower.error is not None:
                raise follower.error
            if validation is not None:
                selection = Selection()
                for scores in model.staged_predict(_pool(validation)):
                    selection.offer(measure(scores, validation, context.metrics))
                model.shrink(selection.best_step + 1)
        except catboost.CatBoostError as error:
            raise DataError(f"CatBoost rejects the data or a setting: {error}") from error
        with tempfile.TemporaryDirectory(prefix="plackett-") as folder:
            path = Path(folder) / "model.cbm"
            model.save_model(str(path))
            return path.read_bytes()


def _pool(data: Dataset) -> Any:
    import catboost

    lists = list_of_document(data.offsets)
    weights = None if data.weights is None else data.weights[lists]
    return catboost.Pool(data.features, data.labels, group_id=lists, group_weight=weights)


@dataclass
class _CatBoostFollower:
    """Reports each tree; an exception of a callback is kept until CatBoost has returned."""

    trees: int
    context: FitContext
    part: str
    error: BaseException | None = None

    def after_iteration(self, info: Any) -> bool:
        """Called by CatBoost after each tree; False ends the training."""
        metrics = (info.metrics or {}).get(self.part) or {}
        values = next((v for name, v in metrics.items() if name.startswith("NDCG")), None)
        latest = float(values[-1]) if values else math.nan
        steps, measured = (int(info.iteration), self.trees), not math.isnan(latest)
        try:
            self.context.progress(f"trees, {self.part} NDCG {latest:.4f}" if measured else "trees", *steps)
            if self.part == "validation" and measured:
                self.context.watch(*steps, latest)
            return not self.context.should_stop(*steps, {self.part: {"NDCG": latest}} if measured else {})
        except BaseException as error:
            self.error = error
            return False


@accept_aliases
@dataclass(eq=False)
class XGBoostRanker(PeerEnsembleRanker):
    """Trees of XGBoost; needs ``pip install 'plackett[peers]'``.

    Parameters
    ----------
    trees
        Maximum number of trees.
    learning_rate
        Shrinkage; None: XGBoost's default.
    patience
        With validation data: stop if the metric has not improved for this many trees.
    seed, threads
        Random seed, and number of threads; None: all.
    settings
        Parameters passed to XGBoost unchanged; ``objective`` is by default ``"rank:ndcg"``.
    transforms
        Applied to the features first; trees seldom need any.
    """

    library: ClassVar[str] = "xgboost"  # installed under several names

    def _train(self, train: Dataset, validation: Dataset | None, context: FitContext) -> bytes:
        import xgboost

        selection, trees, patience = Selection(), self.trees, self.patience
        settings = self._settings(
            objective="rank:ndcg",
            seed=self.seed % 2**31,
            nthread=self.threads or 0,
            verbosity=0,
            disable_default_eval_metric=True,
        )
        held_out = None if validation is None else _matrix(validation)

        class Follower(xgboost.callback.TrainingCallback):  # type: ignore[misc]
            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002
                """Report a tree; True ends the training."""
                steps = epoch + 1, trees
                if validation is None or held_out is None:
                    context.progress("trees", *steps)
                    return context.should_stop(*steps, {})
                # XGBoost keeps the scores of matrices that it has seen: only the last tree is added.
                scores = np.asarray(model.predict(held_out, output_margin=True), np.float64)
                means = measure(scores, validation, context.metrics)
                selection.offer(means)
                context.progress(f"trees, validation {context.metric_names[0]} {means[0]:.4f}", *steps)
                context.watch(*steps, means[0])
                by_name = dict(zip(context.metric_names, means, strict=True))
                stopped = context.should_stop(*steps, {"validation": by_name})
                return stopped or selection.steps_since_best >= patience

        evals = [] if held_out is None else [(held_out, "validation")]
        try:
            model = xgboost.train(
                settings, _matrix(train), trees, evals=evals, verbose_eval=False, callbacks=[Follower()]
            )
        except xgboost.core.XGBoostError as error:
            raise DataError(f"XGBoost rejects the data or a setting: {error}") from error
        if validation is not None:
            model = model[: selection.best_step + 1]
        return bytes(model.save_raw("ubj"))


def _matrix(data: Dataset) -> Any:
    import xgboost

    matrix = xgboost.DMatrix(data.features, data.labels, qid=list_of_document(data.offsets), missing=np.nan)
    if data.weights is not None:
        matrix.set_weight(data.weights)  # one per list
    return matrix
