"""What LightGBM's training loop calls, and what it throws, in our words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plackett.base.errors import DataError

if TYPE_CHECKING:
    from plackett.models.trees.loop import Loop


@dataclass(eq=False)
class Before:
    """LightGBM calls it before each tree."""

    loop: Loop
    before_iteration = True
    order = 0

    def __call__(self, env: Any) -> None:
        self.loop.begin_step(env.model)


@dataclass(eq=False)
class After:
    """LightGBM calls it after each tree."""

    loop: Loop
    before_iteration = False
    order = 0

    def __call__(self, env: Any) -> None:
        from lightgbm.callback import EarlyStopException

        if not self.loop.end_step(env.model):
            raise EarlyStopException(self.loop.selection.best_step, [])


@contextmanager
def refusals() -> Iterator[None]:
    """Turn LightGBM's errors into ours; most are about labels or features it cannot take."""
    from lightgbm.basic import LightGBMError

    try:
        yield
    except LightGBMError as error:
        if "num_features()) > (0)" in str(error):
            reason = "no feature takes two values often enough to be split; lower min_documents"
            raise DataError(f"there is nothing to learn from: {reason}.") from error
        raise DataError(f"LightGBM refuses the data or a setting: {error}") from error
