"""Trees that another library has grown, as a ranker: to evaluate, compare, save and serve."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import Scores
from plackett.data.dataset import Dataset
from plackett.distributed import Cluster
from plackett.models.ensembles.ensemble import Ensemble
from plackett.models.ensembles.lightgbm import read_lightgbm_sum
from plackett.models.ensembles.ranklib import read_ranklib
from plackett.models.ensembles.xgboost import read_xgboost
from plackett.models.ranker import (
    FitContext,
    MetricSpec,
    Progress,
    Ranker,
    WatchFunction,
    no_progress,
    no_watch,
)

if TYPE_CHECKING:
    from typing_extensions import Self


READERS = {"lightgbm": read_lightgbm_sum, "xgboost": read_xgboost, "ranklib": read_ranklib}
"""Readers of model files by whose files they are."""

_FILE = "model.{}"
_MOST_FEATURES = 1 << 20  # a short file may claim any number, and memory goes by it


@dataclass
class EnsembleRanker(Ranker):
    """A sum of trees that came out of a file; :func:`plackett.serving.importing.import_model`.

    It predicts, is saved and loaded like any ranker, but cannot be fitted.

    Parameters
    ----------
    transforms
        None: the file's trees see the features as they are.
    """

    takes_missing: ClassVar[bool] = True

    transforms: tuple[str, ...] = ()

    def fit(
        self,
        train: Dataset,  # noqa: ARG002 - one signature for all rankers
        validation: Dataset | None = None,  # noqa: ARG002
        metric: MetricSpec = "ndcg@5",  # noqa: ARG002
        checkpoint: str | os.PathLike[str] | None = None,  # noqa: ARG002
        *,
        progress: Progress = no_progress,  # noqa: ARG002
        watch: WatchFunction = no_watch,  # noqa: ARG002
        cluster: Cluster | str | None = None,  # noqa: ARG002
    ) -> Self:
        """Refuse: the trees are what the file says."""
        # The one concrete method that is replaced: Ranker.fit would have changed the ranker
        # before it came to _fit.
        raise UsageError(
            "an EnsembleRanker holds trees that another library has grown and cannot be fitted; "
            "fit a TreeRanker."
        )

    def take(
        self,
        source: bytes,
        form: str,
        *,
        n_features: int | None = None,
        feature_names: tuple[str, ...] | None = None,
    ) -> Self:
        """Become the model of a file; :func:`plackett.serving.importing.import_model` says how."""
        self._hold(source, form, n_features)
        self.n_features_ = self.ensemble_.n_features
        if feature_names is not None and len(feature_names) != self.n_features_:
            raise UsageError(
                f"{len(feature_names)} feature names for a model of {self.n_features_} features."
            )
        self.feature_names_ = feature_names
        self.training_ = {"imported": {"form": form, "sha256": hashlib.sha256(source).hexdigest()}}
        return self

    def _hold(self, source: bytes, form: str, n_features: int | None) -> None:
        if form == "ranklib":  # the one form that does not say how many features there are
            self.ensemble_: Ensemble = read_ranklib(source, n_features=n_features)
        else:
            self.ensemble_ = READERS[form](source)
        if n_features is not None and n_features != self.ensemble_.n_features:
            raise DataError(
                f"the model scores {self.ensemble_.n_features} features, not {n_features}."
            )
        if self.ensemble_.n_features > _MOST_FEATURES:
            raise DataError(
                f"the model claims {self.ensemble_.n_features:,} features; at most "
                f"{_MOST_FEATURES:,} are read."
            )
        self.source_: bytes = source
        """The file, as it was."""
        self.form_: str = form
        """Whose file it is: lightgbm, xgboost or ranklib."""

    def _fit(self, train: Dataset, validation: Dataset | None, run: FitContext) -> None:
        raise NotImplementedError  # fit refuses first

    def _predict(self, data: Dataset) -> Scores:
        return self.ensemble_.predict(data.features)

    def _write(self, folder: Path) -> None:
        (folder / _FILE.format(self.form_)).write_bytes(self.source_)

    def _read(self, folder: Path) -> None:
        for form in READERS:
            path = folder / _FILE.format(form)
            if path.is_file():
                try:
                    self._hold(path.read_bytes(), form, self.n_features_)
                except DataError as error:
                    raise DataError(str(error), path=str(path)) from error
                return
        names = ", ".join(_FILE.format(form) for form in READERS)
        raise DataError(f"must hold one of {names}", path=str(folder))
