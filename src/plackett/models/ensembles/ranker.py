"""Trees trained by another library as a ranker: to evaluate, compare, save and serve."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from plackett.base.errors import DataError, Message, Parameter, UsageError, message_of, unknown_name
from plackett.base.files import require_regular
from plackett.base.ragged import Scores
from plackett.data import Dataset
from plackett.models.ensembles.catboost import MAGIC, read_catboost
from plackett.models.ensembles.ensemble import Ensemble
from plackett.models.ensembles.lightgbm import read_lightgbm_sum
from plackett.models.ensembles.ranklib import read_ranklib
from plackett.models.ensembles.xgboost import read_xgboost
from plackett.models.fit_context import Curves, FitContext
from plackett.models.ranker import Ranker

if TYPE_CHECKING:
    from typing_extensions import Self


READERS = {"lightgbm": read_lightgbm_sum, "xgboost": read_xgboost, "catboost": read_catboost, "ranklib": read_ranklib}

_FILE = "model.{}"
_MAX_FEATURES = 1 << 20  # a short file may claim any number, and memory grows with it


def import_model(
    path: str | os.PathLike[str],
    *,
    form: str | None = None,
    n_features: int | None = None,
    feature_names: Sequence[str] | None = None,
) -> EnsembleRanker:
    """Read a model that was trained with another library.

    Parameters
    ----------
    path
        A file of LightGBM (text), XGBoost (JSON or UBJSON), CatBoost (JSON or binary) or RankLib (LambdaMART or MART).
    form
        The library that wrote the file: ``lightgbm``, ``xgboost``, ``catboost`` or ``ranklib``; by default it is
        detected from the file.
    n_features
        Number of features of the documents. RankLib files do not contain it; for these the default is
        the largest feature number that a tree uses. For other files it must match the file.
    feature_names
        Names that replace those of the file; features are then checked by name.

    Returns
    -------
    ranker
        It predicts, evaluates, saves and loads like any ranker, but cannot be fitted.

    Examples
    --------
    >>> import plackett as pk
    >>> ranker = pk.import_model("model.txt")  # doctest: +SKIP
    """
    if not isinstance(path, (str, os.PathLike)):
        raise UsageError(
            f"import_model takes the path of a file, got {type(path).__name__}; write the model to one "
            "first, with its save_model(path) (of scikit-learn estimators: booster_, get_booster())."
        )
    file = Path(path)
    if file.is_dir():
        raise DataError(
            "is a folder, and models of other libraries are files; plackett.load reads the folders "
            "of plackett's own models",
            path=str(file),
        )
    require_regular(file)
    source = file.read_bytes()
    library = _detect_library(source, file) if form is None else form
    if library not in READERS:
        raise unknown_name("library", library, READERS)
    names = None if feature_names is None else tuple(feature_names)
    try:
        return EnsembleRanker().take(source, library, n_features=n_features, feature_names=names)
    except DataError as error:
        raise DataError(message_of(error), path=str(file)) from error


def _detect_library(source: bytes, file: Path) -> str:
    begin = source[:4096].lstrip()
    if begin.startswith(MAGIC) or (begin.startswith(b"{") and b'"features_info"' in begin):
        return "catboost"
    prefixes = {b"tree": "lightgbm", b"{": "xgboost", b"##": "ranklib", b"<ensemble": "ranklib"}
    for prefix, library in prefixes.items():
        if begin.startswith(prefix):
            return library
    raise DataError(
        Message(
            "is not a model that can be imported; these can be: LightGBM (text), XGBoost (JSON, "
            "UBJSON), CatBoost (JSON, binary) and RankLib (XML). If it is one of them, name it "
            "with ",
            Parameter("form"),
        ),
        path=str(file),
    )


@dataclass(eq=False)
class EnsembleRanker(Ranker):
    """A sum of trees read from a file; :func:`import_model` makes it.

    It predicts, is saved and loaded like any ranker, but cannot be fitted.

    Parameters
    ----------
    transforms
        None: the trees of the file are applied to the features as they are.
    """

    takes_missing: ClassVar[bool] = True
    row_wise: ClassVar[bool] = True

    transforms: tuple[str, ...] = ()

    def fit(self, *args: Any, **options: Any) -> Self:  # noqa: ARG002
        """Raise: the trees come from a file."""
        # Ranker.fit would change the ranker before it calls _fit.
        raise UsageError(
            "an EnsembleRanker holds trees trained with another library and cannot be fitted; fit a TreeRanker."
        )

    @property
    def curves_(self) -> Curves:  # type: ignore[override]
        """Empty: the file has no curves."""
        return {}

    _importance_kinds: ClassVar[tuple[str, ...]] = ("split",)

    def _importance(self, kind: str) -> Any:  # noqa: ARG002 - there is one
        return np.bincount(self.ensemble_.feature, minlength=self.ensemble_.n_features)

    def take(
        self, source: bytes, form: str, *, n_features: int | None = None, feature_names: tuple[str, ...] | None = None
    ) -> Self:
        """Load the content of a model file into this ranker; :func:`import_model` describes the parameters."""
        self._load(source, form, n_features)
        self.n_features_ = self.ensemble_.n_features
        if feature_names is not None and len(feature_names) != self.n_features_:
            raise UsageError(f"{len(feature_names)} feature names for a model of {self.n_features_} features.")
        self.feature_names_ = feature_names
        self.training_ = {"imported": {"form": form, "sha256": hashlib.sha256(source).hexdigest()}}
        return self

    def _load(self, source: bytes, form: str, n_features: int | None) -> None:
        if form == "ranklib":  # its files do not give the number of features
            self.ensemble_: Ensemble = read_ranklib(source, n_features=n_features)
        else:
            self.ensemble_ = READERS[form](source)
        if n_features is not None and n_features != self.ensemble_.n_features:
            raise DataError(f"the model scores {self.ensemble_.n_features} features, not {n_features}.")
        if self.ensemble_.n_features > _MAX_FEATURES:
            raise DataError(
                f"the model claims {self.ensemble_.n_features:,} features; at most {_MAX_FEATURES:,} are supported."
            )
        self.source_: bytes = source
        """The content of the file."""
        self.form_: str = form
        """The library that wrote it: lightgbm, xgboost, catboost or ranklib."""

    def _fit(self, train: Dataset, validation: Dataset | None, context: FitContext) -> None:
        raise NotImplementedError  # fit raises before

    def _predict(self, data: Dataset) -> Scores:
        return self.ensemble_.predict(data.features)

    def _write(self, folder: Path) -> None:
        (folder / _FILE.format(self.form_)).write_bytes(self.source_)

    def _read(self, folder: Path) -> None:
        for form in READERS:
            path = folder / _FILE.format(form)
            if path.is_file():
                try:
                    self._load(path.read_bytes(), form, self.n_features_)
                except DataError as error:
                    raise DataError(str(error), path=str(path)) from error
                return
        names = ", ".join(_FILE.format(form) for form in READERS)
        raise DataError(f"must hold one of {names}", path=str(folder))
