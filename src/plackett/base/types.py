"""Names for the arrays that pass between the layers."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Features: TypeAlias = NDArray[np.float32]
"""One row per document, one column per feature; C-contiguous."""

Labels: TypeAlias = NDArray[np.float32]
"""One non-negative real number per document."""

Scores: TypeAlias = NDArray[np.float64]
"""One real number per document; higher is better."""

Offsets: TypeAlias = NDArray[np.int64]
"""List q holds the documents offsets[q] to offsets[q + 1]; n_lists + 1 values from 0 to n_docs."""

Keys: TypeAlias = NDArray[np.uint64]
"""One hash of its contents per list."""

Values: TypeAlias = NDArray[np.float64]
"""One number per list."""

Ids: TypeAlias = NDArray[Any]
"""Integers or strings that name queries or documents."""

Rows: TypeAlias = NDArray[np.int64]
"""Positions in what the caller gave."""
