"""What a trainer of trees calls at each step: scores in, gradient and curvature out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from numpy.typing import NDArray

from plackett.base.ragged import Scores
from plackett.objectives.lists import Lists

Boosting: TypeAlias = Callable[[Scores, int], tuple[NDArray[Any], NDArray[Any]]]
"""Scores and step to gradient and curvature, float32 or float64."""


def by_newton(lists: Lists) -> Boosting:
    """The derivatives of ``newton``, for objectives without a form of their own for trees."""

    def derivatives(scores: Scores, step: int) -> tuple[NDArray[Any], NDArray[Any]]:
        found = lists.newton(scores, step)
        return found.gradient, found.curvature

    return derivatives
