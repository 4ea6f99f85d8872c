"""Where searches begin: objectives that are not convex have more than one valley.

======================  =========================================================================
start                   weights
======================  =========================================================================
``zero``                all zero
``path``                the best ones found with the next smaller C, where there is one
``mle``                 the minimum of the pairwise logistic loss (convex), with the same C
``convexloss``          the minimum of ConvexLoss (convex) for the same gain, with the same C
``random``              normal with deviation 0.1, other ones for each time it is named
======================  =========================================================================
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from plackett.base.errors import UsageError
from plackett.models.linear.products import Weights
from plackett.objectives import Objective, objective

STARTS = ("zero", "path", "mle", "convexloss", "random")
_CONVEX = ("path",)
_CONDITIONAL = ("zero", "path", "mle", "convexloss", "random")
_OTHERS = ("zero", "path", "mle", "random")
_DEVIATION = 0.1


def starts_of(loss: Objective, given: tuple[str, ...] | None) -> tuple[str, ...]:
    """The starts asked for, or those the objective needs."""
    if given is not None:
        for name in given:
            if name not in STARTS:
                raise UsageError(f"there is no start {name!r}; there are {', '.join(STARTS)}.")
        if not given:
            raise UsageError(f"starts must name at least one of {', '.join(STARTS)}.")
        return tuple(given)
    if loss.convex or not loss.exact:
        return _CONVEX
    return _CONDITIONAL if _gain(loss) else _OTHERS


def helper_of(start: str, loss: Objective) -> Objective | None:
    """The convex objective whose minimum is the start; None if it needs none."""
    if start == "mle":
        return objective("mle")
    if start != "convexloss":
        return None
    helper = objective(f"convexloss-{_gain(loss) or 'ndcg'}")
    if not _gain(loss):
        return helper
    # The same sampled rankings: with the same settings both draw the same ones.
    shared = {f.name: getattr(loss, f.name) for f in fields(loss)}  # type: ignore[arg-type]
    return objective(helper.name, **shared)


def random_start(n_features: int, *, seed: int, number: int) -> Weights:
    """Random weights; the number tells several of them apart."""
    rng = np.random.default_rng([seed, number])
    return np.asarray(rng.normal(0.0, _DEVIATION, n_features))


def _gain(loss: Objective) -> str | None:
    """The gain of a conditional model by its name (``expgain-map``: map); None for others."""
    family, _, gain = loss.name.partition("-")
    return gain if family in ("expgain", "l2", "l3", "convexloss") else None
