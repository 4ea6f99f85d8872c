"""The pages of the server, from files in ``assets``, and the lists that users may try.

``/`` ranks documents that a user picks or pastes. ``/docs`` shows the OpenAPI description and sends
requests. It is our own page of 8 kB: Swagger UI has 1.5 MB and needs a looser content policy.
"""

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import FeatureMismatch
from plackett.data.dataset import Dataset
from plackett.data.transforms import FittedChain
from plackett.data.transforms.features import FittedStandard
from plackett.serving.server.model import Model, plain_trees
from plackett.serving.server.schemas import Example, ExampleList

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_MAX_EXAMPLES, _MAX_DOCUMENTS = 4, 12
_DIGITS = 4  # of displayed numbers
_ZERO = 1e-30  # LightGBM splits next to zero at 1e-35


def _read_asset(name: str) -> tuple[bytes, str]:
    content = files("plackett.serving.server").joinpath("assets", name).read_bytes()
    return content, _MEDIA_TYPES[name.rpartition(".")[2]]


FILES = {
    "/": _read_asset("index.html"),
    "/docs": _read_asset("docs.html"),
    **{f"/assets/{name}": _read_asset(name) for name in ("page.css", "page.js", "docs.js")},
}
"""Content and media type by path of the request."""


@dataclass(frozen=True)
class Examples:
    """Lists that users may try, from ``data``; None makes lists up for each model."""

    data: Dataset | None = None

    def check(self, models: list[Model]) -> None:
        """Raise FeatureMismatch if the data does not fit any model."""
        widths = sorted({len(model.names) for model in models})
        if self.data is not None and self.data.n_features not in widths:
            raise FeatureMismatch(
                f"the examples have {self.data.n_features} features; the models have {', '.join(map(str, widths))}."
            )

    def of(self, model: Model) -> ExampleList:
        """Examples for a model."""
        if self.data is not None and self.data.n_features == len(model.names):
            return ExampleList(model.name, model.version, False, _select_lists(self.data))
        return ExampleList(model.name, model.version, True, _make_up_lists(model))


def _select_lists(data: Dataset) -> list[Example]:
    examples = []
    long = np.flatnonzero(data.list_sizes > 1)  # one document has nothing to rank
    for q in (long if len(long) else np.arange(data.n_lists))[:_MAX_EXAMPLES].tolist():
        part = data.lists(q, q + 1)
        features = part.features[:_MAX_DOCUMENTS]
        dense = features if isinstance(features, np.ndarray) else features.toarray()
        rows = [f"row {row + 1}" for row in part.rows[:_MAX_DOCUMENTS]]
        ids = rows if part.document_ids is None else part.document_ids[:_MAX_DOCUMENTS]
        names: list[str | int] = [str(i) or row for i, row in zip(ids, rows, strict=True)]
        examples.append(Example(f"query {part.list_ids[0]}", _round(dense), names))
    return examples


def _make_up_lists(model: Model) -> list[Example]:
    rng = np.random.default_rng(0)
    ids: list[str | int] = [f"document {i + 1}" for i in range(_MAX_DOCUMENTS)]
    return [Example(f"made-up list {k + 1}", _round(_draw_features(model, rng)), ids) for k in range(_MAX_EXAMPLES)]


def _draw_features(model: Model, rng: np.random.Generator) -> NDArray[np.float64]:
    """Values that the model distinguishes: from its thresholds, or by mean and deviation."""
    shape = (_MAX_DOCUMENTS, len(model.names))
    ensemble = plain_trees(model.ranker)
    if ensemble is not None:
        features = np.zeros(shape)
        is_numeric = (ensemble.category_set < 0) & (np.abs(ensemble.threshold) < 1e30)
        for j in np.unique(ensemble.feature[is_numeric]):
            thresholds = ensemble.threshold[is_numeric & (ensemble.feature == j)]
            features[:, j] = rng.choice(thresholds, _MAX_DOCUMENTS)
        return np.where(np.abs(features) < _ZERO, 0.0, features)
    transform = model.ranker.transform_
    first = transform.transforms[0] if isinstance(transform, FittedChain) else transform
    if isinstance(first, FittedStandard):
        return first.mean + first.deviation * rng.normal(size=shape)
    return rng.random(shape)


def _round(features: NDArray[Any]) -> list[list[float | None]]:
    return [[float(f"{v:.{_DIGITS}g}") if np.isfinite(v) else None for v in row] for row in features]
