"""Figures as PNG: the same SVG, rasterised by resvg, so that both forms show the same."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from plackett.base.errors import PlackettError
from plackett.base.files import atomic_file

ZOOM = 2.0
"""Pixels for each unit of the drawing: sharp on screens and at the width of a column in print."""
_PROBE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" font-family="sans-serif">'
    "{}</svg>"
)


def as_png(svg: str, *, zoom: float = ZOOM) -> bytes:
    """A figure's PNG file.

    Parameters
    ----------
    svg
        What :func:`~plackett.experiments.figures.line_figure` and others give.
    zoom
        Pixels for each unit of the drawing.
    """
    if not _draws_text():
        raise PlackettError(
            "no font is installed, so a PNG figure would have no text; install one (Debian's "
            "package: fonts-dejavu-core), or take the SVG figure."
        )
    return _drawn(svg, zoom)


def write_png(svg: str, path: Path, *, zoom: float = ZOOM) -> None:
    """Write a figure as a PNG file; parameters as for :func:`as_png`."""
    drawn = as_png(svg, zoom=zoom)
    with atomic_file(path) as temporary:
        temporary.write_bytes(drawn)


def can_draw_png() -> bool:
    """Whether what it takes is installed: resvg (the extra ``figures``) and a font."""
    try:
        return _draws_text()
    except ImportError:
        return False


@cache
def _draws_text() -> bool:
    # Without fonts resvg leaves text out and says nothing.
    words = _PROBE.format('<text x="2" y="30" font-size="24">ab</text>')
    return _drawn(words, 1.0) != _drawn(words, 1.0, fonts=False)


def _drawn(svg: str, zoom: float, *, fonts: bool = True) -> bytes:
    try:
        from resvg_py import svg_to_bytes
    except ImportError as error:
        raise ImportError("PNG figures need resvg: pip install 'plackett[figures]'") from error
    return bytes(svg_to_bytes(svg_string=svg, zoom=zoom, skip_system_fonts=not fonts))
