"""The base class of all rankers: parameters, ``fit``, ``predict``, ``save``.

``fit`` checks parameters and features, opens the checkpoint and hands the prepared lists with a
:class:`FitContext` to the subclass. ``predict`` returns scores in the order of the caller's rows.
"""

from __future__ import annotations

import os
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from numpy.typing import ArrayLike

from plackett.base.errors import DataError, FeatureMismatch, UsageError, rename_deprecated, require
from plackett.base.ragged import Scores, list_blocks
from plackett.data.dataset import Dataset, fingerprint
from plackett.data.large_arrays import is_large, iter_blocks, release_pages
from plackett.data.transforms import FittedTransform, chain, transform
from plackett.data.transforms.base import apply_in_blocks
from plackett.distributed import Cluster, WorkerGroup, as_cluster
from plackett.metrics import Metric, MetricLike
from plackett.metrics import metrics as as_metrics
from plackett.models.artifact.manifest import versions, write
from plackett.models.artifact.settings import identity_of
from plackett.models.checkpoint import Checkpoint, open_checkpoint
from plackett.objectives import CONDITIONAL, SVMMAP, Objective, Stochastic
from plackett.objectives.objective import BoundObjective

if TYPE_CHECKING:
    from typing_extensions import Self


Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with a status text, the steps done, and the maximum number of steps."""

WatchFunction: TypeAlias = Callable[[int, int, float], None]
"""Called with the steps done, the maximum number of steps, and the first metric on validation.

It may raise an exception to end a fit early; ``fit`` lets the exception through.
"""

MetricSpec: TypeAlias = MetricLike | Sequence[MetricLike]
"""One metric, or several that are compared in this order."""


@dataclass(frozen=True)
class FitContext:
    """What a subclass needs for one fit besides the data."""

    metrics: tuple[Metric, ...]
    """The metrics to select by; a later one counts where the earlier ones are equal."""
    checkpoint: Checkpoint | None
    """Where to save the state and resume from; None: nowhere."""
    progress: Progress
    watch: WatchFunction
    """Called with the metric on the validation lists, after each step that measures it."""
    cluster: Cluster | None = None
    """Where to fit; None: in this process."""
    worker_group: WorkerGroup | None = None
    """In a worker: the workers of the same fit; None: one process fits alone."""

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The metrics as text."""
        return tuple(str(metric) for metric in self.metrics)


def parse_metrics(spec: MetricSpec) -> tuple[Metric, ...]:
    """The metrics to select by; a string may name several, separated by commas."""
    metrics = as_metrics(spec)
    if not metrics:
        raise UsageError('fit needs a metric to select by, for example metric="ndcg@10".')
    return metrics


def no_progress(text: str, done: int, total: int) -> None:
    """No-op progress callback."""


def no_watch(done: int, total: int, mean: float) -> None:
    """No-op watch function."""


SCORING_BLOCK = 1 << 15
"""Documents that are scored at a time where features are on disk; nets always score that many."""


class Ranker(ABC):
    """A model that gives each document of a list a score.

    Subclasses are dataclasses whose fields are the parameters, with scikit-learn's conventions: the
    constructor only stores them, ``fit`` returns the ranker itself, fitted attributes end in ``_``.
    """

    takes_missing: ClassVar[bool] = False
    """Whether the model takes NaN as a value of a feature."""
    threads_matter: ClassVar[bool] = False
    """Whether the last bits of the model depend on the number of threads."""
    supports_cluster: ClassVar[bool] = False
    """Whether it can be fitted on several machines."""
    not_identity: ClassVar[tuple[str, ...]] = ()
    """Parameters with which a checkpoint may be continued after they were changed."""
    libraries: ClassVar[tuple[str, ...]] = ("numpy",)
    """Libraries whose versions a saved model records."""

    transforms: tuple[str, ...]
    recipe_name: str | None = None
    """The recipe that made it, if any."""

    n_features_: int | None = None
    """Number of features; None before ``fit``."""
    feature_names_: tuple[str, ...] | None = None
    transform_: FittedTransform | None = None
    """The fitted transforms; None if there are none."""
    training_: dict[str, Any] | None = None
    """Training data and metrics as plain data; None before ``fit``."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - for scikit-learn
        """Parameters by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name."""
        parameters = rename_deprecated(parameters)
        known = self.get_params()
        for name in parameters:
            if name not in known:
                raise UsageError(
                    f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}."
                )
        parameters = {name: _to_python(value) for name, value in parameters.items()}
        _check_types(type(self), parameters)
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def clone(self) -> Self:
        """Return a ranker with the same parameters that is not fitted."""
        parameters = self.get_params()
        for name, value in parameters.items():
            parameters[name] = dict(value) if isinstance(value, dict) else value
        copy = type(self)().set_params(**parameters)
        copy.recipe_name = self.recipe_name
        return copy

    def fit(
        self,
        train: Dataset,
        validation: Dataset | None = None,
        metric: MetricSpec = "ndcg@5",
        checkpoint: str | os.PathLike[str] | None = None,
        *,
        progress: Progress = no_progress,
        watch: WatchFunction = no_watch,
        cluster: Cluster | str | None = None,
    ) -> Self:
        """Fit on ``train``; with ``validation``, select by ``metric`` on it.

        Parameters
        ----------
        train
            The lists to learn from.
        validation
            Lists for early stopping and model selection.
        metric
            What to select by. Several, as a sequence or separated by commas, are compared in their
            order: a later one counts where the earlier ones are equal.
        checkpoint
            A folder for the state of the fit. If the process is killed, the same call with the same
            folder resumes the fit and ends in the same model.
        progress
            Called after each step with a text, the steps done and the steps in total.
        watch
            Called after each step that is measured on ``validation``, with the steps done, the
            steps in total and the first metric. An exception that it raises ends the fit.
        cluster
            Fit with several workers, on one machine or many, where the model supports it:
            ``"local:2"``, ``"auto"``, or a :class:`plackett.distributed.Cluster`.
        """
        self.set_params(**self.get_params())  # the constructor does not check
        metrics = parse_metrics(metric)
        workers = self._parse_cluster(cluster)
        training = {
            "train": _summarize(train),
            "validation": None if validation is None else _summarize(validation),
            "metric": [str(metric) for metric in metrics],
        }
        store: AbstractContextManager[Checkpoint | None] = nullcontext()
        if checkpoint is not None:
            identity = {
                "kind": type(self).__name__,
                "settings": identity_of(self),
                "training": training,
                "libraries": versions(self.libraries),
            }
            store = open_checkpoint(checkpoint, identity)
        fitted_before = (self.n_features_, self.feature_names_, self.transform_)
        try:
            train, validation = self._prepare_fit(train, validation)
            with store as state:
                self._fit(train, validation, FitContext(metrics, state, progress, watch, workers))
        except BaseException:
            # An earlier model is still there and needs the features it was fitted on.
            self.n_features_, self.feature_names_, self.transform_ = fitted_before
            raise
        self.training_ = training
        return self

    def _prepare_fit(
        self, train: Dataset, validation: Dataset | None
    ) -> tuple[Dataset, Dataset | None]:
        """Set the features, fit the transforms, and apply them."""
        self.n_features_ = train.n_features
        self.feature_names_ = train.feature_names
        self.transform_ = None
        if self.transforms:
            self.transform_ = chain(*(transform(name) for name in self.transforms)).fit(train)
        return self._prepare(train), None if validation is None else self._prepare(validation)

    def summary(self) -> str:
        """A one-line description."""
        return f"{self.recipe_name or type(self).__name__} on {self.n_features_} features"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model as the folder ``path``; :func:`plackett.load` reads it back."""
        write(self, path)

    def predict(self, data: Dataset | ArrayLike, *, query_ids: ArrayLike | None = None) -> Scores:
        """Score documents; higher is better.

        Parameters
        ----------
        data
            A dataset: scores are aligned with its labels and offsets. Or features with one row per
            document: scores are in the order of these rows.
        query_ids
            For features: the query of each row, for models that score whole lists; by default all
            rows form one list.
        """
        if isinstance(data, Dataset):
            if is_large(data.features):
                return self._predict_blocks(data)
            return self._predict(self._prepare(data))
        n_rows = int(np.shape(data)[0])
        ids = np.zeros(n_rows, np.int64) if query_ids is None else query_ids
        dataset = Dataset.from_arrays(data, None, ids, missing="nan")
        return dataset.to_rows(self.predict(dataset))

    def _predict_blocks(self, data: Dataset) -> Scores:
        """Score features on disk block by block; lists are independent of each other."""
        self._check_features(data)
        scores = np.empty(data.n_docs)
        for start, stop in list_blocks(data.offsets, SCORING_BLOCK):
            documents = slice(data.offsets[start], data.offsets[stop])
            scores[documents] = self._predict(self._prepare(data.lists(start, stop)))
            release_pages(data.features)
        return scores

    def _prepare(self, data: Dataset) -> Dataset:
        """Check the features and apply the transforms."""
        self._check_features(data)
        features = data.features
        if self.transform_ is not None:
            features = apply_in_blocks(self.transform_, features, data.offsets)
        if not self.takes_missing and has_nan(features):
            raise DataError(
                f"{type(self).__name__} cannot take missing features (NaN); add an imputing "
                'transform, for example transforms=("impute", "standard").'
            )
        return data if features is data.features else data.with_features(features)

    def _feature_labels(self) -> tuple[str, ...]:
        """The names of the features, or their numbers from 1."""
        return self.feature_names_ or tuple(str(j + 1) for j in range(self._require_fitted()))

    def _require_fitted(self) -> int:
        """Raise UsageError before ``fit``; return the number of features."""
        if self.n_features_ is None:
            raise UsageError(f"this {type(self).__name__} is not fitted yet; call fit first.")
        return self.n_features_

    def _check_features(self, data: Dataset) -> None:
        self._require_fitted()
        if data.n_features != self.n_features_:
            raise FeatureMismatch(
                f"the model was fitted on {self.n_features_} features, the data have "
                f"{data.n_features}."
            )
        expected, actual = self.feature_names_, data.feature_names
        if expected is not None and actual is not None and expected != actual:
            pairs = enumerate(zip(expected, actual, strict=True))
            j = next(j for j, (name, other) in pairs if name != other)
            raise FeatureMismatch(
                f"feature {j + 1} is {actual[j]!r} in the data but {expected[j]!r} in the model; "
                "give the columns in the model's order."
            )

    def _parse_cluster(self, cluster: Cluster | str | None) -> Cluster | None:
        if cluster is None:
            return None
        if not self.supports_cluster:
            raise UsageError(
                f"{type(self).__name__} does not support cluster=; TreeRanker, NeuralRanker, "
                "BoostedNeuralRanker and a CrossFit of any ranker do."
            )
        require("ray")
        return as_cluster(cluster)

    @abstractmethod
    def _fit(self, train: Dataset, validation: Dataset | None, context: FitContext) -> None:
        """Learn from prepared lists."""

    @abstractmethod
    def _predict(self, data: Dataset) -> Scores:
        """Scores of prepared lists."""

    @abstractmethod
    def _write(self, folder: Path) -> None:
        """Write the fitted model to files in ``folder``."""

    @abstractmethod
    def _read(self, folder: Path) -> None:
        """Read the fitted model from the files in ``folder``, which may be malicious."""


def _summarize(data: Dataset) -> dict[str, Any]:
    return {"lists": data.n_lists, "documents": data.n_docs, "fingerprint": fingerprint(data)}


def has_nan(features: Any) -> bool:
    """Whether a value of the features is missing."""
    values = features if isinstance(features, np.ndarray) else features.data
    # A sum is NaN if and only if some value is; this needs no mask as large as the features.
    return any(np.isnan(np.sum(values[rows], dtype=np.float64)) for rows in iter_blocks(values))


def check_learnable(data: Dataset, objective: Objective | None = None) -> None:
    """Raise DataError if every list has documents of one label level only."""
    inner = objective.objective if isinstance(objective, Stochastic) else objective
    binary = isinstance(inner, (*CONDITIONAL, SVMMAP))
    levels = (data.labels > 0).astype(np.float32) if binary else data.labels
    starts = data.offsets[:-1][np.diff(data.offsets) > 0]
    if len(starts) and np.any(
        np.maximum.reduceat(levels, starts) > np.minimum.reduceat(levels, starts)
    ):
        return
    if inner is not None and binary and np.any(data.labels > 0):
        raise DataError(
            f"{inner.name} takes labels above 0 as relevant, and every list here is all relevant "
            "or all not; subtract from the labels so that 0 means not relevant."
        )
    raise DataError("no list has two levels of labels; there is nothing to learn from.")


def bind_objective(objective: Objective, data: Dataset) -> BoundObjective:
    """The objective for the lists of a dataset, with their weights."""
    return objective.bind(
        data.labels, data.offsets, data.keys, data.weights, document_weights=data.document_weights
    )


def split_nested(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Separate parameters of a ranker from those of rankers inside it.

    As in scikit-learn, two underscores lead inside:

    >>> split_nested({"folds": 3, "ranker__leaves": 31})
    ({'folds': 3}, {'ranker': {'leaves': 31}})
    """
    outer: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for name, value in parameters.items():
        head, separator, rest = name.partition("__")
        if separator:
            inner.setdefault(head, {})[rest] = value
        else:
            outer[name] = value
    return outer, inner


def _to_python(value: Any) -> Any:
    """NumPy's numbers as Python's, which files and seeds can take, and sequences as tuples."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(map(_to_python, value)) if isinstance(value, list) else value


def _check_types(kind: type, parameters: dict[str, Any]) -> None:
    """Raise UsageError for a parameter whose type differs from its annotation."""
    hints = _hints(kind)
    for name, value in parameters.items():
        if name in hints and not _matches(value, hints[name]):
            expected = _describe_hint(hints[name])
            raise UsageError(f"{kind.__name__}'s {name} must be {expected}, got {value!r}.")


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _matches(value: Any, hint: Any) -> bool:
    if hint is Any:
        return True
    origin, options = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_matches(value, option) for option in options)
    if origin is Literal:
        return any(type(value) is type(option) and value == option for option in options)
    if origin is tuple:
        items = [option for option in options if option is not Ellipsis]
        return isinstance(value, tuple) and all(
            not items or any(_matches(item, option) for option in items) for item in value
        )
    if hint in (int, float):
        accepted = (int, float) if hint is float else int
        return isinstance(value, accepted) and not isinstance(value, bool)
    expected = origin or hint
    return isinstance(value, expected) if isinstance(expected, type) else True


def _describe_hint(hint: Any) -> str:
    """An annotation in words."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_describe_hint(option) for option in get_args(hint))
    if origin is Literal:
        return " or ".join(repr(option) for option in get_args(hint))
    words = {int: "a whole number", float: "a number", str: "a text", bool: "True or False"}
    words |= {tuple: "a tuple", dict: "a dictionary", type(None): "None"}
    expected = origin or hint
    return words.get(expected) or str(getattr(expected, "__name__", expected))
