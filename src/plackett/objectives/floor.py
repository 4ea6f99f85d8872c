"""A floor under curvature, for objectives whose majoriser may vanish.

Trees divide the sum of gradients in a leaf by the sum of curvatures. Where an objective is not
convex, a document can have a gradient and next to no curvature; a small share of its list's mean
keeps the quotient within bounds.
"""

from __future__ import annotations

from plackett.base.kernels import compiled

SHARE = 1e-6
"""The floor, as a share of the mean curvature of the list."""


@compiled
def raise_to_floor(curvature):  # type: ignore[no-untyped-def]
    """Raise each curvature of a list to 1e-6 of their mean."""
    mean = 0.0
    for h in curvature:
        mean += h / len(curvature)
    for i in range(len(curvature)):
        curvature[i] = max(curvature[i], SHARE * mean)
