"""Data without their features, for what is done after training: features are most of the memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from plackett.data.dataset import Dataset
from plackett.data.folds import Fold
from plackett.experiments.protocols import Folds, Holdout, Protocol, Seeds, Source, Splits


def without_features(source: Source, protocol: Protocol) -> Source:
    """The same lists in the same order and division, with no features to be copied.

    Given back as it is where the division needs features: protocols of other kinds, which may
    change lists, and folds that are pooled, whose lists are put in order by their contents.
    """
    pools = isinstance(protocol, Splits) or (isinstance(protocol, Folds) and protocol.count)
    if not isinstance(protocol, (Folds, Splits, Seeds, Holdout)) or (source.folds and pools):
        return source
    whole = None if source.whole is None else _bare(source.whole)
    return Source(source.name, whole, tuple(_bare_fold(fold) for fold in source.folds))


def _bare_fold(fold: Fold) -> Fold:
    validation = None if fold.validation is None else _bare(fold.validation)
    return Fold(fold.name, _bare(fold.train), validation, _bare(fold.test))


def _bare(data: Dataset) -> Dataset:
    nothing = np.empty((data.n_docs, 0), dtype=np.float32)
    return replace(data, features=nothing, feature_names=None)
