"""Remove documents and lists that hold no information about the ranking, and count them.

====================  ============================================================================
rule                  removes
====================  ============================================================================
conflicting           within a list, every copy of a document that occurs with different labels
conflicting-features  the same, with copies identified by features even if the data have ids
blank                 lists without a relevant document (no label above 0)
uniform               lists whose labels are all equal: no document is better than another
====================  ============================================================================

Conflicting and blank are the cleaning of LETOR 3 by Dubey, Machchhar, Bhattacharyya & Chakrabarti 2009
("Conditional models for non-smooth ranking loss functions").
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError, warn_renamed
from plackett.data.canonical import hash_documents, hash_ids
from plackett.data.dataset import Dataset


@dataclass(frozen=True)
class Removed:
    """Counts of what one rule removed."""

    rule: str
    documents: int
    lists: int


@dataclass(frozen=True)
class Cleaning:
    """Counts before cleaning, and of what each rule removed."""

    documents: int
    lists: int
    removed: tuple[Removed, ...]

    def __str__(self) -> str:
        parts = [f"{r.rule}: {r.documents} documents, {r.lists} lists" for r in self.removed]
        return f"{self.documents} documents, {self.lists} lists; removed " + "; ".join(parts)


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


def drop_conflicting(ds: Dataset, *, by_features: bool = False) -> Dataset:
    """Remove, within a list, every copy of a document that occurs with different labels.

    Copies are documents with the same id; in data without ids, or ``by_features``, documents with the same features (by
    a 64-bit hash: two different ones in a list of a thousand collide with probability 3e-14).
    """
    keep = ~conflicting(ds, by_features=by_features)
    return ds if _keeps_all(ds, keep, "conflicting") else ds.documents(keep)


def conflicting(ds: Dataset, *, by_features: bool = False) -> NDArray[np.bool_]:
    """For each document, whether its list holds a copy of it with another label."""
    ids = None if by_features else ds.document_ids
    hashes = hash_documents(ds.features) if ids is None else hash_ids(ids)
    lists = ds.list_of_row
    order = np.lexsort((ds.labels, hashes, lists))
    hashes, lists, labels = hashes[order], lists[order], ds.labels[order]
    same = (hashes[1:] == hashes[:-1]) & (lists[1:] == lists[:-1])
    starts = np.flatnonzero(np.concatenate([[True], ~same]))
    ends = np.append(starts[1:], ds.n_docs) - 1
    # Labels are sorted within the copies of a document: they differ if the first and last do.
    differ = labels[starts] != labels[ends]
    result = np.empty(ds.n_docs, np.bool_)
    result[order] = np.repeat(differ, ends - starts + 1)
    return result


def drop_blank(ds: Dataset) -> Dataset:
    """Remove lists without a relevant document."""
    highest = ds.reduce_lists(np.maximum, ds.labels)
    return _keep_lists(ds, highest > 0, "blank")


def drop_uniform(ds: Dataset) -> Dataset:
    """Remove lists whose labels are all equal."""
    highest = ds.reduce_lists(np.maximum, ds.labels)
    lowest = ds.reduce_lists(np.minimum, ds.labels)
    return _keep_lists(ds, highest > lowest, "uniform")


def binarize(ds: Dataset, threshold: float = 0.0) -> Dataset:
    """Set labels above ``threshold`` to 1 and the others to 0."""
    return ds.with_labels((ds.labels > threshold).astype(np.float32))


def binarise(ds: Dataset, threshold: float = 0.0) -> Dataset:
    """Deprecated spelling of :func:`binarize`."""
    warn_renamed("binarise", "binarize")
    return binarize(ds, threshold)


RULES: dict[str, Callable[[Dataset], Dataset]] = {
    "conflicting": drop_conflicting,
    "conflicting-features": partial(drop_conflicting, by_features=True),
    "blank": drop_blank,
    "uniform": drop_uniform,
}


def _keep_lists(ds: Dataset, keep: NDArray[np.bool_], rule: str) -> Dataset:
    return ds if _keeps_all(ds, keep, rule) else ds.select(np.flatnonzero(keep))


def _keeps_all(ds: Dataset, keep: NDArray[np.bool_], rule: str) -> bool:
    if not keep.any():
        raise DataError(
            f"the rule {rule!r} would remove all {ds.n_docs} documents in {ds.n_lists} lists; "
            "check the labels and query ids."
        )
    return bool(keep.all())
