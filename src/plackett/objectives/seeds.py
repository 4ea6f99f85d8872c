"""The seed of a model carried into its objective."""

from __future__ import annotations

from dataclasses import fields, replace

from plackett.objectives.objective import Objective


def reseeded(objective: Objective, seed: int) -> Objective:
    """The objective with ``seed`` added to its own, so that models of other seeds see other noise.

    An objective that draws nothing is returned as it is.
    """
    if seed == 0 or all(f.name != "seed" for f in fields(objective)):  # type: ignore[arg-type]
        return objective
    return replace(objective, seed=objective.seed + seed)  # type: ignore[type-var]
