"""Blocks of one file to one table."""

from __future__ import annotations

import numpy as np

from plackett.base.ragged import Features, Ids
from plackett.data.letor.ids import join
from plackett.data.letor.parse import Part
from plackett.data.table import Table


def join_parts(parts: list[Part], absent: float, path: str) -> Table:
    """Join the parts of a file, which are emptied: ``parts`` is used up.

    Parts that are narrower than the widest are filled with ``absent``.
    """
    parts[:] = [part for part in parts if len(part.labels)]
    width = max((part.features.shape[1] for part in parts), default=0)
    full = all(part.full and part.features.shape[1] == width for part in parts)
    labels = np.concatenate([part.labels for part in parts])
    queries = join([part.query_ids for part in parts])
    documents = _documents(parts)
    features = _features(parts, width, absent)
    return Table(features, labels, queries, documents, source=path, full_rows=full)


def _documents(parts: list[Part]) -> Ids | None:
    if all(part.document_ids is None for part in parts):
        return None
    missing = [np.zeros(len(part.labels), dtype="U1") for part in parts]
    given = [part.document_ids for part in parts]
    return join([m if g is None else g for g, m in zip(given, missing, strict=True)])


def _features(parts: list[Part], width: int, absent: float) -> Features:
    if len(parts) == 1:
        return parts[0].features
    # A fresh array takes up memory only as it is written, and each part is let go once copied:
    # at no time are there two whole matrices.
    features = np.empty((sum(len(part.labels) for part in parts), width), dtype=np.float32)
    at = 0
    parts.reverse()
    while parts:
        part = parts.pop()
        rows = features[at : at + len(part.labels)]
        rows[:, : part.features.shape[1]] = part.features
        rows[:, part.features.shape[1] :] = absent
        at += len(rows)
    return features
