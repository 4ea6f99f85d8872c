r"""RankBoost: a sum of weighted thresholds on single features (Freund et al. 2003).

.. math:: s(x) = \sum_t \alpha_t\, [x_{j_t} > \theta_t]

Each round adds the threshold on a feature that best corrects the pairs that are wrong so far (the
largest :math:`|r|`), with weight :math:`\alpha = \tfrac12 \ln\frac{1+r}{1-r}`
(:mod:`plackett.models.stumps.boosting`). That minimizes the exponential loss over pairs,
:math:`\sum e^{-(s_i - s_j)}`, which falls by at least the factor :math:`\sqrt{1 - r^2}` per round.
A round costs O(documents x features); pairs are never enumerated.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.kernels import kernel_threads
from plackett.base.ragged import Scores
from plackett.data.dataset import Dataset
from plackett.models.ranker import FitContext, Ranker, check_learnable
from plackett.models.stumps.boosting import StumpBoosting, columns, merge_stumps

_FILE = "stumps.json"
_MAX_THRESHOLDS = 65_534  # codes are 16 bits wide


@dataclass
class StumpRanker(Ranker):
    """A sum of weighted thresholds on single features (RankBoost).

    Parameters
    ----------
    rounds
        Maximum number of stumps.
    thresholds
        Maximum number of candidate thresholds per feature; a feature with more distinct values is
        cut at quantiles.
    patience
        With validation data: stop after this many rounds without a better metric.
    threads
        Number of threads; None: all.
    transforms
        Applied to the features first; monotone ones change nothing.
    seed
        Has no effect; all rankers take one.
    """

    takes_missing: ClassVar[bool] = True

    rounds: int = 500
    thresholds: int = 255
    patience: int = 100
    threads: int | None = None
    transforms: tuple[str, ...] = ()
    seed: int = 0

    def _fit(self, train: Dataset, validation: Dataset | None, context: FitContext) -> None:
        self._check_settings()
        check_learnable(train)
        parts = {"train": train} | ({} if validation is None else {"validation": validation})
        with kernel_threads(self.threads):
            boosting = StumpBoosting(self, parts, context)
            boosting.run()
        self.curves_: dict[str, dict[str, list[float]]] = boosting.curves
        """Means of the metrics after each round, for each part of the data."""
        self.losses_: tuple[float, ...] = tuple(boosting.losses)
        """The exponential loss over the pairs of the training lists before each round."""
        stumps = boosting.stumps[: boosting.best]
        self._set_stumps(*merge_stumps(stumps, boosting.thresholds))

    def coefficients_by_name(self) -> dict[str, float]:
        """How much each feature can change the score, the most first; unused ones are absent."""
        names = self._feature_labels()
        ranges = {}
        for j in np.unique(self.stump_features_):
            steps = np.cumsum(self.stump_weights_[self.stump_features_ == j])
            ranges[names[j]] = float(max(steps.max(), 0.0) - min(steps.min(), 0.0))
        return dict(sorted(ranges.items(), key=lambda item: -item[1]))

    def _predict(self, data: Dataset) -> Scores:
        scores = np.zeros(data.n_docs)
        for j, column in enumerate(columns(data.features)):
            low, high = np.searchsorted(self.stump_features_, [j, j + 1])
            if high > low:
                levels = np.append(0.0, np.cumsum(self.stump_weights_[low:high]))
                _add_levels(column, self.stump_thresholds_[low:high], levels, scores)
        return scores

    def _check_settings(self) -> None:
        for name in ("rounds", "thresholds", "patience"):
            if getattr(self, name) < 1:
                raise UsageError(f"StumpRanker needs {name} >= 1, got {getattr(self, name)!r}.")
        if self.thresholds > _MAX_THRESHOLDS:
            raise UsageError(
                f"StumpRanker takes at most {_MAX_THRESHOLDS} thresholds, got {self.thresholds}."
            )

    def _set_stumps(
        self, features: NDArray[np.int64], thresholds: NDArray[np.float32], weights: Scores
    ) -> None:
        self.stump_features_: NDArray[np.int64] = features
        """The feature of each stump, ascending."""
        self.stump_thresholds_: NDArray[np.float32] = thresholds
        """Its threshold, ascending within a feature."""
        self.stump_weights_: Scores = weights
        """What it adds to the score above the threshold."""

    def _write(self, folder: Path) -> None:
        content = {
            "features": self.stump_features_.tolist(),
            "thresholds": self.stump_thresholds_.tolist(),
            "weights": self.stump_weights_.tolist(),
        }
        (folder / _FILE).write_text(json.dumps(content), encoding="utf-8")

    def _read(self, folder: Path) -> None:
        path = folder / _FILE
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            features = np.array(content["features"], dtype=np.int64)
            thresholds = np.array(content["thresholds"], dtype=np.float32)
            weights = np.array(content["weights"], dtype=np.float64)
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise DataError(f"holds no stumps: {error}", path=str(path)) from error
        shapes = {features.shape, thresholds.shape, weights.shape}
        known = np.all((features >= 0) & (features < (self.n_features_ or 0)))
        finite = np.all(np.isfinite(thresholds)) and np.all(np.isfinite(weights))
        if len(shapes) > 1 or features.ndim != 1 or not known or not finite:
            raise DataError("must hold one feature, threshold and weight per stump", path=str(path))
        order = np.lexsort((thresholds, features))
        self._set_stumps(features[order], thresholds[order], weights[order])
        self.curves_, self.losses_ = {}, ()


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _add_levels(column, thresholds, levels, scores):  # type: ignore[no-untyped-def]
    for d in prange(len(column)):
        if not np.isnan(column[d]):
            scores[d] += levels[np.searchsorted(thresholds, column[d])]
