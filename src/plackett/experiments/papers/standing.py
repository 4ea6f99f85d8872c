"""Data for quick runs: synthetic lists in the place of a data set, or a few of its own."""

from __future__ import annotations

from collections.abc import Sequence

from plackett.data.dataset import Dataset
from plackett.data.folds import Fold, concat
from plackett.data.synthetic import synthetic
from plackett.experiments.papers.finding import View
from plackett.experiments.papers.sets import KnownSet
from plackett.experiments.protocols import Source

_PARTS = 5
"""Folds that a stand-in is cut into where the set comes in folds."""
_LEAST = 5
"""Lists of each part that are always kept."""


def stand_in(known: KnownSet, view: View) -> Source:
    """Synthetic lists of the same kind; whole, or in folds if all folds are wanted."""
    # Sets of one kind are different draws of it.
    whole = synthetic(known.stand_in, n_lists=known.quick_lists, seed=known.documents)
    name = f"synthetic {known.stand_in!r} for {known.name}"
    if view == "first":
        return Source(name, whole=whole)
    parts = [whole.select(range(i, whole.n_lists, _PARTS)) for i in range(_PARTS)]
    return Source(name, folds=tuple(_rotated(parts, i) for i in range(_PARTS)))


def _rotated(parts: Sequence[Dataset], i: int) -> Fold:
    """Fold i measures on part i, chooses on the one after it, and learns from the rest."""
    count = len(parts)
    rest = [parts[(i + k) % count] for k in range(2, count)]
    return Fold(f"Fold{i + 1}", concat(rest), parts[(i + 1) % count], parts[i])


def reduced(source: Source, known: KnownSet) -> Source:
    """As many lists of real data as a quick run takes."""
    total = sum(fold.test.n_lists for fold in source.folds) * (1 if len(source.folds) > 1 else 5)
    share = min(1.0, known.quick_lists / total)
    name = f"{share:.1%} of {source.name}" if share < 1 else source.name
    return Source(name, folds=tuple(_fewer(fold, share) for fold in source.folds))


def _fewer(fold: Fold, share: float) -> Fold:
    def some(data: Dataset) -> Dataset:
        # Lists stand in the order of a hash of their contents: the first ones are a fair draw.
        return data.lists(0, min(data.n_lists, max(_LEAST, round(share * data.n_lists))))

    validation = None if fold.validation is None else some(fold.validation)
    return Fold(fold.name, some(fold.train), validation, some(fold.test))
