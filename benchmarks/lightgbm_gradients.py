"""LightGBM's own C++ gradients, alone.

LightGBM has no call for gradients only, so we time ``Booster.update`` on a data set without a
usable feature: each update computes gradient and curvature of every document at the current
scores, finds nothing to split, and leaves scores and model as they were. The scores are therefore
those given as ``init_score`` in every round, as on our side. What is left beside the gradients is
measured by the same update with the objective ``regression``, whose gradient is one subtraction
per document; callers take it off.

That both sides compute the same numbers is tested in ``tests/objectives/test_lambdarank.py``, where
a tree with one document per leaf brings LightGBM's gradients to light.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np

from web_lists import WebLists

ALL_PAIRS = 10_000  # as a truncation level: LightGBM takes no longer lists
QUIET = {"verbosity": -1, "feature_pre_filter": False}


def gradients(lists: WebLists, objective: str, threads: int, **settings: Any) -> Callable[[], object]:
    """One evaluation of an objective of LightGBM at the scores of the lists."""
    data = lightgbm.Dataset(
        np.zeros((len(lists.labels), 1), np.float32),
        label=lists.labels,
        group=lists.sizes,
        init_score=lists.scores,
        params=QUIET,
    )
    chosen = {"objective": objective, "metric": "None", "num_threads": threads, **settings}
    booster = lightgbm.Booster({**chosen, **QUIET}, data)
    return lambda: booster.update()


def nothing(lists: WebLists, threads: int) -> Callable[[], object]:
    """All of an update but the gradients."""
    return gradients(lists, "regression", threads, boost_from_average=False)


def lambdarank(lists: WebLists, threads: int, *, truncation: int | None, normalised: bool) -> Callable[[], object]:
    return gradients(
        lists,
        "lambdarank",
        threads,
        sigmoid=1.0,
        lambdarank_truncation_level=truncation or ALL_PAIRS,
        lambdarank_norm=normalised,
    )


def xendcg(lists: WebLists, threads: int) -> Callable[[], object]:
    return gradients(lists, "rank_xendcg", threads)
