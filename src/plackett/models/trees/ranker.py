"""Boosted regression trees on LightGBM, for any objective.

In each iteration the trainer hands the current scores to the objective, takes gradient and
curvature back, and lets LightGBM grow a tree on them. Names that begin with ``lightgbm-`` stand for
LightGBM's own C++ objectives instead.

Learning curves out of a file that may be damaged.

What a tree model goes by: importance of features, and contributions to single scores.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.kernels import kernel_threads
from plackett.base.ragged import Scores
from plackett.data.dataset import Dataset
from plackett.distributed import WorkerGroup
from plackett.models.ensembles import Ensemble, read_lightgbm
from plackett.models.ranker import FitContext, Ranker
from plackett.models.trees.distributed import grown_together
from plackett.models.trees.lightgbm_data import predicted
from plackett.models.trees.params import BUILT_IN, check_resumable, lightgbm_settings, sized
from plackett.models.trees.training import Curves, Loop, NewtonLeaves, of_some_lists
from plackett.objectives import Objective
from plackett.objectives import objective as as_objective
from plackett.objectives.objective import GradientFunction, reseed

_MAX_BYTES = 64 << 20


def read_curves(path: Path) -> dict[str, dict[str, list[float]]]:
    """Part to metric to values; none if the file is not there."""
    if not path.is_file():
        return {}
    if path.stat().st_size > _MAX_BYTES:
        raise DataError(f"is larger than {_MAX_BYTES >> 20} MB", path=str(path))
    try:
        found = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (ValueError, RecursionError) as error:
        raise DataError("is not JSON", path=str(path)) from error
    if not isinstance(found, dict) or not all(_is_part(part) for part in found.values()):
        raise DataError("must hold numbers by part and metric", path=str(path))
    return found


def _is_part(part: Any) -> bool:
    return isinstance(part, dict) and all(
        isinstance(values, list) and all(isinstance(v, (int, float)) for v in values)
        for values in part.values()
    )


def importance(
    booster: Any, names: tuple[str, ...], kind: Literal["gain", "split"]
) -> dict[str, float]:
    """Total gain or number of splits of each feature, the largest first."""
    if kind not in ("gain", "split"):
        raise UsageError(f'importance is by "gain" or by "split", got {kind!r}.')
    values = booster.feature_importance(importance_type=kind)
    order = np.argsort(-values, kind="stable")
    return {names[j]: float(values[j]) for j in order}


def contributions(booster: Any, features: Any) -> NDArray[np.float64]:
    """SHAP values of each feature and, in the last column, the mean score."""
    return predicted(booster.predict, features, pred_contrib=True)


_FILE, _CURVES = "model.txt", "curves.json"


@dataclass
class TreeRanker(Ranker):
    """A sum of regression trees.

    Parameters
    ----------
    objective
        Name or object; ``lightgbm-lambdarank`` and ``lightgbm-xendcg`` are LightGBM's own.
    trees
        Number of trees at most.
    learning_rate, leaves
        Shrinkage of each tree, and its number of leaves. ``leaves="auto"`` goes by the number of
        training documents.
    min_documents
        Documents a leaf has at least; ``"auto"`` goes by the number of training documents.
    list_fraction, feature_fraction
        Share of the lists and of the features that each tree sees, drawn anew for each.
    patience
        With validation data: stop after so many trees without a better metric.
    smoothing
        Neighbouring trees over which the metric is averaged before the best is chosen; 1: none.
    growth
        How trees are grown: ``"newton"`` chooses splits and leaf values by gradient and curvature;
        ``"squares"`` chooses splits by least squares on the gradient and then takes Newton's step
        in each leaf, as RankLib does.
    monotone
        Features, by name or number, whose trees may only rise (1) or fall (-1).
    categorical
        Features, by name or number, whose values are categories.
    seed
        For whatever is random; it is added to the objective's own.
    threads
        Number of threads; None: all.
    lightgbm
        Parameters handed to LightGBM as they are.
    transforms
        Applied to features first; trees seldom need any.
    """

    takes_missing: ClassVar[bool] = True
    supports_cluster: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("numpy", "lightgbm")

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

    def _fit(self, train: Dataset, validation: Dataset | None, run: FitContext) -> None:
        if run.checkpoint is not None:
            check_resumable(self)
        settings = lightgbm_settings(self, **sized(self, train.n_docs))
        parts = (
            {"train": train} if validation is None else {"train": train, "validation": validation}
        )
        grown = self._grown if run.cluster is None else partial(grown_together, self)
        model, curves = grown(parts, settings, run)
        self.curves_: Curves = curves
        """Means of the metrics after each tree, for the parts of the data."""
        self._take(model)

    def _grown(
        self, parts: dict[str, Dataset], settings: dict[str, Any], run: FitContext, bins: Any = None
    ) -> tuple[str, Curves]:
        """The text of a model and its learning curves."""
        with kernel_threads(self.threads):
            derivatives = self._derivatives(parts["train"])
            leaves = self._own_leaves(parts, settings, run.worker_group)
            loop = Loop(self, parts, derivatives, run, leaves, bins)
            booster = loop.grow(settings)
        return booster.model_to_string(num_iteration=loop.best_step() or None), loop.curves

    def _predict(self, data: Dataset) -> Scores:
        return self._ensemble.predict(data.features, n_threads=self.threads)

    def importance(self, kind: Literal["gain", "split"] = "gain") -> dict[str, float]:
        """How much each feature was used, the most used first.

        Parameters
        ----------
        kind
            ``"gain"``: the sum of what its splits gained; ``"split"``: their number.
        """
        return importance(self._fitted()._booster, self._names(), kind)

    def contributions(self, data: Dataset) -> NDArray[np.float64]:
        """What each feature adds to each document's score (SHAP values).

        One row per document; one column per feature in the order of the data, and last the mean
        score: a row sums to the document's score.
        """
        return contributions(self._fitted()._booster, self._prepare(data).features)

    def _derivatives(self, train: Dataset) -> GradientFunction | None:
        if self.objective in BUILT_IN:
            if train.document_weights is not None:
                raise UsageError(
                    f"LightGBM's own {self.objective} cannot weigh documents by gain; take one of "
                    "plackett's objectives, for example lambdarank or xendcg."
                )
            return None
        bound = reseed(as_objective(self.objective), self.seed).bind(
            train.labels,
            train.offsets,
            train.keys,
            train.weights,
            document_weights=train.document_weights,
        )
        derivatives = bound.float32_gradient
        if self.list_fraction == 1:
            return derivatives
        share = self.list_fraction
        return of_some_lists(derivatives, train.offsets, train.keys, fraction=share, seed=self.seed)

    def _own_leaves(
        self, parts: dict[str, Dataset], settings: dict[str, Any], worker_group: WorkerGroup | None
    ) -> NewtonLeaves | None:
        rate = settings["learning_rate"]
        return (
            NewtonLeaves(parts, rate, worker_group=worker_group)
            if self.growth == "squares"
            else None
        )

    def _fitted(self) -> TreeRanker:
        if self.n_features_ is None:
            raise UsageError(f"this {type(self).__name__} is not fitted yet; call fit first.")
        return self

    def _names(self) -> tuple[str, ...]:
        count = self.n_features_ or 0
        return self.feature_names_ or tuple(str(j + 1) for j in range(count))

    def _take(self, text: str) -> None:
        self.model_: str = text
        """The model in LightGBM's own text."""
        for made in ("_booster", "_ensemble"):
            self.__dict__.pop(made, None)

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
        (folder / _FILE).write_text(self.model_, encoding="utf-8")
        (folder / _CURVES).write_text(json.dumps(self.curves_), encoding="utf-8")

    def _read(self, folder: Path) -> None:
        path = folder / _FILE
        self.curves_ = read_curves(folder / _CURVES)
        self._take(path.read_text(encoding="utf-8", errors="replace"))
        try:
            found = self._ensemble.n_features  # reads and checks all of it before LightGBM sees it
        except DataError as error:
            raise DataError(str(error), path=str(path)) from error
        if found != self.n_features_:
            raise DataError(
                f"is a model of {found} features, not of {self.n_features_}", path=str(path)
            )
