"""Rows of tables and numbers, as the page of neural results writes them."""

from __future__ import annotations

from collections.abc import Iterable


def short(numbers: Iterable[float]) -> str:
    """Values below 1 one after the other: .573/.512/.482/.458."""
    return "/".join(f"{x:.3f}".lstrip("0") for x in numbers)


def row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |\n"
