"""What the tests of data sets share: random rows, and equality of data sets."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from plackett.data.dataset import Dataset


@dataclass(frozen=True)
class Rows:
    """Rows as a caller has them."""

    features: NDArray[np.float32]
    labels: NDArray[np.float32]
    query_ids: NDArray[Any]
    document_ids: NDArray[Any] | None = None

    def dataset(self, **options: Any) -> Dataset:
        return Dataset.from_arrays(
            self.features, self.labels, self.query_ids, document_ids=self.document_ids, **options
        )

    def take(self, order: NDArray[np.int64]) -> Rows:
        ids = None if self.document_ids is None else self.document_ids[order]
        return Rows(self.features[order], self.labels[order], self.query_ids[order], ids)


def make_rows(
    n_docs: int = 40,
    n_features: int = 3,
    n_lists: int = 6,
    *,
    seed: int = 0,
    documents: bool = False,
    strings: bool = False,
) -> Rows:
    """Rows whose queries stand together."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n_docs, n_features)).astype(np.float32)
    features[rng.random(features.shape) < 0.3] = 0
    labels = rng.integers(0, 5, n_docs).astype(np.float32)
    query_ids = np.sort(rng.integers(0, n_lists, n_docs)) * 7 + 3
    document_ids = rng.permutation(n_docs) if documents else None
    if strings:
        query_ids = np.array([f"q{q}" for q in query_ids])
        document_ids = np.array([f"d{d}ä" for d in rng.permutation(n_docs)]) if documents else None
    return Rows(features, labels, query_ids, document_ids)


def difference(one: Dataset, other: Dataset) -> str | None:
    """The first field in which two data sets differ, or None."""
    for field in fields(Dataset):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            same = a.dtype.kind == b.dtype.kind and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        else:
            same = type(a) is type(b) and a == b
        if not same:
            return field.name
    return None


@st.composite
def row_sets(draw: st.DrawFn, *, documents: bool | None = None) -> Rows:
    """Rows of few distinct values, so that equal documents, equal lists and zeros occur."""
    n_docs = draw(st.integers(1, 25))
    n_features = draw(st.integers(0, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    pool = np.array([0.0, -0.0, 1.0, -2.5, 3e-42, 3.4e38], np.float32)
    features = rng.choice(pool[: draw(st.integers(1, len(pool)))], (n_docs, n_features))
    query_ids = rng.integers(0, draw(st.integers(1, 8)), n_docs)
    with_ids = draw(st.booleans()) if documents is None else documents
    # The label is a function of the content: documents of equal content and different labels are
    # the declared exception to what the properties state.
    document_ids = rng.integers(0, 4, n_docs) if with_ids else None
    content = features.astype(np.float64).sum(axis=1) % 5
    labels = np.abs(content if document_ids is None else content + document_ids).astype(np.float32)
    return Rows(features, labels, query_ids, document_ids)
