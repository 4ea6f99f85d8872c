"""Words that the post and those who write to it share."""

from __future__ import annotations

from typing import Literal, TypeAlias

How: TypeAlias = Literal["sum", "mean"]
"""How what several workers send becomes one."""
State: TypeAlias = tuple[int, dict[str, bytes]]
"""A number of steps, and the files that describe the work after them."""
