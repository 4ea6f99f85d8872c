"""All of a streamed data set but its features, with scores that were found on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.ragged import Scores, from_sizes
from plackett.data.dataset import Dataset


def without_features(
    parts: Iterable[Dataset], score: Callable[[Dataset], Scores] | None = None
) -> tuple[Dataset, Scores | None]:
    """The lists of all parts as one data set of no features, in canonical order, and their scores.

    Parameters
    ----------
    parts
        Whole lists, as :func:`plackett.data.streaming.lists.whole_lists` gives them.
    score
        What to make of the documents of each part, while their features are there.
    """
    kept: list[Dataset] = []
    scores: list[Scores] = []
    for part in parts:
        if score is not None:
            scores.append(score(part))
        nothing = np.empty((part.n_docs, 0), np.float32)
        kept.append(replace(part, features=nothing, feature_names=None))
    if not kept:
        raise DataError("there are no documents.")
    joined, order = _joined(kept)
    return joined, np.concatenate(scores)[order] if score is not None else None


def _joined(parts: Sequence[Dataset]) -> tuple[Dataset, NDArray[np.int64]]:
    """All lists in the order of their keys, and where their documents were."""
    keys = np.concatenate([part.keys for part in parts])
    lists = np.argsort(keys, kind="stable")
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    starts, offsets = from_sizes(sizes)[:-1], from_sizes(sizes[lists])
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes[lists])
    documents = np.repeat(starts[lists], sizes[lists]) + within

    def taken(name: str, order: NDArray[np.int64]) -> Any:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else np.concatenate(values)[order]

    joined = Dataset(
        features=np.empty((len(documents), 0), np.float32),
        labels=taken("labels", documents),
        offsets=offsets,
        query_ids=taken("query_ids", lists),
        keys=keys[lists],
        rows=taken("rows", documents),
        document_ids=taken("document_ids", documents),
        weights=taken("weights", lists),
        document_weights=taken("document_weights", documents),
    )
    return joined, documents
