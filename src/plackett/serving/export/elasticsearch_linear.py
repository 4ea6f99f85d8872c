"""Linear models for the learning-to-rank plugins of Elasticsearch and OpenSearch.

The body of a request ``POST _ltr/_featureset/SET/_createmodel``: weights by name as
``model/linear``, with ``feature_normalizers``. All arithmetic is float32; a missing feature is 0
before its normaliser.
"""

from __future__ import annotations

import json

import numpy as np

from plackett.base.errors import UsageError
from plackett.serving.export.linear import Linear


def elasticsearch_linear(linear: Linear, names: tuple[str, ...], name: str) -> str:
    """A linear model with its normalisers."""
    weights = dict(zip(names, map(_single, linear.weights), strict=True))
    normalisers = {
        names[j]: {
            "standard": {
                "mean": _single(linear.normalisers.centre[j]),
                "standard_deviation": _single(linear.normalisers.scale[j]),
            }
        }
        for j in np.flatnonzero(linear.normalisers.present)
    }
    inner = {"type": "model/linear", "definition": json.dumps(weights)}
    if normalisers:
        inner |= {"feature_normalizers": normalisers}  # type: ignore[dict-item]
    return json.dumps({"model": {"name": name, "model": inner}}, allow_nan=False)


def _single(value: float) -> float:
    with np.errstate(over="ignore", under="ignore"):
        found = float(np.float32(value))
    if not np.isfinite(found):
        raise UsageError(f"{value!r} does not fit into float32, which the plugin computes in.")
    return found
