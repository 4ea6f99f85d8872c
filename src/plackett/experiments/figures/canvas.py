"""What every figure is drawn on: a white sheet with its own styles, in units of one pixel."""

from __future__ import annotations

from html import escape

WIDTH = 640
FONT = 13
COLOURS = ("#1f6f8b", "#c7782b", "#5b7f2b", "#8d5a97", "#b3402a", "#4b5d6e")
INK, SOFT, GRID = "#1c2530", "#5b6875", "#d9dfe5"

_FAMILY = "system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"


def svg(body: str, *, height: float, title: str) -> str:
    """A whole SVG file."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" height="{height:.0f}" font-family="{_FAMILY}" font-size="{FONT}" '
        f'fill="{INK}"><title>{escape(title)}</title>'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{body}</svg>\n'
    )


def text(
    x: float, y: float, words: str, *, anchor: str = "start", fill: str = INK, size: int = FONT
) -> str:
    """Words at a place."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}">'
        f"{escape(words)}</text>"
    )


def line(x1: float, y1: float, x2: float, y2: float, *, stroke: str, width: float = 1) -> str:
    """A straight line."""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" '
        f'stroke-width="{width:g}" stroke-linecap="round"/>'
    )
