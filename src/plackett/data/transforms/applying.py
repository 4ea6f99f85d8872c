"""Fitted transforms applied to features of any size: those on disk by blocks of whole lists.

A transform changes a document by its own features or by those of its list, so blocks of whole lists
come out as in one go, to the bit.
"""

from __future__ import annotations

from scipy.sparse import csr_array

from plackett.base.ragged import Features, Offsets, list_blocks
from plackett.data.on_disk import block_rows, empty, is_large, release
from plackett.data.transforms.base import FittedTransform


def applied(
    transform: FittedTransform, features: Features | csr_array, offsets: Offsets
) -> Features | csr_array:
    """The changed features; those of large ones are in a scratch file."""
    if isinstance(features, csr_array) or not is_large(features):
        return transform.apply(features, offsets)
    out = empty(features, features.shape)
    for start, stop in list_blocks(offsets, block_rows(features[0].nbytes)):
        low, high = int(offsets[start]), int(offsets[stop])
        out[low:high] = transform.apply(features[low:high], offsets[start : stop + 1] - low)
        release(features)
        release(out)
    return out
