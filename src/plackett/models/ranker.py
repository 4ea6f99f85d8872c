"""The base class of all rankers: parameters, ``fit``, ``predict``, ``save``.

``fit`` checks parameters and features, opens the checkpoint and hands the prepared lists with a
:class:`FitContext` to the subclass. ``predict`` returns scores in the order of the caller's rows.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError, FeatureMismatch, UsageError, require
from plackett.base.files import read_key
from plackett.base.ragged import Scores, list_blocks
from plackett.data import Dataset, fingerprint
from plackett.data.canonical import has_nan
from plackett.data.inputs import Categories, ids_from_sizes
from plackett.data.large_arrays import check_before_use, is_large, iter_blocks, release_pages
from plackett.data.transforms import FittedChain, FittedTransform, chain, encode_categories, transform
from plackett.data.transforms.base import apply_in_blocks
from plackett.distributed import Cluster, as_cluster
from plackett.models import fit_context, inputs
from plackett.models.artifact import identity_of, versions, write
from plackett.models.checkpoint import Checkpoint, open_checkpoint
from plackett.models.insight import Insight
from plackett.models.parameters import Parameterized
from plackett.objectives import objective as as_objective, objective_to_dict
from plackett.objectives.objective import reseed

if TYPE_CHECKING:
    from typing_extensions import Self


SCORING_BLOCK = 1 << 15
"""Documents that are scored at a time where features are on disk; nets always score that many."""


class Ranker(Parameterized, Insight, ABC):
    """A model that gives each document of a list a score.

    Subclasses are dataclasses whose fields are the parameters, with scikit-learn's conventions: the constructor stores
    them and checks only ``minimums``, ``fit`` returns the ranker itself, fitted attributes end in ``_``.
    """

    takes_missing: ClassVar[bool] = False
    """Whether the model accepts NaN as a value of a feature."""
    takes_categories: ClassVar[bool] = False
    """Whether the model accepts categories (numbers without an order) as they are; others encode them."""
    takes_added_features: ClassVar[bool] = False
    """Whether transforms may add features."""
    row_wise: ClassVar[bool] = False
    """Whether it scores each row independently, with the same bits whatever the other rows are."""
    trains_in_place: ClassVar[bool] = False
    """Whether ``_fit`` reads features in canonical order without a copy of them."""
    threads_matter: ClassVar[bool] = False
    """Whether the last bits of the model depend on the number of threads."""
    whole: fit_context.WholeData | None = None
    """All lists of the cross-fit, while a member of one is fitted."""
    supports_cluster: ClassVar[bool] = False
    """Whether it can be fitted on several machines."""
    not_identity: ClassVar[tuple[str, ...]] = ()
    """Parameters that may be changed between the start of a fit and its resumption from a checkpoint."""
    curves_by_step: ClassVar[bool] = True
    """Whether ``curves_`` has a value for each training step, not for each penalty."""
    supports_init: ClassVar[bool] = True
    """Whether a fit can start from a fitted model."""
    libraries: ClassVar[tuple[str, ...]] = ("numpy",)
    """Libraries whose versions a saved model records."""

    transforms: tuple[str, ...]

    n_features_: int | None = None
    """Number of features; None before ``fit``."""
    feature_names_: tuple[str, ...] | None = None
    categories_: Categories | None = None
    """For each feature that holds categories, what its values 0, 1, 2 ... stand for."""
    transform_: FittedTransform | None = None
    """The fitted transforms; None if there are none."""
    curves_: fit_context.Curves
    """Metrics after each step, by part of the data; empty if a model has no steps."""
    _best_step: int | None = None
    training_: dict[str, Any] | None = None
    """Training data and metrics as plain data; None before ``fit``."""

    def fit(
        self,
        train: Dataset | Any,
        *more: Any,
        y: Any = None,
        qid: Any = None,
        group: Any = None,
        label: str | None = None,
        query: str | None = None,
        document: str | None = None,
        features: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        categorical: Sequence[str] = (),
        weights: Any = None,
        validation: Any = None,
        metric: fit_context.MetricSpec = "ndcg@10",
        checkpoint: str | os.PathLike[str] | None = None,
        callbacks: fit_context.Callback | Sequence[fit_context.Callback] = (),
        init: Ranker | None = None,
        verbose: bool | int | None = None,
        progress: fit_context.Progress | None = None,
        watch: fit_context.WatchFunction = fit_context.no_watch,
        cluster: Cluster | str | None = None,
        query_ids: Any = None,
        **unknown: Any,
    ) -> Self:
        """Fit on ``train``; with ``validation``, select by ``metric`` on it.

        ``fit(train, validation, metric, checkpoint)`` takes data sets, ``fit(X, y, qid=ids)`` arrays or a table of
        features, ``fit(df, label="grade", query="qid")`` one table with everything.

        Parameters
        ----------
        train
            The lists to learn from: a :class:`~plackett.data.dataset.Dataset`, or features with one
            row per document (NumPy, SciPy sparse, pandas, polars, Arrow).
        more
            After a data set: ``validation``, ``metric``, ``checkpoint``. After features: ``y``.
        y
            For features: the labels.
        qid
            For features: the query of each row.
        group
            For features, instead of ``qid``: the sizes of the lists, in the order of the rows.
        label
            For a table: the column of the labels.
        query
            For a table: the column of the queries.
        document
            For a table: the column of the documents' ids.
        features
            For a table: the columns that are features; by default all others.
        drop
            For a table: columns to leave out.
        categorical
            For a table: columns of text or numbers that are categories.
        weights
            For features: a weight per list or per row.
        validation
            Lists for early stopping and model selection: a data set, ``(X, y, qid)``, or a table
            with the columns of the training table.
        metric
            What to select by. Several, as a sequence or separated by commas, are compared in order:
            a later one decides only if the earlier ones are equal.
        checkpoint
            A folder for the state of the fit. If the process is killed, the same call with the same
            folder resumes the fit and ends in the same model.
        callbacks
            Functions that are called after each step with a :class:`~plackett.models.fit_context.FitStep`: the steps
            done, the steps in total and the metrics. If one returns True or raises
            :class:`~plackett.models.fit_context.StopFit`, the fit ends and the best model so far is kept.
        init
            A fitted model of the same kind and features to start from: trees and stumps are added to its own, weights
            of linear models and nets are changed further. Its fitted transforms are kept.
        verbose
            True: show the progress; a number n above 1: print a line every n steps. By default
            the progress is shown in interactive sessions and notebooks.
        progress
            Called after each step with a text, the steps done and the steps in total, instead of printing them.
        watch
            Called after each step that is measured on ``validation``, with the steps done, the
            steps in total and the first metric. An exception that it raises ends the fit.
        cluster
            Fit with several workers, on one machine or many, if the model supports it:
            ``"local:2"``, ``"auto"``, or a :class:`plackett.distributed.Cluster`.
        query_ids
            Another name of ``qid``.
        unknown
            Arguments of other libraries, which raise an error that names the argument to use here.
        """
        for name in unknown:
            raise inputs.unknown_argument(name, self.get_params(), type(self).__name__)
        qid = query_ids if qid is None else qid
        options = inputs.InputOptions(qid, group, label, query, document, features, drop, categorical, weights)
        named = {"y": y, "validation": validation, "metric": metric, "checkpoint": checkpoint}
        named |= inputs.name_positional(more, is_dataset=isinstance(train, Dataset), named=named)
        train, columns = inputs.training_data(train, named["y"], options)
        if named["validation"] is not None:
            validation = inputs.validation_data(named["validation"], options)
        metric, checkpoint = named["metric"], named["checkpoint"]
        self.set_params(**self.get_params())  # the constructor checks minimums only
        metrics = fit_context.parse_metrics(metric)
        workers = self._parse_cluster(cluster)
        callbacks = fit_context.check_callbacks(callbacks)
        if workers is not None and (callbacks or init is not None):
            raise UsageError("callbacks and init are not supported with cluster=.")
        if init is not None:
            self._check_init(init, train)
        training = {
            "train": _summarize(train),
            "validation": None if validation is None else _summarize(validation),
            "metric": [str(metric) for metric in metrics],
        }
        if columns is not None:
            training["columns"] = columns
        opened_checkpoint: AbstractContextManager[Checkpoint | None] = nullcontext()
        if checkpoint is not None:
            identity = {
                "kind": type(self).__name__,
                "settings": identity_of(self),
                "training": training,
                "libraries": versions(self.libraries),
            }
            if init is not None:
                scores = np.ascontiguousarray(init.predict(train))
                identity["init"] = hashlib.sha256(scores.tobytes()).hexdigest()
            opened_checkpoint = open_checkpoint(checkpoint, identity)
        fitted_before = (self.n_features_, self.feature_names_, self.categories_, self.transform_)
        for data in (train, validation):
            if data is not None:
                check_before_use(data.features)
        fit_context.check_training_data(train)
        try:
            parts = self._prepare_fit(train, validation, init)
            with opened_checkpoint as state, fit_context.show_progress(verbose, progress) as shown:
                context = fit_context.FitContext(metrics, state, shown, watch, workers, None, callbacks, init)
                self._fit(*parts, context)
        except BaseException:
            # The ranker still holds its earlier model, which needs the features it was fitted on.
            self.n_features_, self.feature_names_, self.categories_, self.transform_ = fitted_before
            raise
        self.training_ = training | {"best_step": self._best_step, "objective": self._describe_objective()}
        return self

    def _describe_objective(self) -> dict[str, Any] | None:
        """The objective that is minimized, including the ranker's seed, as plain data."""
        objective = self.get_params().get("objective")
        if objective is None:
            return None
        try:
            loss = as_objective(objective)
        except UsageError:  # one of another library
            return {"name": str(objective)}
        return objective_to_dict(reseed(loss, self.get_params().get("seed") or 0))

    @property
    def best_step_(self) -> int | None:
        """Number of steps (trees, rounds, epochs) up to the best one; None if the model has no steps."""
        step = (self.training_ or {}).get("best_step")
        return step if isinstance(step, int) else None

    def _prepare_fit(
        self, train: Dataset, validation: Dataset | None, init: Ranker | None = None
    ) -> tuple[Dataset, Dataset | None]:
        """Set the features, fit the transforms, and apply them.

        The transforms of ``init`` are kept: its weights and thresholds belong to them.
        """
        self.n_features_ = train.n_features
        self.feature_names_ = train.feature_names
        self.categories_ = train.categories if init is None else init.categories_
        self.transform_ = None
        copy = not self.trains_in_place or bool(self.transforms) or self.encodes_categories
        train = self._number_categories(train).canonical(copy=copy)
        if init is not None:
            self.transform_ = init.transform_
        elif self.transforms or self.encodes_categories:
            self.transform_ = self._fit_transforms(train)
        train = self._prepare(train)  # this frees a copy of the features in canonical order
        if validation is not None:
            if validation.n_features != self.n_features_:
                raise FeatureMismatch(
                    f"the validation data have {validation.n_features} features, the training data {self.n_features_}."
                )
            validation = self._prepare(self._number_categories(validation).canonical(copy=copy))
        return train, validation

    @property
    def encodes_categories(self) -> bool:
        """Whether the features hold categories, which the model takes as numbers with an order."""
        return self.categories_ is not None and not self.takes_categories

    def _fit_transforms(self, train: Dataset) -> FittedTransform:
        """The transforms, fitted to lists in canonical order; categories are encoded first."""
        fitted: FittedTransform
        transforms = chain(*(transform(name) for name in self.transforms))
        if not self.encodes_categories:
            fitted = transforms.fit(train)
        else:
            encoding = encode_categories(train)
            encoded = train._replace(features=apply_in_blocks(encoding, train.features, train.offsets))
            fitted = FittedChain((encoding, transforms.fit(encoded)))
        if fitted.width(train.n_features) != train.n_features and not self.takes_added_features:
            raise UsageError(
                f"{type(self).__name__} does not support transforms that add features ({', '.join(self.transforms)}); "
                f"cross-fit it: CrossFit({type(self).__name__}(...), transforms={self.transforms!r})."
            )
        return fitted

    def _check_init(self, init: Ranker, train: Dataset) -> None:
        """Raise UsageError for a model that a fit of this ranker cannot start from."""
        kind = type(self).__name__
        if not self.supports_init:
            raise UsageError(f"{kind} does not support init=.")
        if not isinstance(init, self._init_kinds()):
            names = " or ".join(kind.__name__ for kind in self._init_kinds())
            hint = f"; plackett.load({init!r}) reads a saved model" if isinstance(init, str) else ""
            raise UsageError(f"init must be a fitted {names}, got {type(init).__name__}{hint}.")
        init._check_features(train)
        if init.transforms != self.transforms:
            raise UsageError(
                f"init has transforms={init.transforms!r}, this {kind} has {self.transforms!r}; they must be the same."
            )

    def _init_kinds(self) -> tuple[type[Ranker], ...]:
        return (type(self),)

    def save(self, path: str | os.PathLike[str], *, sign_key: str | os.PathLike[str] | None = None) -> None:
        """Write the fitted model as the folder ``path``; :func:`plackett.load` reads it back.

        With ``sign_key``, the file of a secret key, the model is signed (HMAC-SHA256): whoever has
        the key can tell whether it was changed.
        """
        write(self, path, None if sign_key is None else read_key(Path(sign_key)))

    def predict(
        self,
        data: Dataset | ArrayLike,
        *,
        query_ids: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
    ) -> Scores:
        """Score documents; a higher score is better.

        Parameters
        ----------
        data
            A dataset, or features with one row per document. The columns of a table (pandas,
            polars, Arrow) may be in any order. Scores are in the order of the rows.
        query_ids
            For features: the query of each row, for models that score whole lists; by default the
            query column that ``fit`` was given, if the table has it, else all rows form one list.
        qid
            Another name of ``query_ids``.
        group
            Instead of ``query_ids``: the sizes of the lists, as ``fit`` takes them.
        """
        self._require_fitted()
        query_ids = qid if query_ids is None else query_ids
        if group is not None and not isinstance(data, Dataset):
            query_ids = ids_from_sizes(group, inputs.n_rows(data))
        return self._score(self._as_dataset(data, query_ids))

    def _as_dataset(self, data: Dataset | ArrayLike, query_ids: ArrayLike | None) -> Dataset:
        """The documents to score, from any form that :meth:`predict` takes."""
        if isinstance(data, Dataset):
            return data
        columns = (self.training_ or {}).get("columns")
        rows, ids = inputs.scoring_data(data, query_ids, self.feature_names_, columns)
        categorical = tuple(self.categories_ or ()) if inputs.column_names(rows) else ()
        return Dataset.from_arrays(rows, None, ids, categorical=categorical, missing="nan")

    def _score(self, data: Dataset) -> Scores:
        """Scores in the order of the rows."""
        self._check_features(data)
        if self.row_wise and not (self.transform_ is not None and self.transform_.uses_lists):
            return self._predict_rows(data)
        if is_large(data.features):
            return self._predict_blocks(data)
        canonical = data.canonical()
        return data.order.restore(self._predict(self._prepare(canonical)))

    def _predict_rows(self, data: Dataset) -> Scores:
        """Score each row by itself, in the order of the rows."""
        if not is_large(data.features):
            return self._predict(self._prepare(data))
        scores = np.empty(data.n_docs)
        for rows in iter_blocks(data.features):
            block = data._take(rows, np.arange(data.n_lists), data.list_of_row[rows])
            scores[rows] = self._predict(self._prepare(block))
        return scores

    def _predict_blocks(self, data: Dataset) -> Scores:
        """Score features on disk block by block; lists are independent of each other."""
        order, scores = data.order, np.empty(data.n_docs)
        canonical = data.canonical(copy=False)
        for start, stop in list_blocks(order.offsets, SCORING_BLOCK):
            documents = slice(order.offsets[start], order.offsets[stop])
            scores[documents] = self._predict(self._prepare(canonical.lists(start, stop)))
            release_pages(data.features)
        return order.restore(scores)

    def _prepare(self, data: Dataset) -> Dataset:
        """Check the features and apply the transforms."""
        self._check_features(data)
        data = self._number_categories(data)
        features = data.features
        if self.transform_ is not None:
            grouped = data.is_grouped or self.transform_.uses_lists
            offsets = data.offsets if grouped else np.array([0, data.n_docs])
            features = apply_in_blocks(self.transform_, features, offsets)
        if not self.takes_missing and has_nan(features):
            raise DataError(
                f"{type(self).__name__} cannot take missing features (NaN); add an imputing "
                'transform, for example transforms=("impute", "standard").'
            )
        if features is data.features:
            return data
        names = data.feature_names and self.transform_ and self.transform_.names(data.feature_names)
        return data._replace(features=features, feature_names=names)

    def _feature_labels(self) -> tuple[str, ...]:
        """The names of the features, or their numbers from 1."""
        return self.feature_names_ or tuple(str(j + 1) for j in range(self._require_fitted()))

    def _require_fitted(self) -> int:
        """Raise UsageError before ``fit``; return the number of features."""
        if self.n_features_ is None:
            raise UsageError(f"this {type(self).__name__} is not fitted yet; call fit first.")
        return self.n_features_

    def _number_categories(self, data: Dataset) -> Dataset:
        """The same data with categories numbered as during the fit."""
        if self.categories_ is None or data.categories in (None, self.categories_):
            return data
        return data.with_categories(self.categories_)

    def _check_features(self, data: Dataset) -> None:
        self._require_fitted()
        check_before_use(data.features)
        if data.n_features != self.n_features_:
            raise FeatureMismatch(
                f"the model was fitted on {self.n_features_} features, the data have {data.n_features}."
            )
        expected, actual = self.feature_names_, data.feature_names
        if expected is not None and actual is not None and expected != actual:
            j = next(j for j, name in enumerate(expected) if name != actual[j])
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
                "BoostedNeuralRanker, AutoRanker and a CrossFit of any ranker do."
            )
        require("ray")
        return as_cluster(cluster)

    @abstractmethod
    def _fit(self, train: Dataset, validation: Dataset | None, context: fit_context.FitContext) -> None:
        """Learn from prepared lists."""

    @abstractmethod
    def _predict(self, data: Dataset) -> Scores:
        """Scores of prepared lists."""

    def _score_copies(self, copies: Sequence[Ranker], data: Dataset) -> NDArray[np.float64] | None:  # noqa: ARG002
        """Scores of copies of this ranker with other weights, a row each, if they are faster together; else None."""
        return None

    @abstractmethod
    def _write(self, folder: Path) -> None:
        """Write the fitted model to files in ``folder``."""

    @abstractmethod
    def _read(self, folder: Path) -> None:
        """Read the fitted model from the files in ``folder``, which may be malicious."""


def _summarize(data: Dataset) -> dict[str, Any]:
    return {"lists": data.n_lists, "documents": data.n_docs, "fingerprint": fingerprint(data)}
