"""What every ranker does: parameters, checks of features, prediction in the caller's order.

Parameters that are what their annotations say, whether they come from a caller or a file.

What accompanies one fit: what to choose by, where to keep its state, whom to tell.

Whether there is anything to learn in a training set.
"""

from __future__ import annotations

import os
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
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

from plackett.base.deprecation import rename_deprecated
from plackett.base.errors import DataError, FeatureMismatch, UsageError
from plackett.base.optional import require
from plackett.base.ragged import Scores, list_blocks
from plackett.data.dataset import Dataset, fingerprint
from plackett.data.large_arrays import is_large, iter_blocks, release_pages
from plackett.data.transforms import FittedTransform, chain, transform
from plackett.data.transforms.base import apply_in_blocks
from plackett.distributed import Cluster, WorkerGroup, as_cluster
from plackett.metrics import Metric
from plackett.metrics import metric as as_metric
from plackett.models.artifact.manifest import identity_of, versions, write
from plackett.models.checkpoint import Checkpoint, checkpoint_in
from plackett.objectives import CONDITIONAL, SVMMAP, Objective, Stochastic

if TYPE_CHECKING:
    from typing_extensions import Self


def plain(value: Any) -> Any:
    """NumPy's numbers as Python's, which files and seeds can take, and sequences as tuples."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(map(plain, value)) if isinstance(value, list) else value


def nested(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Parameters of a ranker itself, and by name those of what is inside it.

    As in scikit-learn, two underscores lead inside:

    >>> nested({"folds": 3, "ranker__leaves": 31})
    ({'folds': 3}, {'ranker': {'leaves': 31}})
    """
    own: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for name, value in parameters.items():
        outer, sign, rest = name.partition("__")
        if sign:
            inner.setdefault(outer, {})[rest] = value
        else:
            own[name] = value
    return own, inner


def check_parameters(kind: type, parameters: dict[str, Any]) -> None:
    """Refuse a parameter of another type than its annotation names."""
    hints = _hints(kind)
    for name, value in parameters.items():
        if name in hints and not _fits(value, hints[name]):
            raise UsageError(
                f"{kind.__name__}'s {name} must be {_spoken(hints[name])}, got {value!r}."
            )


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: Any, hint: Any) -> bool:
    if hint is Any:
        return True
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in get_args(hint))
    if origin is tuple:
        inner = [each for each in get_args(hint) if each is not Ellipsis]
        return isinstance(value, tuple) and all(_fits_any(each, inner) for each in value)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    expected = origin or hint
    return isinstance(value, expected) if isinstance(expected, type) else True


def _fits_any(value: Any, hints: list[Any]) -> bool:
    return not hints or any(_fits(value, hint) for hint in hints)


def _spoken(hint: Any) -> str:
    """An annotation in words."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_spoken(each) for each in get_args(hint))
    if origin is Literal:
        return " or ".join(repr(each) for each in get_args(hint))
    words = {int: "a whole number", float: "a number", str: "a text", bool: "True or False"}
    words |= {tuple: "a tuple", dict: "a dictionary", type(None): "None"}
    expected = origin or hint
    return words.get(expected) or str(getattr(expected, "__name__", expected))


Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, how many steps are done, and how many there are at most."""

WatchFunction: TypeAlias = Callable[[int, int, float], None]
"""Called with the steps done, the steps there are at most, and the first metric on validation.

It may raise to end a fit that is not worth going on with; the exception leaves ``fit`` as it is.
"""

MetricSpec: TypeAlias = str | Metric | Sequence[str | Metric]
"""One metric, or several that are compared in this order."""


@dataclass(frozen=True)
class FitContext:
    """One fit's companions."""

    metrics: tuple[Metric, ...]
    """To choose by; a later one counts where the earlier ones are equal."""
    checkpoint: Checkpoint | None
    """Where to keep the state and take it up again; None: nowhere."""
    progress: Progress
    watch: WatchFunction
    """Told the metric on the validation lists, after each step that measures it."""
    cluster: Cluster | None = None
    """Where to fit; None: in this process."""
    worker_group: WorkerGroup | None = None
    """In a worker: the other workers of the same fit; None: it is fitted by one process."""

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The metrics as text."""
        return tuple(str(metric) for metric in self.metrics)


def as_metrics(given: MetricSpec) -> tuple[Metric, ...]:
    """The metrics to choose by; a string may name several, separated by commas."""
    if isinstance(given, str):
        given = [name.strip() for name in given.split(",")]
    chosen = (given,) if isinstance(given, Metric) else tuple(as_metric(each) for each in given)
    if not chosen:
        raise UsageError('fit needs a metric to choose by, for example metric="ndcg@5".')
    return chosen


def no_progress(text: str, done: int, total: int) -> None:
    """Tell nobody."""


def no_watch(done: int, total: int, mean: float) -> None:
    """Nobody looks."""


SCORING_BLOCK = 1 << 15
"""Documents of features on disk that are scored at a time; nets score as many at a time anyway."""


class Ranker(ABC):
    """A model that gives each document of a list a score.

    Subclasses are dataclasses whose fields are the parameters, by scikit-learn's habits: nothing
    happens in the constructor, ``fit`` returns the ranker itself, what is fitted ends in ``_``.
    """

    takes_missing: ClassVar[bool] = False
    """NaN features go into the model as they are."""
    threads_matter: ClassVar[bool] = False
    """The last bits of the model depend on the number of threads."""
    supports_cluster: ClassVar[bool] = False
    """It can be fitted on several machines."""
    libraries: ClassVar[tuple[str, ...]] = ("numpy",)
    """Whose versions a saved model records."""

    transforms: tuple[str, ...]
    recipe_name: str | None = None
    """The recipe it was made by, if any."""

    n_features_: int | None = None
    """Number of features it was fitted on; None until then."""
    feature_names_: tuple[str, ...] | None = None
    transform_: FittedTransform | None = None
    """The fitted transforms; None if there are none."""
    training_: dict[str, Any] | None = None
    """What it was fitted on and chosen by, as plain data; None until then."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - scikit-learn's
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
        parameters = {name: plain(value) for name, value in parameters.items()}
        check_parameters(type(self), parameters)
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def clone(self) -> Self:
        """A ranker with the same parameters that is not fitted."""
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
        """Fit on ``train``; with ``validation``, choose by ``metric`` on it.

        Parameters
        ----------
        train
            The lists to learn from.
        validation
            Lists to choose on: when to stop, which candidate to keep.
        metric
            What to choose by. Several, as a sequence or separated by commas, are compared in their
            order: a later one counts where the earlier ones are equal.
        checkpoint
            A folder for the state of the fit. A process that was killed is taken up where it was
            when the same fit is started again with the same folder, and ends in the same model.
        progress
            Called after each step with a text, the steps done and the steps in all.
        watch
            Called after each step that is measured on ``validation``, with the steps done, the
            steps in all and the (first) metric; what it raises ends the fit.
        cluster
            Several workers, on this machine or on many, for models that can be fitted so:
            ``"local:2"``, ``"auto"``, or a :class:`plackett.distributed.Cluster`.
        """
        self.set_params(**self.get_params())  # what the constructor took unseen is checked here
        metrics = as_metrics(metric)
        workers = self._workers(cluster)
        training = self._training(train, validation, metrics)
        identity = {}
        if checkpoint is not None:
            identity = {
                "kind": type(self).__name__,
                "settings": identity_of(self),
                "training": training,
                "libraries": versions(self.libraries),
            }
        before = (self.n_features_, self.feature_names_, self.transform_)
        try:
            prepared, beside = self._prepare_fit(train, validation)
            with checkpoint_in(checkpoint, identity) as store:
                self._fit(prepared, beside, FitContext(metrics, store, progress, watch, workers))
        except BaseException:
            # What was fitted before is still there and must go with its own features.
            self.n_features_, self.feature_names_, self.transform_ = before
            raise
        self.training_ = training
        return self

    def _prepare_fit(
        self, train: Dataset, validation: Dataset | None
    ) -> tuple[Dataset, Dataset | None]:
        """Take over the features, and prepare the lists."""
        self.n_features_ = train.n_features
        self.feature_names_ = train.feature_names
        recipe = chain(*(transform(name) for name in self.transforms))
        self.transform_ = recipe.fit(train) if self.transforms else None
        return self._prepared(train), None if validation is None else self._prepared(validation)

    def summary(self) -> str:
        """What it is in a few words, for people."""
        return f"{self.recipe_name or type(self).__name__} on {self.n_features_} features"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model as the folder ``path``; :func:`plackett.load` reads it back."""
        write(self, path)

    def predict(self, data: Dataset | ArrayLike, *, query_ids: ArrayLike | None = None) -> Scores:
        """Score documents; higher is better.

        Parameters
        ----------
        data
            A data set: scores are aligned with its labels and offsets. Or features with one row per
            document: scores are in the order of these rows.
        query_ids
            For features: the query of each row, for models that look at whole lists; by
            default all rows form one list.
        """
        if isinstance(data, Dataset):
            large = is_large(data.features)
            return self._predict_blocks(data) if large else self._predict(self._prepared(data))
        n_rows = int(np.shape(data)[0])
        ids = np.zeros(n_rows, np.int64) if query_ids is None else query_ids
        dataset = Dataset.from_arrays(data, None, ids, missing="nan")
        return dataset.to_rows(self.predict(dataset))

    def _predict_blocks(self, data: Dataset) -> Scores:
        """The same scores for features on disk: lists do not see each other."""
        self._check_features(data)
        scores = np.empty(data.n_docs)
        for start, stop in list_blocks(data.offsets, SCORING_BLOCK):
            documents = slice(data.offsets[start], data.offsets[stop])
            scores[documents] = self._predict(self._prepared(data.lists(start, stop)))
            release_pages(data.features)
        return scores

    def _prepared(self, data: Dataset) -> Dataset:
        self._check_features(data)
        features = data.features
        if self.transform_ is not None:
            features = apply_in_blocks(self.transform_, features, data.offsets)
        if not self.takes_missing and _has_nan(features):
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
        ours, theirs = self.feature_names_, data.feature_names
        if ours is not None and theirs is not None and ours != theirs:
            at = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
            raise FeatureMismatch(
                f"feature {at + 1} is {theirs[at]!r} in the data but {ours[at]!r} in the model; "
                "give the columns in the model's order."
            )

    def _workers(self, given: Cluster | str | None) -> Cluster | None:
        if given is None:
            return None
        if not self.supports_cluster:
            raise UsageError(
                f"{type(self).__name__} is fitted in one process; trees and nets can be fitted on "
                "a cluster (TreeRanker, NeuralRanker, BoostedNeuralRanker), and so can CrossFit of "
                "any ranker."
            )
        require("ray")
        return as_cluster(given)

    @staticmethod
    def _training(
        train: Dataset, validation: Dataset | None, metrics: tuple[Metric, ...]
    ) -> dict[str, Any]:
        return {
            "train": _summary(train),
            "validation": None if validation is None else _summary(validation),
            "metric": [str(metric) for metric in metrics],
        }

    @abstractmethod
    def _fit(self, train: Dataset, validation: Dataset | None, run: FitContext) -> None:
        """Learn from prepared lists; whatever is learned ends in ``_``."""

    @abstractmethod
    def _predict(self, data: Dataset) -> Scores:
        """Scores of prepared lists."""

    @abstractmethod
    def _write(self, folder: Path) -> None:
        """Put what was learned into files of ``folder``."""

    @abstractmethod
    def _read(self, folder: Path) -> None:
        """Take what was learned from the files of ``folder``; they may be hostile."""


def _summary(data: Dataset) -> dict[str, Any]:
    return {"lists": data.n_lists, "documents": data.n_docs, "fingerprint": fingerprint(data)}


def _has_nan(features: Any) -> bool:
    values = features if isinstance(features, np.ndarray) else features.data
    # One pass without a temporary as large as the features: a sum is NaN iff some value is.
    return any(np.isnan(np.sum(values[rows], dtype=np.float64)) for rows in iter_blocks(values))


def check_learnable(data: Dataset, objective: Objective | None = None) -> None:
    """Refuse data in which the objective tells no two documents of any list apart."""
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
