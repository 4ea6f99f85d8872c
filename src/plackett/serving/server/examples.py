"""Documents to try a model with: out of a data set, or made up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import FeatureMismatch
from plackett.data.dataset import Dataset
from plackett.data.transforms import FittedChain
from plackett.data.transforms.scaling import FittedStandard
from plackett.serving.server.registry import Model
from plackett.serving.server.scoring import ensemble_of

_EXAMPLES, _DOCUMENTS = 4, 12
_DIGITS = 4  # of numbers that are shown
_ZERO = 1e-30  # LightGBM splits beside zero at 1e-35


@dataclass(frozen=True)
class Examples:
    """Lists of a data set that people may try.

    Parameters
    ----------
    data
        Where they come from; None: they are made up for each model.
    """

    data: Dataset | None = None

    def check(self, models: list[Model]) -> None:
        """Refuse a data set that no model can rank."""
        if self.data is not None and not any(self._fits(model) for model in models):
            wanted = sorted({len(model.names) for model in models})
            raise FeatureMismatch(
                f"the examples have {self.data.n_features} features; the models have "
                f"{', '.join(map(str, wanted))}."
            )

    def of(self, model: Model) -> dict[str, Any]:
        """Examples for a model, as the page shows them."""
        if self.data is not None and self._fits(model):
            return {"made_up": False, "examples": self._real(self.data)}
        return {"made_up": True, "examples": _made_up(model)}

    def _fits(self, model: Model) -> bool:
        return self.data is not None and self.data.n_features == len(model.names)

    @staticmethod
    def _real(data: Dataset) -> list[dict[str, Any]]:
        found = []
        long = np.flatnonzero(np.diff(data.offsets) > 1)  # one document is no ranking
        for q in (long if len(long) else np.arange(data.n_lists))[:_EXAMPLES].tolist():
            part = data.lists(q, q + 1)
            features = part.features[:_DOCUMENTS]
            dense = features if isinstance(features, np.ndarray) else features.toarray()
            rows = [f"row {row + 1}" for row in part.rows[:_DOCUMENTS]]
            ids = rows if part.document_ids is None else part.document_ids[:_DOCUMENTS]
            names = [str(each) or row for each, row in zip(ids, rows, strict=True)]
            label = f"query {part.query_ids[0]}"
            found.append({"name": label, "documents": _plain(dense), "ids": names})
        return found


def _made_up(model: Model) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    drawn = [_draw(model, rng) for _ in range(_EXAMPLES)]
    return [
        {
            "name": f"made-up list {k + 1}",
            "documents": _plain(features),
            "ids": [f"document {i + 1}" for i in range(_DOCUMENTS)],
        }
        for k, features in enumerate(drawn)
    ]


def _draw(model: Model, rng: np.random.Generator) -> NDArray[np.float64]:
    """Values in the range that the model tells apart: its thresholds, or mean and deviation."""
    shape = (_DOCUMENTS, len(model.names))
    ensemble = ensemble_of(model.ranker)
    if ensemble is not None:
        out = np.zeros(shape)
        plain = (ensemble.category_set < 0) & (np.abs(ensemble.threshold) < 1e30)
        for j in np.unique(ensemble.feature[plain]):
            at = ensemble.threshold[plain & (ensemble.feature == j)]
            out[:, j] = rng.choice(at, _DOCUMENTS)
        return np.where(np.abs(out) < _ZERO, 0.0, out)
    transform = model.ranker.transform_
    first = transform.transforms[0] if isinstance(transform, FittedChain) else transform
    if isinstance(first, FittedStandard):
        return first.mean + first.deviation * rng.normal(size=shape)
    return rng.random(shape)


def _plain(features: NDArray[Any]) -> list[list[float | None]]:
    return [
        [float(f"{v:.{_DIGITS}g}") if np.isfinite(v) else None for v in row] for row in features
    ]
