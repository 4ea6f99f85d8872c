"""What LightGBM makes of features, block by block where they are on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.data.disk_arrays import empty, is_large, release, walk


def predicted(predict: Callable[..., Any], features: Any, **options: Any) -> NDArray[np.float64]:
    """What LightGBM's ``predict`` gives; documents do not see each other, so blocks are the same.

    A result of one row per document, such as contributions, is in a scratch file where the features
    are on disk and it is as large as they are.
    """
    if not is_large(features):
        return _dense(predict(features, **options))
    out: NDArray[np.float64] | None = None
    for rows in walk(features):
        found = _dense(predict(features[rows], **options))
        if out is None:
            out = empty(features, (len(features), *found.shape[1:]), np.float64)
        out[rows] = found
        release(out)
    assert out is not None  # a data set has documents
    return out


def _dense(found: Any) -> NDArray[np.float64]:
    return np.asarray(found if isinstance(found, np.ndarray) else found.toarray(), dtype=np.float64)
