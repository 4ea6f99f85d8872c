"""Systems that are not recipes: saved models, files of scores, rankers of other libraries.

They are compared under the same protocol as recipes, and the report states their kind. Rankers of LightGBM, XGBoost
and CatBoost are trained on each split; saved models and scores are used as they are on the test lists.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from abc import abstractmethod
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import Scores
from plackett.data import Dataset
from plackett.metrics import metrics as as_metrics
from plackett.models import FitContext, Ranker, load
from plackett.models.artifact import MANIFEST_FILE, is_model, read_manifest

if TYPE_CHECKING:
    from typing_extensions import Self

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_PEERS = {"lightgbm": "LGBMRanker", "xgboost": "XGBRanker", "catboost": "CatBoostRanker"}
SCORE_SUFFIXES = (".txt", ".npy")  # suffixes of files with one score per row


class ExternalRanker(Ranker):
    """A ranker that plackett does not train, or that another library trains; only comparisons use it."""

    transforms: tuple[str, ...] = ()

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What determines the scores, as plain data."""

    def _fit(self, train: Dataset, validation: Dataset | None, context: FitContext) -> None:
        raise NotImplementedError

    def _predict(self, data: Dataset) -> Scores:
        raise NotImplementedError

    def _write(self, folder: Path) -> None:  # noqa: ARG002
        raise UsageError(f"a {type(self).__name__} cannot be saved; it is for comparisons.")

    def _read(self, folder: Path) -> None:  # noqa: ARG002
        raise UsageError(f"a {type(self).__name__} cannot be loaded; it is for comparisons.")


@dataclass(eq=False)
class SavedModel(ExternalRanker):
    """A model on disk, in the folder ``path``, which is not trained again."""

    path: str = ""

    def fit(self, train: Dataset, *more: Any, **options: Any) -> Self:  # noqa: ARG002
        self.model._check_features(train)
        return self

    def predict(self, data: Dataset) -> Scores:  # type: ignore[override]
        return self.model.predict(data)

    @cached_property
    def model(self) -> Ranker:
        """The model, loaded."""
        return load(self.path)

    def describe(self) -> dict[str, Any]:
        manifest = read_manifest(Path(self.path))
        text = (Path(self.path) / MANIFEST_FILE).read_bytes()  # the manifest has the hashes of all files
        return {
            "kind": "saved model",
            "model": manifest["kind"],
            "recipe": manifest.get("recipe"),
            "sha256": hashlib.sha256(text).hexdigest(),
        }


@dataclass(eq=False)
class ScoreFile(ExternalRanker):
    """Scores from another program, one per row in the order of the data: text with one number per line, or .npy."""

    path: str = ""

    def fit(self, train: Dataset, *more: Any, **options: Any) -> Self:  # noqa: ARG002
        return self

    def predict(self, data: Dataset) -> Scores:  # type: ignore[override]
        return self.scores[data.rows]

    @cached_property
    def scores(self) -> Scores:
        """The scores by row."""
        return read_scores(Path(self.path))

    def check_rows(self, n_rows: int, name: str) -> None:
        """Raise DataError if there is not one score per row of the data."""
        if len(self.scores) != n_rows:
            raise DataError(
                f"{len(self.scores):,} scores for the {n_rows:,} documents of {name}; there must "
                "be one per row, in the order of the rows.",
                path=self.path,
            )

    def describe(self) -> dict[str, Any]:
        digest = hashlib.sha256(Path(self.path).read_bytes()).hexdigest()
        return {"kind": "scores", "sha256": digest}


@dataclass(eq=False)
class PeerRanker(ExternalRanker):
    """A ranker of LightGBM, XGBoost or CatBoost with its own settings, trained on each split.

    A copy of the estimator is fitted; ``seed`` is added to its seed. The validation lists are its ``eval_set``: it
    stops early if its settings say so.
    """

    estimator: Any = None
    seed: int = 0
    threads: int | None = None

    def fit(self, train: Dataset, *more: Any, **options: Any) -> Self:
        validation = more[0] if more else options.get("validation")
        metric = more[1] if len(more) > 1 else options.get("metric", "ndcg@10")
        self.fitted_ = self._copy()
        held_out = None if validation is None else _grouped(validation)
        if self.library == "catboost":
            pool = None if held_out is None else _catboost_pool(*held_out)
            self.fitted_.fit(_catboost_pool(*_grouped(train)), eval_set=pool, verbose=False)
            return self
        features, labels, sizes = _grouped(train)
        call: dict[str, Any] = {"group": sizes}
        if held_out is not None:
            call |= {"eval_set": [held_out[:2]], "eval_group": [held_out[2]]}
        if self.library == "xgboost":  # its own eval_metric decides
            self.fitted_.fit(features, labels, verbose=False, **call)
            return self
        if held_out is not None:
            first = as_metrics(str(metric))[0]
            if first.name in ("ndcg", "map") and first.cutoff:
                call |= {"eval_metric": first.name, "eval_at": [first.cutoff]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # versions of LightGBM name eval_set differently
            self.fitted_.fit(features, labels, **call)
        return self

    def predict(self, data: Dataset) -> Scores:  # type: ignore[override]
        return np.asarray(self.fitted_.predict(data.features), dtype=np.float64)

    @property
    def library(self) -> str:
        """The library of the estimator."""
        return type(self.estimator).__module__.partition(".")[0]

    @property
    def libraries(self) -> tuple[str, ...]:  # type: ignore[override]
        """Libraries whose versions a trial records."""
        return ("numpy", self.library)

    def _copy(self) -> Any:
        estimator = deepcopy(self.estimator)
        is_catboost = self.library == "catboost"
        seed_name, threads_name = ("random_seed", "thread_count") if is_catboost else ("random_state", "n_jobs")
        seed = estimator.get_params().get(seed_name) or 0
        changes: dict[str, Any] = {}
        if isinstance(seed, int):
            changes[seed_name] = seed + self.seed
        if self.threads is not None:
            changes[threads_name] = self.threads
        if self.library == "lightgbm" and "verbosity" not in estimator.get_params():
            changes["verbosity"] = -1
        return estimator.set_params(**changes)

    def describe(self) -> dict[str, Any]:
        params = {k: v for k, v in self.estimator.get_params().items() if v is not None}
        return {
            "kind": f"{self.library} {type(self.estimator).__name__}",
            "seed": self.seed,
            **{name: _plain(value) for name, value in sorted(params.items())},
        }


def _plain(value: Any) -> Any:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return repr(value)
    return value


Lists = tuple[Any, NDArray[Any], NDArray[np.int64]]  # features, labels and sizes of lists, grouped by query


def _grouped(data: Dataset) -> Lists:
    # In canonical order, as for our own models, so that the caller's order of rows does not matter.
    lists = data.canonical() if hasattr(data, "canonical") else data
    labels = np.asarray(lists.labels)
    whole = labels.astype(np.int64)
    return (lists.features, whole if np.array_equal(whole, labels) else labels, np.diff(lists.offsets))


def _catboost_pool(features: Any, labels: Any, sizes: Any) -> Any:
    from catboost import Pool

    return Pool(features, labels, group_id=np.repeat(np.arange(len(sizes)), sizes))


def read_scores(path: Path) -> Scores:
    """Read one finite number per line of a text file, or a one-dimensional .npy array."""
    return _read_npy_scores(path) if path.suffix == ".npy" else _read_text_scores(path)


def _read_npy_scores(path: Path) -> Scores:
    try:
        values = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DataError("is not a .npy file with an array of numbers", path=str(path)) from error
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in "fiu":
        raise DataError("does not contain a one-dimensional array of numbers", path=str(path))
    result = values.astype(np.float64)
    if not np.all(np.isfinite(result)):
        row = int(np.argmin(np.isfinite(result)))
        raise DataError(f"score {row} (counted from 0) is {result[row]}", path=str(path))
    return result


def _read_text_scores(path: Path) -> Scores:
    result = []
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            token = line.strip()
            if not _NUMBER.fullmatch(token):
                raise DataError(
                    f"{token[:40]!r} is not a number; expected one finite number per line, or a "
                    "TREC run of six columns",
                    path=str(path),
                    line=number,
                )
            result.append(float(token))
    if not result:
        raise DataError("contains no scores", path=str(path))
    return np.array(result)


def as_external(model: Any) -> tuple[str, ExternalRanker] | None:
    """The name and the ranker of a model that is not a recipe; None for a string that may name a recipe."""
    kinds = {kind.__name__: kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    if any(kinds.get(name) == library for library, name in _PEERS.items()):
        return type(model).__name__, PeerRanker(model)
    if not isinstance(model, (str, os.PathLike)):
        raise UsageError(
            f"cannot compare a {type(model).__name__}; there are: the name of a recipe, with settings such as "
            '"lambdamart:leaves=31", a plackett ranker, the path of a saved model or of a file with one score per row '
            f"({', '.join(SCORE_SUFFIXES)}), and {', '.join(_PEERS.values())}."
        )
    path = Path(model)
    if path.suffix == ".plackett" or is_model(path):
        read_manifest(path)
        return path.name, SavedModel(os.fspath(model))
    if path.suffix not in SCORE_SUFFIXES:
        return None
    if not path.is_file():
        raise DataError("does not exist; expected one score per row of the data", path=os.fspath(model))
    return path.name, ScoreFile(os.fspath(model))
