"""Several data sets made into one, and one cut into several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.errors import DataError
from plackett.base.ragged import list_of_document
from plackett.base.types import Features, Rows
from plackett.data.canonical import arrange, take_rows
from plackett.data.dataset import Dataset
from plackett.data.on_disk import empty, is_large, release, walk


def concat(parts: Sequence[Dataset]) -> Dataset:
    """All lists of several data sets; lists of different parts are never merged.

    ``rows`` of the result count through the parts one after the other.
    """
    if not parts:
        raise DataError("there is nothing to join: no data sets were given.")
    first = parts[0]
    for part in parts[1:]:
        if part.n_features != first.n_features or part.feature_names != first.feature_names:
            raise DataError(
                f"the parts have different features: {first.n_features} and {part.n_features}, or "
                "other names."
            )
    shifts = np.cumsum([0, *(part.n_lists for part in parts)])
    lists = zip(parts, shifts, strict=False)
    codes = np.concatenate([list_of_document(part.offsets) + shift for part, shift in lists])
    features = _stack(parts)
    ids = _join([part.document_ids for part in parts])
    plan = arrange(features, codes, int(shifts[-1]), ids)
    weights = _join([part.weights for part in parts])
    each = _join_document_weights(parts)
    return replace(
        first,
        features=_take(features, plan.rows),
        labels=np.concatenate([part.labels for part in parts])[plan.rows],
        offsets=plan.offsets,
        query_ids=np.concatenate([part.query_ids for part in parts])[plan.lists],
        keys=plan.keys,
        rows=_shifted_rows(parts)[plan.rows],
        document_ids=None if ids is None else ids[plan.rows],
        weights=None if weights is None else weights[plan.lists],
        document_weights=None if each is None else each[plan.rows],
    )


def split(
    dataset: Dataset, shares: Sequence[float] = (0.6, 0.2, 0.2), *, seed: int = 0
) -> tuple[Dataset, ...]:
    """Cut a data set by lists into random parts of these shares.

    >>> import plackett as pk
    >>> train, validation, test = pk.split(pk.synthetic("letor", n_lists=50), (0.6, 0.2, 0.2))
    >>> train.n_lists, validation.n_lists, test.n_lists
    (30, 10, 10)
    """
    # Written so that NaN, which compares as false, is refused.
    if not (len(shares) and all(share > 0 for share in shares) and sum(shares) <= 1 + 1e-9):
        raise DataError(f"shares must be positive and add up to at most 1, got {tuple(shares)}.")
    order = np.random.default_rng(seed).permutation(dataset.n_lists)
    edges = np.round(np.cumsum([0.0, *shares]) * dataset.n_lists).astype(np.int64)
    if np.any(np.diff(edges) == 0):
        raise DataError(f"{dataset.n_lists} lists are too few for the shares {tuple(shares)}.")
    return tuple(dataset.select(order[low:high]) for low, high in pairwise(edges))


def _stack(parts: Sequence[Dataset]) -> Features | csr_array:
    if any(isinstance(part.features, csr_array) for part in parts):
        return csr_array(scipy.sparse.vstack([csr_array(part.features) for part in parts]))
    large = next((part.features for part in parts if is_large(part.features)), None)
    if large is None:
        return np.concatenate([part.features for part in parts])
    out = empty(large, (sum(part.n_docs for part in parts), parts[0].n_features))
    at = 0
    for part in parts:
        features = np.asarray(part.features)
        for rows in walk(features):
            out[at + rows.start : at + rows.stop] = features[rows]
            release(out)
        at += part.n_docs
    return out


def _take(features: Features | csr_array, rows: Rows) -> Features | csr_array:
    return features[rows] if isinstance(features, csr_array) else take_rows(features, rows)


def _join(columns: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
    # Only what every part has can be kept.
    present = [c for c in columns if c is not None]
    return np.concatenate(present) if len(present) == len(columns) else None


def _join_document_weights(parts: Sequence[Dataset]) -> NDArray[np.float64] | None:
    # Documents of a part without weights have the weight 1.
    if all(part.document_weights is None for part in parts):
        return None
    given = [(part.document_weights, part.n_docs) for part in parts]
    return np.concatenate([np.ones(n) if each is None else each for each, n in given])


def _shifted_rows(parts: Sequence[Dataset]) -> Rows:
    starts = np.cumsum([0, *(part.rows.max() + 1 for part in parts)])
    return np.concatenate([p.rows + start for p, start in zip(parts, starts, strict=False)])
