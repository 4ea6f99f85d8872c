"""Inputs of ``fit`` and ``predict`` other than data sets: arrays, and tables with named columns."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

import numpy as np

from plackett.base.errors import FeatureMismatch, UsageError
from plackett.data import Dataset
from plackett.data.inputs import ids_from_sizes

Columns = dict[str, Any]
"""The names of columns that are not features: "label", "query", "document", and "ignored" ones."""

_FRAMES = {"pandas": ("DataFrame",), "polars": ("DataFrame",), "pyarrow": ("Table", "RecordBatch")}
_SHOWN = 10  # names of columns in a message


@dataclass(frozen=True)
class InputOptions:
    """The arguments of ``fit`` that describe arrays and tables."""

    qid: Any = None
    group: Any = None
    label: str | None = None
    query: str | None = None
    document: str | None = None
    features: Sequence[str] | None = None
    drop: Sequence[str] = ()
    categorical: Sequence[str] = ()
    weights: Any = None

    def used(self) -> list[str]:
        """The names of the arguments that were given."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        unset = (None, ())
        return [name for name, value in values.items() if not any(value is u for u in unset)]


def name_positional(values: tuple[Any, ...], *, is_dataset: bool, named: Mapping[str, Any]) -> dict[str, Any]:
    """The positional arguments of ``fit`` after the first, by name."""
    names = ("validation", "metric", "checkpoint") if is_dataset else ("y",)
    if len(values) > len(names):
        raise TypeError(
            "fit takes (train, validation, metric, checkpoint) for data sets and (X, y) for "
            f"features, got {1 + len(values)} positional arguments; give the others by name."
        )
    if is_dataset and values and not isinstance(values[0], (Dataset, type(None))):
        raise UsageError(
            "a Dataset has its labels; the second argument is the validation set, a Dataset, got "
            f"{type(values[0]).__name__}."
        )
    positional = dict(zip(names, values, strict=False))
    for name in ("y", "validation"):
        if name in positional and named[name] is not None:
            raise TypeError(f"fit got {name!r} twice.")
    return positional


def training_data(data: Any, labels: Any, options: InputOptions) -> tuple[Dataset, Columns | None]:
    """The lists to learn from, and the columns of a table that are not features."""
    if isinstance(data, Dataset):
        extra = [*(["y"] if labels is not None else []), *options.used()]
        if extra:
            raise UsageError(
                f"a Dataset has its labels and queries; leave out {', '.join(extra)}, or give "
                "features instead of a Dataset."
            )
        return data, None
    if options.label is not None or options.query is not None:
        return _from_frame(data, labels, options)
    names = column_names(data)
    _refuse_path(data, "fit")
    if labels is None:
        raise UsageError(
            "fit needs labels: fit(X, y, qid=ids)"
            + (
                f', or fit(df, label="...", query="...") with columns of {_listed(names)}.'
                if names
                else ", or fit(dataset)."
            )
        )
    ids = _query_ids(options, n_rows(data))
    more = {"weights": options.weights, "categorical": options.categorical}
    return Dataset.from_arrays(data, labels, ids, missing="nan", **more), None


def validation_data(data: Any, options: InputOptions) -> Dataset:
    """Validation lists from a data set, from (X, y, qid), or from a table like the training one."""
    if isinstance(data, Dataset):
        return data
    if isinstance(data, (tuple, list)) and len(data) == 3:
        X, y, lists = data
        is_sizes = len(lists) != n_rows(X)
        list_options = InputOptions(group=lists) if is_sizes else InputOptions(qid=lists)
        return training_data(X, y, list_options)[0]
    if column_names(data) is not None and (options.label or options.query):
        return training_data(data, None, options)[0]
    raise UsageError(
        "validation must be a Dataset, (X, y, qid), or a table with the columns of the training "
        f"table, got {type(data).__name__}."
    )


def scoring_data(
    data: Any, query_ids: Any, feature_names: tuple[str, ...] | None, columns: Columns | None
) -> tuple[Any, Any]:
    """Features in the model's order and the query of each row, from an array or a table."""
    _refuse_path(data, "predict")
    names = column_names(data)
    if names is not None and feature_names is not None:
        roles = columns if isinstance(columns, dict) else {}  # a loaded model's may be anything
        query = roles.get("query")
        if query_ids is None and isinstance(query, str) and query in names:
            query_ids = take_column(data, names.index(query))
        missing = [name for name in feature_names if name not in names]
        known = {*feature_names, *_role_names(roles)}
        extra = [name for name in names if name not in known]
        if missing or extra:
            raise FeatureMismatch(
                f"the model was fitted on {len(feature_names)} features, and the table differs: "
                + "; ".join(
                    f"{what} {_listed(some)}" for what, some in (("it lacks", missing), ("it also has", extra)) if some
                )
                + "."
            )
        data = select_columns(data, [names.index(name) for name in feature_names])
    if query_ids is None:
        query_ids = np.zeros(n_rows(data), np.int64)
    return data, query_ids


def _role_names(columns: Columns) -> list[str]:
    ignored = columns.get("ignored")
    values = [*columns.values(), *(ignored if isinstance(ignored, list) else ())]
    return [name for name in values if isinstance(name, str)]


def column_names(data: Any) -> list[str] | None:
    """The names of a table's columns; None for an array."""
    for library, kinds in _FRAMES.items():
        module = sys.modules.get(library)
        if module is None or not isinstance(data, tuple(getattr(module, k) for k in kinds)):
            continue
        table: Any = data
        names = table.column_names if library == "pyarrow" else table.columns
        return [str(name) for name in names]
    return None


def n_rows(data: Any) -> int:
    """The number of rows of an array or a table."""
    shape = getattr(data, "shape", None)
    return int(shape[0]) if shape else len(data)


def _from_frame(data: Any, labels: Any, options: InputOptions) -> tuple[Dataset, Columns]:
    names = column_names(data)
    if names is None:
        raise UsageError(
            "label= and query= name columns of a pandas, polars or Arrow table, got "
            f"{type(data).__name__}; give arrays as fit(X, y, qid=ids)."
        )
    if options.qid is not None or options.group is not None:
        raise UsageError("give either query= (a column) or qid= / group=, not both.")
    if labels is not None and options.label is not None:
        raise UsageError("give either label= (a column) or y, not both.")
    if options.query is None or (options.label is None and labels is None):
        what = "query" if options.query is None else "label"
        raise UsageError(f'name the column of the {what}: {what}="...", one of {_listed(names)}.')
    columns: Columns = {
        role: name for role in ("label", "query", "document") if (name := getattr(options, role)) is not None
    }
    if options.weights is not None:
        raise UsageError("weights= goes with arrays; name the column: Dataset(df, weight=...).")
    table = {role: columns.get(role) for role in ("label", "document")}
    dataset = Dataset(
        data,
        query=columns["query"],
        features=options.features,
        drop=options.drop,
        categorical=options.categorical,
        missing="nan",
        **table,
    )
    if labels is not None:
        dataset = dataset.with_labels(labels)
    taken = {*(dataset.feature_names or ()), *columns.values()}
    return dataset, columns | {"ignored": [name for name in names if name not in taken]}


def _query_ids(options: InputOptions, n_docs: int) -> Any:
    if options.qid is not None and options.group is not None:
        raise UsageError("give qid (the query of each row) or group (the sizes), not both.")
    if isinstance(options.qid, str):
        raise UsageError(f"qid= takes one id per row; a column of a table is query={options.qid!r}.")
    if options.qid is not None:
        return options.qid
    if options.group is None:
        raise UsageError(
            "fit needs to know which rows belong to one query: fit(X, y, qid=ids) with one id per "
            "row, fit(X, y, group=sizes) with the size of each list in the order of the rows, or "
            'fit(df, label="grade", query="qid") with columns of a table.'
        )
    return ids_from_sizes(options.group, n_docs)


def _refuse_path(data: Any, method: str) -> None:
    if isinstance(data, (str, os.PathLike)):
        raise UsageError(f"{method} takes data, not the name of a file: {method}(plackett.read({str(data)!r})).")


_THEIR_ARGUMENTS = {
    "eval_set": "validation=(X, y, qid)",
    "eval_qid": "validation=(X, y, qid)",
    "eval_group": "validation=(X, y, qid)",
    "validation_data": "validation=",
    "valid_sets": "validation=",
    "eval_metric": 'metric="ndcg@10"',
    "eval_at": 'metric="ndcg@10"',
    "metrics": "metric=",
    "sample_weight": "weights=",
    "groups": "group= (the sizes of the lists) or qid= (one id per row)",
    "group_id": "qid=",
    "init_model": "init=",
    "xgb_model": "init=",
    "categorical_feature": "categorical=",
    "cat_features": "categorical=",
}
"""Arguments of ``fit`` in other libraries, and ours."""


def unknown_argument(name: str, parameters: Iterable[str], kind: str) -> UsageError:
    """The error for an argument that ``fit`` does not have."""
    if name in _THEIR_ARGUMENTS:
        return UsageError(f"fit has no argument {name!r}; use {_THEIR_ARGUMENTS[name]}.")
    if name in parameters or name == "early_stopping_rounds":
        return UsageError(f"fit has no argument {name!r}; it is a parameter of the ranker: {kind}({name}=...).")
    ours = [field.name for field in fields(InputOptions)]
    close = get_close_matches(name, [*ours, "y", "validation", "metric", "checkpoint", "callbacks", "init"], n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return UsageError(f"fit has no argument {name!r}.{hint}")


def select_columns(data: Any, positions: list[int]) -> Any:
    """Some columns of a table."""
    if hasattr(data, "iloc"):
        return data.iloc[:, positions]
    if hasattr(data, "column_names"):  # Arrow
        return data.select(positions)
    return data[:, positions]


def take_column(data: Any, position: int) -> Any:
    """One column of a table."""
    if hasattr(data, "iloc"):
        return data.iloc[:, position]
    if hasattr(data, "column_names"):
        return data.column(position)
    return data.to_series(position)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    more = len(names) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
