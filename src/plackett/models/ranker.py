"""What every ranker does: parameters, checks of features, prediction in the caller's order."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from plackett.base.errors import DataError, FeatureMismatch, UsageError
from plackett.base.optional import need_ray
from plackett.base.ragged import Scores, list_blocks
from plackett.data.dataset import Dataset, fingerprint
from plackett.data.disk_arrays import is_large, release, walk
from plackett.data.transforms import FittedTransform, chain, transform
from plackett.data.transforms.base import applied
from plackett.distributed import Cluster, as_cluster
from plackett.metrics import Metric
from plackett.models.artifact.manifest import versions
from plackett.models.artifact.settings import identity_of
from plackett.models.artifact.writing import write
from plackett.models.checkpoint import checkpoint_in
from plackett.models.parameters import check_parameters, plain
from plackett.models.run import Progress, Run, Selector, Watch, as_metrics, silent, unwatched

if TYPE_CHECKING:
    from typing_extensions import Self


SCORED_TOGETHER = 1 << 15
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
    spreads: ClassVar[bool] = False
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
        metric: Selector = "ndcg@5",
        checkpoint: str | os.PathLike[str] | None = None,
        *,
        progress: Progress = silent,
        watch: Watch = unwatched,
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
            prepared, beside = self._begin(train, validation)
            with checkpoint_in(checkpoint, identity) as store:
                self._fit(prepared, beside, Run(metrics, store, progress, watch, workers))
        except BaseException:
            # What was fitted before is still there and must go with its own features.
            self.n_features_, self.feature_names_, self.transform_ = before
            raise
        self.training_ = training
        return self

    def _begin(self, train: Dataset, validation: Dataset | None) -> tuple[Dataset, Dataset | None]:
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
        for start, stop in list_blocks(data.offsets, SCORED_TOGETHER):
            documents = slice(data.offsets[start], data.offsets[stop])
            scores[documents] = self._predict(self._prepared(data.lists(start, stop)))
            release(data.features)
        return scores

    def _prepared(self, data: Dataset) -> Dataset:
        self._check_features(data)
        features = data.features
        if self.transform_ is not None:
            features = applied(self.transform_, features, data.offsets)
        if not self.takes_missing and _has_nan(features):
            raise DataError(
                f"{type(self).__name__} cannot take missing features (NaN); add an imputing "
                'transform, for example transforms=("impute", "standard").'
            )
        return data if features is data.features else data.with_features(features)

    def _check_features(self, data: Dataset) -> None:
        if self.n_features_ is None:
            raise UsageError(f"this {type(self).__name__} is not fitted yet; call fit first.")
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
        if not self.spreads:
            raise UsageError(
                f"{type(self).__name__} is fitted in one process; trees and nets can be fitted on "
                "a cluster (TreeRanker, NeuralRanker, BoostedNeuralRanker), and so can CrossFit of "
                "any ranker."
            )
        need_ray()
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
    def _fit(self, train: Dataset, validation: Dataset | None, run: Run) -> None:
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
    return any(np.isnan(np.sum(values[rows], dtype=np.float64)) for rows in walk(values))
