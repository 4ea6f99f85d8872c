"""Features as bytes: float32, little-endian, document after document.

A tenth of JSON's work for client and server. The sizes of the lists stand in a header.
"""

from __future__ import annotations

import re

import numpy as np

from plackett.base.ragged import from_sizes
from plackett.serving.server.bodies.careful import BAD_REQUEST, TOO_LARGE, UNPROCESSABLE
from plackett.serving.server.bodies.lists import Lists
from plackett.serving.server.bodies.names import FeatureNames
from plackett.serving.server.refusals import Refusal
from plackett.serving.server.settings import Limits

SIZES = "x-list-sizes"
"""The header with the number of documents of each list; without it all are one list."""
_SIZES = re.compile(r"[1-9]\d{0,8}(, ?[1-9]\d{0,8})*", re.ASCII)


def read_raw(body: bytes, sizes: str | None, names: FeatureNames, limits: Limits) -> Lists:
    """The lists of a body of float32; raises :class:`Refusal` with the reason."""
    width = 4 * len(names)
    if not body or len(body) % width:
        raise Refusal(
            BAD_REQUEST,
            f"the body has {len(body)} bytes; documents of {len(names)} features in float32 take "
            f"{width} bytes each.",
        )
    features = np.frombuffer(body, "<f4").reshape(-1, len(names)).astype(np.float32, copy=False)
    counts = _counts(sizes, len(features))
    if len(counts) > limits.lists:
        raise Refusal(TOO_LARGE, f"{len(counts)} lists; a batch may have {limits.lists}.")
    if max(counts) > limits.documents:
        raise Refusal(TOO_LARGE, f"{max(counts)} documents; a list may have {limits.documents}.")
    if np.isinf(features).any():
        i, j = np.argwhere(np.isinf(features))[0]
        raise Refusal(
            UNPROCESSABLE,
            f"document {i}, feature {names.names[j]!a}: the number is infinite.",
        )
    ids = (None,) * len(counts)
    return Lists(features, from_sizes(np.array(counts)), ids, single=sizes is None)


def _counts(sizes: str | None, n_docs: int) -> list[int]:
    if sizes is None:
        return [n_docs]
    if not _SIZES.fullmatch(sizes):
        raise Refusal(BAD_REQUEST, f"{SIZES} must be numbers from 1, separated by commas.")
    counts = [int(word) for word in sizes.split(",")]
    if sum(counts) != n_docs:
        raise Refusal(
            BAD_REQUEST, f"{SIZES} sum to {sum(counts)}; the body has {n_docs} documents."
        )
    return counts
