"""The fastest way from features to scores that a ranker offers, the same to the bit as predict."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from plackett.base.errors import DataError
from plackett.base.ragged import Features, Offsets, Scores, list_of_document
from plackett.models.ensembles import Ensemble, EnsembleRanker
from plackett.models.ranker import Ranker
from plackett.models.trees import TreeRanker

Scorer: TypeAlias = Callable[[Features, Offsets], Scores]

# Lists of these lengths together run every compiled loop that a tree model has.
_WARM_SIZES = (1, 100, 600)

ALONE = threading.RLock()
"""Held around parallel loops of Numba: not all its threading layers let two threads start them."""


def scorer_of(ranker: Ranker) -> Scorer:
    """A function of features and offsets that any thread may call."""
    ensemble = ensemble_of(ranker)
    if ensemble is not None:
        trees = (
            ensemble  # a document's score depends on nothing else: no lists, no lock, one thread
        )
        return lambda features, offsets: trees.predict(features, n_threads=1)  # noqa: ARG005

    def predict(features: Features, offsets: Offsets) -> Scores:
        with ALONE:
            return ranker.predict(features, query_ids=list_of_document(offsets))

    return predict


def ensemble_of(ranker: Ranker) -> Ensemble | None:
    """The trees of a ranker that is nothing but trees on features as they are."""
    if ranker.transform_ is not None:
        return None
    if isinstance(ranker, TreeRanker):
        return ranker._ensemble  # what its predict uses; reading the text again would double it
    return ranker.ensemble_ if isinstance(ranker, EnsembleRanker) else None


def warm(score: Scorer, n_features: int) -> None:
    """Run what a first request would otherwise wait for: compiled code, lazy layouts."""
    for n_docs in _WARM_SIZES:
        score(np.zeros((n_docs, n_features), np.float32), np.array([0, n_docs]))


def takes_missing(score: Scorer, n_features: int) -> bool:
    """Whether documents may lack features."""
    try:
        score(np.full((2, n_features), np.nan, np.float32), np.array([0, 2]))
    except DataError:
        return False
    return True
