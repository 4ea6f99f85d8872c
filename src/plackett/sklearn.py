"""Rankers as scikit-learn estimators.

:class:`Ranker` is a recipe of plackett with the interface of scikit-learn and the conventions of
LightGBM's ``LGBMRanker``. It works in ``cross_val_score``, ``GridSearchCV``, ``Pipeline`` and
``permutation_importance``, with the query of each row in one of three forms:

- a column of the table X: ``Ranker(query="qid")``. Nothing else has to be passed.
- an argument: ``fit(X, y, qid=ids)`` or ``fit(X, y, group=sizes)``.
- metadata routing, where scikit-learn passes the argument along:
  ``Ranker().set_fit_request(qid=True).set_score_request(qid=True)``.

Needs scikit-learn (extra ``sklearn``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError, require
from plackett.data import Dataset
from plackett.data.inputs import ids_from_sizes
from plackett.metrics import evaluate
from plackett.models import RECIPES, Ranker as PlackettRanker, TreeRanker, recipe as make_recipe
from plackett.models.inputs import column_names, n_rows, select_columns, take_column
from plackett.models.parameters import unknown_parameter

require("sklearn")

from sklearn.base import BaseEstimator  # noqa: E402
from sklearn.utils import get_tags  # noqa: E402
from sklearn.utils.validation import check_is_fitted, validate_data  # noqa: E402

if TYPE_CHECKING:
    from typing_extensions import Self

_DEFAULT_METRIC = "ndcg@10"
_SPARSE_TRANSFORMS = {"log1p"}
_NO_CUTOFF = ("ndcg", "map", "dcg", "err", "mrr", "precision", "recall", "success")


class Ranker(BaseEstimator):  # type: ignore[misc]
    """A recipe of plackett as a scikit-learn estimator.

    Parameters
    ----------
    recipe
        The name of a recipe (see :func:`plackett.recipe`), or a ranker, which is copied.
    preset
        The settings of a paper's experiment, such as ``"A-web30k"``.
    query
        The column of X that holds the query of each row: a name in a table, a number in an array.
        This column is not a feature. A name that the table does not have is ignored.
    importance_type
        The kind of ``feature_importances_``: ``"gain"`` or ``"split"`` for trees; by default the
        first kind of the model.
    verbose
        As ``verbose`` of ``fit`` of plackett's rankers; LightGBM's -1 means False.
    settings
        Parameters of the recipe by our names (``trees``, ``leaves``) or, for trees, LightGBM's
        (``n_estimators``, ``num_leaves``, ``reg_lambda``).

    Attributes
    ----------
    ranker_
        The fitted ranker of plackett; save it with ``ranker_.save(path)``.
    n_features_in_, feature_names_in_
        As in all estimators of scikit-learn.
    best_iteration_
        The number of steps (trees) that the model keeps.
    best_score_, evals_result_
        Metrics at that step, and after each step, for "training" and "valid_0".

    Examples
    --------
    >>> import plackett as pk
    >>> from plackett.sklearn import Ranker
    >>> data = pk.synthetic("letor", n_lists=30)
    >>> sizes = np.diff(data.offsets)
    >>> ranker = Ranker(n_estimators=5, num_leaves=7)
    >>> ranker.fit(data.features, data.labels, group=sizes).best_iteration_
    5
    """

    def __init__(
        self,
        recipe: str | PlackettRanker = "e-lambdaloss-mart",
        *,
        preset: str | None = None,
        query: str | int | None = "qid",
        importance_type: str | None = None,
        verbose: bool | int | None = None,
        **settings: Any,
    ) -> None:
        self.recipe = recipe
        self.preset = preset
        self.query = query
        self.importance_type = importance_type
        self.verbose = verbose
        self._set_settings(settings)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, including the settings of the recipe."""
        return {**super().get_params(deep=deep), **self._settings()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name; a setting of the recipe may be new."""
        names = set(self._get_param_names())
        named = {k: v for k, v in params.items() if k.partition("__")[0] in names}
        super().set_params(**named)
        self._set_settings({k: v for k, v in params.items() if k not in named})
        return self

    def _settings(self) -> dict[str, Any]:
        names = self._get_param_names()
        return {
            name: value
            for name, value in vars(self).items()
            if name not in names and not name.startswith("_") and not name.endswith("_")
        }

    def _set_settings(self, settings: Mapping[str, Any]) -> None:
        """Store settings as attributes; raise UsageError for names that the recipe does not have."""
        kind: type[PlackettRanker] | None = None
        if isinstance(self.recipe, str) and self.recipe in RECIPES:
            kind = RECIPES[self.recipe].kind
        elif isinstance(self.recipe, PlackettRanker):
            kind = type(self.recipe)
        if kind is not None and settings:
            known = kind().get_params()
            for name in kind._translate({k: v for k, v in settings.items() if "__" not in k}):
                if name not in known:
                    raise unknown_parameter(kind, name, known, kind.aliases)
        for name, value in settings.items():
            setattr(self, name, value)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.positive_only = True  # labels are grades
        try:
            ranker = self._make_ranker()
        except ValueError:  # wrong settings: fit says so
            return tags
        tags.input_tags.sparse = set(ranker.transforms) <= _SPARSE_TRANSFORMS
        tags.input_tags.allow_nan = ranker.takes_missing or "impute" in ranker.transforms
        return tags

    def _make_ranker(self) -> PlackettRanker:
        if isinstance(self.recipe, PlackettRanker):
            if self.preset is not None:
                raise UsageError("a preset belongs to a recipe's name, not to a ranker.")
            return self.recipe.clone().set_params(**self._settings())
        if not isinstance(self.recipe, str):
            raise UsageError(f"recipe must be a name or a ranker, got {self.recipe!r}.")
        return make_recipe(self.recipe, preset=self.preset, **self._settings())

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        group: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        eval_X: Any = None,
        eval_y: Any = None,
        eval_qid: Any = None,
        eval_group: Any = None,
        eval_metric: Any = None,
        eval_at: Sequence[int] | None = None,
        callbacks: Any = None,
        init_model: Any = None,
    ) -> Self:
        """Fit on the lists of X.

        Parameters
        ----------
        X, y
            Features and labels (grades, not negative), one row per document.
        qid, group
            The query of each row, or the sizes of the lists in the order of the rows; neither is
            needed if X has the column ``query``.
        sample_weight
            A weight per row, the same in all rows of a list.
        eval_set
            A pair (X, y), or a list with one, for early stopping. A pair of the training data is
            accepted and ignored: its metrics are always in ``evals_result_``.
        eval_X, eval_y
            The same as two arguments: features and labels, or a tuple of each.
        eval_qid, eval_group
            The query ids or list sizes of the pair in ``eval_set``, or a list with one entry per pair.
        eval_metric, eval_at
            What to select by, "ndcg@10" by default; "ndcg" with ``eval_at=[5]`` is "ndcg@5".
        callbacks
            Functions of a :class:`~plackett.models.fit_context.FitStep` that may end the fit, and
            LightGBM's ``early_stopping``, ``log_evaluation`` and ``record_evaluation``.
        init_model
            A fitted Ranker, or ranker of plackett, to start from.
        """
        if sample_weight is not None and not np.any(np.asarray(sample_weight)):
            raise DataError("every weight of sample_weight is zero; nothing to learn from.")
        ranker = self._make_ranker()
        wishes = _Callbacks(callbacks)
        if wishes.patience is not None:
            ranker.set_params(patience=wishes.patience)
        if eval_X is not None:
            is_several = isinstance(eval_X, tuple)
            eval_set = list(zip(eval_X, eval_y, strict=True)) if is_several else (eval_X, eval_y)
        train = self._dataset(X, y, qid, group, weights=sample_weight, reset=True)
        validation = self._validation(X, eval_set, eval_qid, eval_group)
        init = init_model.ranker_ if isinstance(init_model, Ranker) else init_model
        verbose = wishes.verbose if self.verbose is None else self.verbose
        ranker.fit(
            train,
            validation,
            _metrics(eval_metric, eval_at),
            callbacks=wishes.ours,
            init=init,
            verbose=False if verbose is not None and verbose < 0 else verbose,
        )
        self.ranker_: PlackettRanker = ranker
        # The curves under LightGBM's names of the parts.
        names = {"train": "training", "validation": "valid_0"}
        self.evals_result_ = {names[part]: dict(c) for part, c in ranker.curves_.items() if part in names}
        self.best_iteration_ = ranker.best_step_
        self.best_score_ = {
            part: {name: values[_best(ranker, values)] for name, values in curves.items()}
            for part, curves in self.evals_result_.items()
        }
        for record in wishes.records:
            record.update(self.evals_result_)
        return self

    def predict(self, X: Any, *, qid: Any = None, group: Any = None) -> NDArray[np.float64]:
        """A score per row; higher is better within a query.

        ``qid`` or ``group`` matter for models that compare the documents of a list.
        """
        check_is_fitted(self)
        features, ids = self._split(X, qid, group, required=False)
        features = self._validate(features, reset=False)
        return self.ranker_.predict(features, query_ids=ids)

    def score(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        group: Any = None,
        sample_weight: Any = None,
        metric: Any = _DEFAULT_METRIC,
    ) -> float:
        """The mean of a metric over the lists that count for it."""
        check_is_fitted(self)
        data = self._dataset(X, y, qid, group, weights=sample_weight, reset=False)
        (mean,) = evaluate(self.ranker_.predict(data), data, metric).values()
        return float(mean)

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """The importance of each feature, in the order of X."""
        check_is_fitted(self)
        values = self.ranker_.importance(self.importance_type)
        return np.array([values[name] for name in self.ranker_._feature_labels()])

    @property
    def booster_(self) -> Any:
        """LightGBM's booster of a model of trees."""
        check_is_fitted(self)
        if not isinstance(self.ranker_, TreeRanker):
            raise AttributeError(f"a {type(self.ranker_).__name__} has no booster.")
        return self.ranker_._booster

    @property
    def n_iter_(self) -> int | None:
        """The number of steps (trees) that the model keeps."""
        check_is_fitted(self)
        return self.ranker_.best_step_

    def _dataset(self, X: Any, y: Any, qid: Any, group: Any, *, weights: Any, reset: bool) -> Dataset:
        features, ids = self._split(X, qid, group, required=True)
        features, labels = self._validate(features, y, reset=reset)
        return Dataset.from_arrays(features, labels, ids, weights=weights, missing="nan")

    def _validate(self, X: Any, *y: Any, reset: bool) -> Any:
        """Check features, and labels, as scikit-learn does; tables are left as they are."""
        if column_names(X) is not None:
            table = validate_data(self, X, skip_check_array=True, reset=reset)
            return (table, np.asarray(y[0])) if y else table
        options: dict[str, Any] = {"y_numeric": True} if y else {}
        options["ensure_all_finite"] = "allow-nan" if get_tags(self).input_tags.allow_nan else True
        options["ensure_min_samples"] = 2 if reset else 1  # one document has no order
        return validate_data(self, X, *y, accept_sparse="csr", dtype="numeric", reset=reset, **options)

    def _split(self, X: Any, qid: Any, group: Any, *, required: bool) -> tuple[Any, Any]:
        if qid is not None and group is not None:
            raise UsageError("give qid (the query of each row) or group (the sizes), not both.")
        X, column = self._take_query_column(X)
        if qid is not None:
            return X, np.asarray(qid)
        if group is not None:
            return X, ids_from_sizes(group, n_rows(X))
        if column is None and required:
            raise UsageError(
                "a ranker needs the query of each row: fit(X, y, qid=ids), fit(X, y, group=sizes), "
                f"or a table X with a column {self.query!r} (Ranker(query=...)). In a search or a "
                "cross-validation use such a column, or metadata routing: "
                "set_fit_request(qid=True) and set_score_request(qid=True)."
            )
        return X, column

    def _take_query_column(self, X: Any) -> tuple[Any, Any]:
        names, position = column_names(X), self.query
        if isinstance(position, str):
            position = None if names is None or position not in names else names.index(position)
        if position is None:
            return X, None
        if names is None:
            array = X if hasattr(X, "shape") else np.asarray(X)
            column = array[:, [position]]
            dense = np.asarray(column if isinstance(column, np.ndarray) else column.toarray())
            keep = [j for j in range(array.shape[1]) if j != position % array.shape[1]]
            return array[:, keep], np.unique(dense.ravel(), return_inverse=True)[1]
        keep = [j for j in range(len(names)) if j != position]
        return select_columns(X, keep), np.asarray(take_column(X, position))

    def _validation(self, X: Any, eval_set: Any, eval_qid: Any, eval_group: Any) -> Dataset | None:
        if eval_set is None:
            return None
        is_pair = isinstance(eval_set, tuple) and len(eval_set) == 2
        pairs = [eval_set] if is_pair else list(eval_set)
        ids, sizes = (
            [None] * len(pairs) if values is None else list(values) if _is_nested(values) else [values]
            for values in (eval_qid, eval_group)
        )
        if not len(pairs) == len(ids) == len(sizes):
            raise UsageError(
                f"eval_set has {len(pairs)} pairs; give eval_qid or eval_group for each, got "
                f"{len(ids)} and {len(sizes)}."
            )
        sets = [
            self._dataset(data, labels, q, g, weights=None, reset=False)
            for (data, labels), q, g in zip(pairs, ids, sizes, strict=True)
            if data is not X
        ]
        if len(sets) > 1:
            raise UsageError(f"eval_set has {len(sets)} sets besides the training set; early stopping takes one.")
        return sets[0] if sets else None


class _Callbacks:
    """Callbacks of the user; those of LightGBM become settings of the fit."""

    def __init__(self, callbacks: Any) -> None:
        self.ours: list[Any] = []
        self.patience: int | None = None
        self.verbose: int | None = None
        self.records: list[dict[str, Any]] = []
        for callback in [callbacks] if callable(callbacks) else callbacks or ():
            module, kind = type(callback).__module__, type(callback).__name__
            if not module.startswith("lightgbm"):
                self.ours.append(callback)
            elif hasattr(callback, "stopping_rounds"):
                self.patience = callback.stopping_rounds
            elif hasattr(callback, "period"):
                self.verbose = max(callback.period, 0)
            elif hasattr(callback, "eval_result"):
                self.records.append(callback.eval_result)
            else:
                raise UsageError(
                    f"callbacks of LightGBM that work here are early_stopping, log_evaluation and "
                    f"record_evaluation, got {kind}."
                )


def _is_nested(values: Any) -> bool:
    return isinstance(values, (list, tuple)) and len(values) > 0 and np.ndim(values[0]) > 0


def _metrics(names: Any, cutoffs: Sequence[int] | None) -> Any:
    """Metrics for fit; a name without a cut-off gets those of ``eval_at``."""
    if names is None:
        names = "ndcg" if cutoffs else _DEFAULT_METRIC
    if not cutoffs:
        return names
    items = [names] if isinstance(names, str) or callable(names) else list(names)
    result: list[Any] = []
    for name in items:
        bare = isinstance(name, str) and name.lower() in _NO_CUTOFF
        result += [f"{name.lower()}@{k}" for k in cutoffs] if bare else [name]
    return result


def _best(ranker: PlackettRanker, values: Sequence[float]) -> int:
    """The position in a curve of the step that the model keeps."""
    step = ranker.best_step_
    return step - 1 if step is not None and 1 <= step <= len(values) else len(values) - 1
