"""Gradient-boosted trees for any objective, trained with LightGBM.

Several workers train together with LightGBM's data-parallel learner. Each worker computes the gradients of its own
lists, which is exact because lists are independent; noise and sampling depend on the keys of lists. LightGBM sums the
histograms of all workers, metrics are means over all lists, and every worker grows the same trees.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import Offsets, Scores
from plackett.base.threads import kernel_threads
from plackett.data import Dataset
from plackett.distributed import Partition, WorkerGroup
from plackett.models.ensembles import Ensemble, EnsembleRanker, read_lightgbm
from plackett.models.fit_context import Curves, FitContext, bind_objective, read_learning_curves, write_learning_curves
from plackett.models.insight import Method
from plackett.models.parameters import ALIASES, accept_aliases
from plackett.models.ranker import Ranker
from plackett.models.trees import params
from plackett.models.trees.position_bias import PositionBias, UnbiasedGradients
from plackett.models.trees.training import BoostingLoop, NewtonLeaves, predict_in_blocks, sample_lists, translate_errors
from plackett.models.workers import WorkerSpec, run_on_workers
from plackett.objectives import Objective, objective as as_objective
from plackett.objectives.objective import GradientFunction, reseed

_MODEL_FILE = "model.txt"
_NETWORK = ("machines", "num_machines", "local_listen_port", "tree_learner", "time_out")
# A model should not reveal the machines that trained it.
_NETWORK_LINES = re.compile(rf"^\[({'|'.join(_NETWORK)}|pre_partition|machine_list_filename): .*\]\n", re.MULTILINE)


@accept_aliases
@dataclass(eq=False)
class TreeRanker(Ranker):
    """Gradient-boosted regression trees.

    LightGBM's parameter names are also accepted: ``n_estimators`` is ``trees``, ``reg_lambda`` goes into ``lightgbm``.
    Those that have no meaning here raise an error.

    Parameters
    ----------
    objective
        Name or object; ``lightgbm-lambdarank`` and ``lightgbm-xendcg`` are built into LightGBM.
    trees
        Maximum number of trees.
    learning_rate, leaves
        Shrinkage of each tree, and its maximum number of leaves; ``leaves="auto"`` depends on the number of training
        documents.
    min_documents
        Minimum number of documents in a leaf; ``"auto"`` depends on the number of training documents.
    list_fraction, feature_fraction
        Share of the lists and of the features that each tree is trained on, sampled for each tree.
    patience
        With validation data: stop if the metric has not improved for this many trees.
    smoothing
        Number of neighboring trees over which the metric is averaged before the best is selected; 1: none.
    growth
        ``"newton"`` chooses splits and leaf values by gradient and curvature; ``"squares"`` chooses splits by least
        squares on the gradient and then takes a Newton step in each leaf, as RankLib does.
    position_bias
        For clicks whose data have positions: the regularization p >= 0 with which position bias is estimated and
        corrected while trees are boosted (Unbiased LambdaMART; the objective is lambdarank). None: clicks are taken
        as they are.
    quantized
        Sum gradients rounded to 16 levels (LightGBM's quantized training), and compute leaf values from the
        exact ones. Faster on large data; the model is about as good but not identical, and it depends on
        the number of threads. Needs ``feature_fraction=1``.
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

    Examples
    --------
    >>> import plackett as pk
    >>> data = pk.synthetic("letor", n_lists=20)
    >>> ranker = pk.TreeRanker("xendcg", trees=5, leaves=4).fit(data)
    >>> ranker.predict(data).shape == (data.n_docs,)
    True
    """

    takes_missing: ClassVar[bool] = True
    takes_categories: ClassVar[bool] = True
    row_wise: ClassVar[bool] = True
    trains_in_place: ClassVar[bool] = True
    supports_cluster: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("numpy", "lightgbm")
    minimums: ClassVar[Mapping[str, int]] = {"trees": 1, "patience": 1, "smoothing": 1}
    aliases: ClassVar[Mapping[str, str]] = {**ALIASES, **params.OUR_NAMES}

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
    position_bias: float | None = None
    quantized: bool = False
    monotone: dict[str | int, int] = field(default_factory=dict)
    categorical: tuple[str | int, ...] = ()
    seed: int = 0
    threads: int | None = None
    lightgbm: dict[str, Any] = field(default_factory=dict)
    transforms: tuple[str, ...] = ()

    @property
    def threads_matter(self) -> bool:  # type: ignore[override]
        return self.quantized

    @classmethod
    def _translate(cls, parameters: Mapping[str, Any], current: Mapping[str, Any] | None = None) -> dict[str, Any]:
        defaults: dict[str, Any] = {"objective": cls.objective, "lightgbm": {}}
        return params.translate_names(parameters, {field.name for field in fields(cls)}, current or defaults)

    def _fit(self, train: Dataset, validation: Dataset | None, context: FitContext) -> None:
        reason = params.why_not_resumable(self)
        if context.checkpoint is not None and reason is not None:
            raise UsageError(reason)
        settings = params.lightgbm_settings(self, train.n_docs)
        parts = {"train": train} | ({} if validation is None else {"validation": validation})
        if self.position_bias is not None and context.cluster is not None:
            raise UsageError("position_bias= is estimated from all lists and is not supported with cluster=.")
        if context.cluster is None:
            model, curves = self._train(parts, settings, context)
        else:
            model, curves = fit_distributed(self, parts, settings, context)
        self.curves_: Curves = curves
        """Means of the metrics after each tree, for each part of the data."""
        self._set_model(model)
        self._best_step = self.best_step_
        self.position_bias_: PositionBias | None = None
        """The position bias of the training clicks, if it was estimated; it is not saved."""
        if self.position_bias is not None:
            unbiased = UnbiasedGradients(as_objective(self.objective), train, self.position_bias)
            scores = predict_in_blocks(self._ensemble.predict, train.features, n_threads=self.threads)
            self.position_bias_ = unbiased.estimate(scores)

    def _train(
        self, parts: dict[str, Dataset], settings: dict[str, Any], context: FitContext, bins: Any = None
    ) -> tuple[str, Curves]:
        """Train in this process; return the text of the model and its learning curves."""
        with kernel_threads(self.threads):
            gradients = self._gradients(parts["train"])
            leaves = None
            if self.growth == "squares":
                leaves = NewtonLeaves(parts, settings["learning_rate"], context.worker_group)
            loop = BoostingLoop(self, parts, gradients, context, leaves, bins)
            booster = loop.run(settings)
        return booster.model_to_string(num_iteration=loop.best_step() or None), loop.curves

    def _gradients(self, train: Dataset) -> GradientFunction | None:
        """Gradient and curvature of the objective; None if LightGBM computes them."""
        if self.objective in params.BUILT_IN and self.position_bias is None:
            if train.document_weights is not None:
                raise UsageError(
                    f"LightGBM's {self.objective} does not support document weights; use one of "
                    "plackett's objectives, for example lambdarank or xendcg."
                )
            return None
        objective = as_objective(self.objective)
        gradients: GradientFunction
        if self.position_bias is None:
            gradients = bind_objective(reseed(objective, self.seed), train).float32_gradient
        else:
            gradients = UnbiasedGradients(objective, train, self.position_bias)
        if self.list_fraction == 1:
            return gradients
        return sample_lists(gradients, train.offsets, train.keys, fraction=self.list_fraction, seed=self.seed)

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

        One row per document; one column per feature in the order of the data, and last the mean score: a row sums to
        the document's score.
        """
        return predict_in_blocks(self._booster.predict, self._prepare(data).features, pred_contrib=True)

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
                raise UsageError(f"init is a model of {init.form_}; only LightGBM's trees can be continued.")
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
        """The model for scoring: the same scores as LightGBM to the bit, but many times faster."""
        return read_lightgbm(self.model_)

    @cached_property
    def _booster(self) -> Any:
        from lightgbm import Booster

        # LightGBM trusts these numbers and would read beyond the text; without them it counts by itself.
        lines = (line for line in self.model_.splitlines() if not line.startswith("tree_sizes="))
        return Booster(model_str="\n".join(lines) + "\n")

    def _write(self, folder: Path) -> None:
        (folder / _MODEL_FILE).write_text(self.model_, encoding="utf-8")
        write_learning_curves(self.curves_, folder)

    def _read(self, folder: Path) -> None:
        path = folder / _MODEL_FILE
        self.curves_ = read_learning_curves(folder)
        self._set_model(path.read_text(encoding="utf-8", errors="replace"))
        try:
            n_features = self._ensemble.n_features  # checks the whole text before LightGBM reads it
        except DataError as error:
            raise DataError(str(error), path=str(path)) from error
        if n_features != self.n_features_:
            raise DataError(f"is a model of {n_features} features, not of {self.n_features_}", path=str(path))


def fit_distributed(
    ranker: TreeRanker, parts: dict[str, Dataset], settings: dict[str, Any], context: FitContext
) -> tuple[str, Curves]:
    """Train on the cluster; return the text of the model and its learning curves."""
    from plackett.models.trees.lightgbm_data import find_bins

    for name in _NETWORK:
        if name in ranker.lightgbm:
            raise UsageError(
                f"{name!r} is set by the cluster; leave it out of lightgbm={{...}}, or fit without cluster=."
            )
    with translate_errors():
        content = settings, find_bins(parts["train"], settings, params.categorical_indices(ranker))
    can_resume = params.why_not_resumable(ranker) is None
    return run_on_workers(train_as_worker, "lightgbm", ranker, parts, context, content, can_resume=can_resume)


def train_as_worker(
    worker_group: WorkerGroup,
    parts: dict[str, Dataset],
    partition: Partition,  # noqa: ARG001 - only batches need it, and trees have none
    spec: WorkerSpec,
) -> tuple[str, Curves]:
    """Train with the other workers; all return the same model."""
    from ray.train.lightgbm import get_network_params

    from plackett.models.trees.lightgbm_data import dataset_from_bins

    ranker, (settings, serialized) = spec.ranker, spec.content
    ranker.set_params(threads=spec.threads)
    bins = dataset_from_bins(serialized, settings, params.categorical_indices(ranker))
    settings = settings | {
        "num_threads": spec.threads,
        "tree_learner": "data",
        "pre_partition": True,
        "time_out": math.ceil(worker_group.timeout_seconds / 60),  # in minutes
        **get_network_params(),
    }
    with spec.context(worker_group) as context:
        model, curves = ranker._train(parts, settings, context, bins)
    return _NETWORK_LINES.sub("", model), curves
