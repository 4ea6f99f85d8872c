r"""Whether LightGBM's bins fit in the memory that this process may still have.

LightGBM does not look whether it gets the memory it asks for: under a limit, the process ends with
a signal and no word. What it needs at least is known once the sample is drawn. It then lays out

.. math:: \frac{n\,h_j}{2} \text{ bytes}, \qquad h_j = 1 \text{ for up to 16 bins, 2 for more}

for n documents and each feature j that is dense. So much is asked for here, and given back at once:
where that fails, LightGBM would have failed. Sparse features are left out, and so is all that comes
later, so that nothing is refused that would fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.memory import limits

_HALF_BINS = 16  # LightGBM puts two of them into a byte
_LOOKED_AT = 2000  # values of a feature in the sample
_DENSE = 0.5
"""Two features that both differ from their usual value so often meet in some document, so that
LightGBM can neither bundle them nor leave the usual value out."""
_BINNING = ("max_bin", "max_bins", "max_bin_by_feature", "min_data_in_bin", "forcedbins_filename")
"""Parameters with which features of many values may have few bins."""


def check_room(
    sample: Sequence[NDArray[np.float64]],
    n_sampled: int,
    n_docs: int,
    params: Mapping[str, Any],
) -> None:
    """Refuse bins that this process cannot have the memory for.

    Parameters
    ----------
    sample
        For each feature, its values in the sample that are not zero.
    n_sampled, n_docs
        Documents in the sample, and in all.
    params
        LightGBM's.
    """
    found = limits()
    if not found:
        return
    sizes = least_bytes(sample, n_sampled, n_docs, params)
    needed = sum(sizes)
    # The system may promise memory that a group of processes cannot have.
    if needed <= min(limit.most for limit in found) and _can_be_had(sizes):
        return
    limit = min(found, key=lambda each: each.left)
    raise DataError(
        f"LightGBM needs at least {_gigabytes(needed)} more memory, for the bins of {n_docs:,} "
        f"documents x {len(sample)} features, and cannot have it ({limit.name}: "
        f"{_gigabytes(limit.most)}, of which {_gigabytes(limit.used)} are taken). Raise the limit, "
        'take coarser bins (lightgbm={"max_bin": 15}), or train on a part of the lists.'
    )


def least_bytes(
    sample: Sequence[NDArray[np.float64]],
    n_sampled: int,
    n_docs: int,
    params: Mapping[str, Any],
) -> list[int]:
    """What the bins of each dense feature take at least."""
    coarse = any(name in params for name in _BINNING)
    halves = [_halves(values, n_sampled, coarse=coarse) for values in sample]
    return [n_docs * each // 2 for each in halves if each]


def _halves(values: NDArray[np.float64], n_sampled: int, *, coarse: bool) -> int:
    """Halves of a byte that a document takes for this feature at least."""
    if len(values) <= _DENSE * n_sampled:
        return 0
    looked_at = values[:: 1 + len(values) // _LOOKED_AT]
    _, counts = np.unique(looked_at, return_counts=True)
    if counts.max() >= _DENSE * len(looked_at):
        return 0
    return 2 if len(counts) > _HALF_BINS and not coarse else 1


def _can_be_had(sizes: Sequence[int]) -> bool:
    try:
        held = [np.empty(size, np.uint8) for size in sizes]  # promised, not touched
    except MemoryError:
        return False
    del held
    return True


def _gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.2f} GB"
