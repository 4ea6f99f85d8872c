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
from plackett.base.ragged import Features, Rows, list_of_document
from plackett.data.arrays import first_appearance
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
    each, groups = _join_document_weights(parts), _join_groups(parts)
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
        groups=None if groups is None else groups[plan.lists],
    )


def split(
    dataset: Dataset, shares: Sequence[float] = (0.6, 0.2, 0.2), *, seed: int = 0
) -> tuple[Dataset, ...]:
    """Cut a data set by lists into random parts of these shares.

    Lists of one group, such as impressions of one query (``Dataset.groups``), stay together; shares
    are then those of groups.

    >>> import plackett as pk
    >>> train, validation, test = pk.split(pk.synthetic("letor", n_lists=50), (0.6, 0.2, 0.2))
    >>> train.n_lists, validation.n_lists, test.n_lists
    (30, 10, 10)
    """
    # Written so that NaN, which compares as false, is refused.
    if not (len(shares) and all(share > 0 for share in shares) and sum(shares) <= 1 + 1e-9):
        raise DataError(f"shares must be positive and add up to at most 1, got {tuple(shares)}.")
    place, count = shuffled(dataset, seed=seed)
    edges = np.round(np.cumsum([0.0, *shares]) * count).astype(np.int64)
    if np.any(np.diff(edges) == 0):
        one, several = ("list", "lists") if dataset.groups is None else ("group", "groups")
        many = f"{one} is" if count == 1 else f"{several} are"
        raise DataError(f"{count} {many} too few for the shares {tuple(shares)}.")
    return tuple(
        dataset.select(np.flatnonzero((low <= place) & (place < high)))
        for low, high in pairwise(edges)
    )


def shuffled(dataset: Dataset, *, seed: int) -> tuple[Rows, int]:
    """The place of each list in a random order, and how many places there are.

    Lists of one group have the same place, so that what goes by places does not part them.
    """
    codes = group_codes(dataset)
    count = int(codes.max()) + 1
    place = np.empty(count, np.int64)
    place[np.random.default_rng(seed).permutation(count)] = np.arange(count)
    return place[codes], count


def group_codes(dataset: Dataset) -> Rows:
    """The group of each list, counted from 0 in the canonical order of lists."""
    if dataset.groups is None:
        return np.arange(dataset.n_lists)
    return first_appearance(dataset.groups)[1]  # what groups are called does not matter


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


def _join_groups(parts: Sequence[Dataset]) -> NDArray[np.int64] | None:
    # Numbers of different parts mean different things; a list of no group is one of its own.
    if all(part.groups is None for part in parts):
        return None
    given = [np.arange(p.n_lists) if p.groups is None else p.groups for p in parts]
    shifts = np.cumsum([0, *(int(each.max()) + 1 for each in given)])
    return np.concatenate([each + shift for each, shift in zip(given, shifts, strict=False)])


def _shifted_rows(parts: Sequence[Dataset]) -> Rows:
    starts = np.cumsum([0, *(part.rows.max() + 1 for part in parts)])
    return np.concatenate([p.rows + start for p, start in zip(parts, starts, strict=False)])
