"""Removal of documents and lists that cannot teach a ranking, with a count of what went.

=============  ===================================================================================
rule           removes
=============  ===================================================================================
conflicting    within a list, every copy of a document that occurs with different labels
blank          lists without a relevant document (no label above 0)
uniform        lists whose labels are all equal: they hold no pair to put in order
=============  ===================================================================================

The first two are the cleaning of LETOR 3 by Dubey, Machchhar, Bhattacharyya & Chakrabarti 2009
("Conditional models for non-smooth ranking loss functions").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import list_of_document
from plackett.data.canonical import hash_documents, hash_ids
from plackett.data.dataset import Dataset


@dataclass(frozen=True)
class Removed:
    """What one rule took away."""

    rule: str
    documents: int
    lists: int


@dataclass(frozen=True)
class Cleaning:
    """What cleaning took away, rule by rule, and what was there before."""

    documents: int
    lists: int
    removed: tuple[Removed, ...]

    def __str__(self) -> str:
        parts = [f"{r.rule}: {r.documents} documents, {r.lists} lists" for r in self.removed]
        return f"{self.documents} documents, {self.lists} lists; removed " + "; ".join(parts)


def drop_conflicting(ds: Dataset) -> Dataset:
    """Remove, within a list, every copy of a document that occurs with different labels.

    Copies are documents with the same id; in data without ids, documents with the same features
    (by a 64-bit hash: two different ones in a list of a thousand collide with probability 3e-14).
    """
    return _keep_documents(ds, ~conflicting(ds), "conflicting")


def conflicting(ds: Dataset) -> NDArray[np.bool_]:
    """For each document, whether its list holds a copy of it with another label."""
    ids = ds.document_ids
    document = hash_documents(ds.features) if ids is None else hash_ids(ids)
    of_list = list_of_document(ds.offsets)
    order = np.lexsort((ds.labels, document, of_list))
    document, of_list, labels = document[order], of_list[order], ds.labels[order]
    same = (document[1:] == document[:-1]) & (of_list[1:] == of_list[:-1])
    starts = np.flatnonzero(np.concatenate([[True], ~same]))
    ends = np.append(starts[1:], ds.n_docs) - 1
    # Labels are sorted within the copies of a document: they differ if first and last do.
    differ = labels[starts] != labels[ends]
    result = np.empty(ds.n_docs, np.bool_)
    result[order] = np.repeat(differ, ends - starts + 1)
    return result


def drop_blank(ds: Dataset) -> Dataset:
    """Remove lists without a relevant document."""
    highest = np.maximum.reduceat(ds.labels, ds.offsets[:-1])
    return _keep_lists(ds, highest > 0, "blank")


def drop_uniform(ds: Dataset) -> Dataset:
    """Remove lists whose labels are all equal."""
    highest = np.maximum.reduceat(ds.labels, ds.offsets[:-1])
    lowest = np.minimum.reduceat(ds.labels, ds.offsets[:-1])
    return _keep_lists(ds, highest > lowest, "uniform")


def binarize(ds: Dataset, threshold: float = 0.0) -> Dataset:
    """Set labels above ``threshold`` to 1 and the others to 0."""
    return ds.with_labels((ds.labels > threshold).astype(np.float32))


RULES: dict[str, Callable[[Dataset], Dataset]] = {
    "conflicting": drop_conflicting,
    "blank": drop_blank,
    "uniform": drop_uniform,
}


def clean(ds: Dataset, rules: Sequence[str] = ("conflicting", "blank")) -> tuple[Dataset, Cleaning]:
    """Apply rules in the order given and count what each removed.

    Examples
    --------
    >>> from plackett.data.dataset import Dataset
    >>> ds = Dataset.from_arrays([[1], [2], [2], [3]], [1, 0, 2, 0], ["a", "a", "a", "b"])
    >>> print(clean(ds)[1])
    4 documents, 2 lists; removed conflicting: 2 documents, 0 lists; blank: 1 documents, 1 lists
    """
    names = (rules,) if isinstance(rules, str) else tuple(rules)
    for name in names:
        if name not in RULES:
            raise UsageError(f"there is no rule {name!r}; there are {', '.join(RULES)}.")
    removed: list[Removed] = []
    current = ds
    for name in names:
        before, current = current, RULES[name](current)
        fewer = (before.n_docs - current.n_docs, before.n_lists - current.n_lists)
        removed.append(Removed(name, *fewer))
    return current, Cleaning(ds.n_docs, ds.n_lists, tuple(removed))


def _keep_documents(ds: Dataset, keep: NDArray[np.bool_], rule: str) -> Dataset:
    if keep.all():
        return ds
    _refuse_empty(ds, keep, rule)
    return ds.documents(keep)


def _keep_lists(ds: Dataset, keep: NDArray[np.bool_], rule: str) -> Dataset:
    if keep.all():
        return ds
    _refuse_empty(ds, keep, rule)
    return ds.select(np.flatnonzero(keep))


def _refuse_empty(ds: Dataset, keep: NDArray[np.bool_], rule: str) -> None:
    if not keep.any():
        raise DataError(
            f"the rule {rule!r} would remove all {ds.n_docs} documents in {ds.n_lists} lists; "
            "check that labels and query ids are what they should be."
        )
