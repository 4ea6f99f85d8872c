"""Whether there is anything to learn in a training set."""

from __future__ import annotations

import numpy as np

from plackett.base.errors import DataError
from plackett.data.dataset import Dataset
from plackett.objectives import CONDITIONAL, SVMMAP, Objective, Stochastic


def check_learnable(data: Dataset, objective: Objective | None = None) -> None:
    """Refuse data in which the objective tells no two documents of any list apart."""
    inner = objective.objective if isinstance(objective, Stochastic) else objective
    binary = isinstance(inner, (*CONDITIONAL, SVMMAP))
    levels = (data.labels > 0).astype(np.float32) if binary else data.labels
    starts = data.offsets[:-1][np.diff(data.offsets) > 0]
    if len(starts) and np.any(
        np.maximum.reduceat(levels, starts) > np.minimum.reduceat(levels, starts)
    ):
        return
    if inner is not None and binary and np.any(data.labels > 0):
        raise DataError(
            f"{inner.name} takes labels above 0 as relevant, and every list here is all relevant "
            "or all not; subtract from the labels so that 0 means not relevant."
        )
    raise DataError("no list has two levels of labels; there is nothing to learn from.")
