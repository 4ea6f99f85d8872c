"""Rules of ties: what puts documents with equal scores in order.

=============== ==================================================================================
``stable``      the order in which the documents come
``expected``    none: metrics give the exact expectation over all orders of tied documents
``pessimistic`` the lower label first
``optimistic``  the higher label first
``random``      a random order: a function of the seed, the list's key and the document's place
``docid``       falling order of document ids as text, as trec_eval
=============== ==================================================================================
"""

from __future__ import annotations

import numpy as np
from numba import float64, prange, types, uint64, void
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.kernels import parallel_function, readonly
from plackett.base.random import combine, mix, unit
from plackett.metrics.definition import RANKS
from plackett.metrics.inputs import Lists


def second_key(ties: str, seed: int, lists: Lists) -> NDArray[np.float64]:
    """Give each document a number by which ties fall, larger first; or no number to any."""
    if ties == "pessimistic":
        return -lists.labels.astype(np.float64)
    if ties == "optimistic":
        return lists.labels.astype(np.float64)
    if ties == "docid":
        return _place_of_ids(lists)
    if ties == "random":
        n_lists = len(lists.offsets) - 1
        keys = np.arange(n_lists, dtype=np.uint64) if lists.keys is None else lists.keys
        lots = np.empty(len(lists.labels))
        draw_lots.compiled(np.uint64(seed), keys, lists.offsets, lots)
        return lots
    return np.empty(0)


def _place_of_ids(lists: Lists) -> NDArray[np.float64]:
    if lists.document_ids is None:
        raise DataError(
            "ties=docid (also the convention trec_eval) orders tied documents by their ids, but "
            "there are no document ids; give them, or choose ties=stable or ties=expected."
        )
    # Code points of unicode text sort as the bytes of its UTF-8 form, which trec_eval compares.
    return np.unique(lists.document_ids.astype(np.str_), return_inverse=True)[1].astype(np.float64)


@parallel_function(void, uint64, readonly(uint64), RANKS, types.Array(float64, 1, "C"))
def draw_lots(seed, keys, offsets, lots):  # type: ignore[no-untyped-def]
    """Random numbers that are a function of seed, list key and place in the list."""
    for q in prange(len(offsets) - 1):
        state = combine(mix(seed), keys[q])
        for i in range(offsets[q + 1] - offsets[q]):
            lots[offsets[q] + i] = unit(combine(state, uint64(i)))
