"""Gradient-boosted trees for any objective, trained with LightGBM.

Each step computes the objective's gradient and curvature at the current scores and lets LightGBM
grow one tree on them. Names that begin with ``lightgbm-`` select LightGBM's built-in objectives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.kernels import kernel_threads
from plackett.base.ragged import Offsets, Scores
from plackett.data.dataset import Dataset
from plackett.models.ensembles import Ensemble, EnsembleRanker, read_lightgbm
from plackett.models.explanation import Method
from plackett.models.fit_context import FitContext, bind_objective
from plackett.models.parameters import ALIASES, accept_aliases
from plackett.models.progress import Curves, read_curves, write_curves
from plackett.models.ranker import Ranker
from plackett.models.trees.distributed import fit_distributed
from plackett.models.trees.names import BUILT_IN, OUR_NAMES, translate_names
from plackett.models.trees.params import check_resumable, lightgbm_settings, resolve_sizes
from plackett.models.trees.training import (
    BoostingLoop,
    NewtonLeaves,
    predict_in_blocks,
    sample_lists,
)
from plackett.objectives import Objective
from plackett.objectives import objective as as_objective
from plackett.objectives.objective import GradientFunction, reseed

_MODEL_FILE = "model.txt"


@accept_aliases
@dataclass(eq=False)
class TreeRanker(Ranker):
    """Gradient-boosted regression trees.

    LightGBM's names of parameters work too: ``n_estimators`` is ``trees``, ``reg_lambda`` goes into
    ``lightgbm``, and what has no meaning here is refused.

    Parameters
    ----------
    objective
        Name or object; ``lightgbm-lambdarank`` and ``lightgbm-xendcg`` are built into LightGBM.
    trees
        Maximum number of trees.
    learning_rate, leaves
        Shrinkage of each tree, and its maximum number of leaves; ``leaves="auto"`` depends on the
        number of training documents.
    min_documents
        Minimum number of documents in a leaf; ``"auto"`` depends on the number of training
        documents.
    list_fraction, feature_fraction
        Share of the lists and of the features that each tree is trained on, sampled for each tree.
    patience
        With validation data: stop if the metric has not improved for this many trees.
    smoothing
        Number of neighboring trees over which the metric is averaged before the best is selected;
        1: none.
    growth
        ``"newton"`` chooses splits and leaf values by gradient and curvature; ``"squares"`` chooses
        splits by least squares on the gradient and then takes a Newton step in each leaf, as
        RankLib does.
    monotone
        Features, by name or number, in which the score may only rise (1) or fall (-1).
    categorical
        Features, by name or number, whose values are categories.
    seed
        Random seed; it is added to the seed of the objective.
    threads
        Number of threads; None: all.
    lightgbm
        Parameters passed to LightGBM unchanged.
    transforms
        Applied to the features first; trees seldom need any.
    """

    takes_missing: ClassVar[bool] = True
    takes_categories: ClassVar[bool] = True
    row_wise: ClassVar[bool] = True
    trains_in_place: ClassVar[bool] = True
    supports_cluster: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("numpy", "lightgbm")
    minimums: ClassVar[Mapping[str, int]] = {"trees": 1, "patience": 1, "smoothing": 1}
    aliases: ClassVar[Mapping[str, str]] = {**ALIASES, **OUR_NAMES}

    objective: str | Objective = "xendcg"
    trees: int = 500
    learning_rate: float = 0.05
    leaves: int | Literal["auto"] = 64
    min_documents: int | Literal["auto"] = 20
    list_fraction: float = 1.0
    feature_fraction: float = 1.0
    patience: int = 50
    smoothing: int = 1
    growth: Literal["newton", "squares"] = "newton"
    monotone: dict[str | int, int] = field(default_factory=dict)
    categorical: tuple[str | int, ...] = ()
    seed: int = 0
    threads: int | None = None
    lightgbm: dict[str, Any] = field(default_factory=dict)
    transforms: tuple[str, ...] = ()

    @classmethod
    def _translate(
        cls, parameters: Mapping[str, Any], current: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        defaults: dict[str, Any] = {"objective": cls.objective, "lightgbm": {}}
        known = [field.name for field in fields(cls)]
        return translate_names(parameters, known, current or defaults)

    def _fit(self, train: Dataset, validation: Dataset | None, context: FitContext) -> None:
        if context.checkpoint is not None:
            check_resumable(self)
        settings = lightgbm_settings(self, **resolve_sizes(self, train.n_docs))
        parts = {"train": train} | ({} if validation is None else {"validation": validation})
        if context.cluster is None:
            model, curves = self._train(parts, settings, context)
        else:
            model, curves = fit_distributed(self, parts, settings, context)
        self.curves_: Curves = curves
        """Means of the metrics after each tree, for each part of the data."""
        self._set_model(model)
        self._best_step = self.best_step_

    def _train(
        self,
        parts: dict[str, Dataset],
        settings: dict[str, Any],
        context: FitContext,
        bins: Any = None,
    ) -> tuple[str, Curves]:
        """Train in this process; return the text of the model and its learning curves."""
        with kernel_threads(self.threads):
            gradients = self._gradients(parts["train"])
            leaves = None
            if self.growth == "squares":
                rate = settings["learning_rate"]
                leaves = NewtonLeaves(parts, rate, worker_group=context.worker_group)
            loop = BoostingLoop(self, parts, gradients, context, leaves, bins)
            booster = loop.run(settings)
        return booster.model_to_string(num_iteration=loop.best_step() or None), loop.curves

    def _gradients(self, train: Dataset) -> GradientFunction | None:
        """Gradient and curvature of the objective; None if LightGBM computes them."""
        if self.objective in BUILT_IN:
            if train.document_weights is not None:
                raise UsageError(
                    f"LightGBM's {self.objective} does not support document weights; use one of "
                    "plackett's objectives, for example lambdarank or xendcg."
                )
            return None
        objective = reseed(as_objective(self.objective), self.seed)
        gradients = bind_objective(objective, train).float32_gradient
        if self.list_fraction == 1:
            return gradients
        return sample_lists(
            *(gradients, train.offsets, train.keys), fraction=self.list_fraction, seed=self.seed
        )

    def _predict(self, data: Dataset) -> Scores:
        return self._ensemble.predict(data.features, n_threads=self.threads)

    _importance_kinds: ClassVar[tuple[str, ...]] = ("gain", "split")
    _explained_by: ClassVar[Method] = "shap"

    def _importance(self, kind: str) -> Any:
        return self._booster.feature_importance(importance_type=kind)

    def _contributions(self, features: Any, offsets: Offsets) -> tuple[float, NDArray[np.float64]]:
        rows = self._transform_grouped(features, offsets)
        values = predict_in_blocks(self._booster.predict, rows, pred_contrib=True)
        return float(values[0, -1]), values[:, :-1]

    def contributions(self, data: Dataset) -> NDArray[np.float64]:
        """What each feature adds to each document's score (SHAP values).

        One row per document; one column per feature in the order of the data, and last the mean
        score: a row sums to the document's score.
        """
        features = self._prepare(data).features
        return predict_in_blocks(self._booster.predict, features, pred_contrib=True)

    @property
    def best_step_(self) -> int | None:
        """Number of trees of the model."""
        return None if self.n_features_ is None else self.model_.count("\nTree=")

    def _init_kinds(self) -> tuple[type[Ranker], ...]:
        return (TreeRanker, EnsembleRanker)

    def init_booster(self, init: Ranker) -> Any:
        """The trees of a model to start from, as LightGBM's booster."""
        from lightgbm import Booster

        if isinstance(init, EnsembleRanker):
            if init.form_ != "lightgbm":
                raise UsageError(
                    f"init is a model of {init.form_}; only LightGBM's trees can be continued."
                )
            model = TreeRanker()
            model._set_model(init.source_.decode("utf-8", errors="replace"))
            return model._booster
        assert isinstance(init, TreeRanker)
        return Booster(model_str=init._booster.model_to_string())

    def _set_model(self, text: str) -> None:
        self.model_: str = text
        """The model in LightGBM's text format."""
        for name in ("_booster", "_ensemble"):
            self.__dict__.pop(name, None)

    @cached_property
    def _ensemble(self) -> Ensemble:
        """The model for scoring: the same scores as LightGBM's to the bit, many times faster."""
        return read_lightgbm(self.model_)

    @cached_property
    def _booster(self) -> Any:
        from lightgbm import Booster

        # LightGBM trusts these numbers and would read beyond the text; without them it counts.
        lines = (line for line in self.model_.splitlines() if not line.startswith("tree_sizes="))
        return Booster(model_str="\n".join(lines) + "\n")

    def _write(self, folder: Path) -> None:
        (folder / _MODEL_FILE).write_text(self.model_, encoding="utf-8")
        write_curves(self.curves_, folder)

    def _read(self, folder: Path) -> None:
        path = folder / _MODEL_FILE
        self.curves_ = read_curves(folder)
        self._set_model(path.read_text(encoding="utf-8", errors="replace"))
        try:
            n_features = self._ensemble.n_features  # checks the whole text before LightGBM reads it
        except DataError as error:
            raise DataError(str(error), path=str(path)) from error
        if n_features != self.n_features_:
            raise DataError(
                f"is a model of {n_features} features, not of {self.n_features_}", path=str(path)
            )
