"""Sizes of trees that go by the number of training documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plackett.base.errors import UsageError

if TYPE_CHECKING:
    from plackett.models.trees.ranker import TreeRanker


def sized(ranker: TreeRanker, n_docs: int) -> dict[str, int]:
    """Leaves of a tree and documents of a leaf, with ``"auto"`` filled in."""
    leaves, documents = ranker.leaves, ranker.min_documents
    for name, value, least in (("leaves", leaves, 2), ("min_documents", documents, 1)):
        if value != "auto" and (not isinstance(value, int) or value < least):
            raise UsageError(f'{name} must be "auto" or a number from {least} up, got {value!r}.')
    return {
        "leaves": _leaves(n_docs) if leaves == "auto" else leaves,
        "min_documents": _documents(n_docs) if documents == "auto" else documents,
    }


def _leaves(n_docs: int) -> int:
    return 15 if n_docs < 100_000 else 63


def _documents(n_docs: int) -> int:
    return 20 if n_docs < 100_000 else 50
