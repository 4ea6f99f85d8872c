"""What happens to documents that lack a feature: checked against what a target does."""

from __future__ import annotations

from typing import Literal

from plackett.base.errors import UsageError
from plackett.serving.export.trees import Trees

Missing = Literal["keep", "zero", "never"]
MISSING: tuple[Missing, ...] = ("keep", "zero", "never")


def differs_from_zero(trees: Trees) -> bool:
    """Whether some node sends a missing value elsewhere than zero."""
    return bool((trees.nan_left != trees.zero_left).any())


def check_absent_is_zero(trees: Trees, missing: Missing, target: str) -> None:
    """Refuse trees that treat missing values unlike zeros, for a target that reads them as zeros.

    With ``missing="never"`` the caller states that every document has every feature.
    """
    if missing != "never" and differs_from_zero(trees):
        count = int((trees.nan_left != trees.zero_left).sum())
        raise UsageError(
            f"{target} reads a missing feature as 0, but {count} splits of the model send missing "
            'values elsewhere than zeros. Export with missing="never" if every document has every '
            "feature, or fit the model on features without missing values."
        )
