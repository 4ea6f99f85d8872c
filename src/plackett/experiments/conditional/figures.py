"""Lines and points as standalone SVG files, for the diagnostics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import ArrayLike

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 560, 340, 70, 50, 30, 150
_COLOURS = ("#1f6f8b", "#c8553d", "#588157", "#7b5ea7", "#b08900", "#444444")
_TICKS = 5


def draw_lines(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, title: str, x: str, y: str
) -> str:
    """One line with dots per name: its x values and its y values."""
    return _chart({name: _points(*each) for name, each in series.items()}, title, x, y, lines=True)


def draw_scatter(
    series: Mapping[str, tuple[ArrayLike, ArrayLike]], *, title: str, x: str, y: str
) -> str:
    """A cloud of dots per name."""
    return _chart({name: _points(*each) for name, each in series.items()}, title, x, y, lines=False)


def _points(xs: ArrayLike, ys: ArrayLike) -> np.ndarray:
    return np.column_stack([np.ravel(xs), np.ravel(ys)]).astype(np.float64)


def _chart(series: Mapping[str, np.ndarray], title: str, x: str, y: str, *, lines: bool) -> str:
    everything = np.concatenate(list(series.values()))
    low, high = everything.min(axis=0), everything.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    size = np.array([_WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM])
    parts = [_axes(low, span, title, x, y)]
    for i, (name, points) in enumerate(series.items()):
        colour = _COLOURS[i % len(_COLOURS)]
        places = (points - low) / span * size
        places = np.column_stack([_LEFT + places[:, 0], _HEIGHT - _BOTTOM - places[:, 1]])
        if lines:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}"/>')
        parts.extend(
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.5" fill="{colour}" fill-opacity="0.7"/>'
            for a, b in places
        )
        place = f'x="{_WIDTH - _RIGHT + 12}" y="{_TOP + 16 * (i + 1)}"'
        parts.append(f'<text {place} fill="{colour}">{escape(name)}</text>')
    return _svg("".join(parts), title)


def _axes(low: np.ndarray, span: np.ndarray, title: str, x: str, y: str) -> str:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    middle = (_LEFT + right) / 2
    parts = [
        f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="#888"/>',
        f'<text x="{_LEFT}" y="18" font-weight="bold">{escape(title)}</text>',
        f'<text x="{middle}" y="{_HEIGHT - 10}" text-anchor="middle">{escape(x)}</text>',
        f'<text x="8" y="{_TOP - 2}">{escape(y)}</text>',
    ]
    for k in range(_TICKS + 1):
        share = k / _TICKS
        across, up = _LEFT + share * (right - _LEFT), bottom - share * (bottom - _TOP)
        parts.append(
            f'<text x="{across:.0f}" y="{bottom + 16}" text-anchor="middle">'
            f"{low[0] + share * span[0]:.3g}</text>"
            f'<text x="{_LEFT - 6}" y="{up + 4:.0f}" text-anchor="end">'
            f"{low[1] + share * span[1]:.3g}</text>"
        )
    return "".join(parts)


def _svg(body: str, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(title)}" font-family="sans-serif" font-size="12">'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>{body}</svg>\n'
    )
