"""A chart of times against lengths: one small panel per objective, on common logarithmic axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

COLUMNS = 4
WIDTH, HEIGHT = 150, 92  # of a panel's axes
GAP, HEAD = 24, 42  # between panels, and above each for its title
LEFT, TOP, BOTTOM, RIGHT = 52, 48, 34, 14
X_TICKS = (8, 64, 1024)
STYLE = """
text { font: 11px system-ui, sans-serif; fill: #333 }
.title { font-size: 14px; font-weight: 600 } .name { font-weight: 600 }
.small { font-size: 10px; fill: #666 }
.frame { fill: #fafafa; stroke: #ddd } .grid { stroke: #e6e6e6 }
.claimed { fill: none; stroke: #999; stroke-dasharray: 3 3 }
.measured { fill: none; stroke: #1257a8; stroke-width: 1.8 } .point { fill: #1257a8 }
"""


@dataclass(frozen=True)
class Curve:
    """Times of one objective by length, and what was claimed."""

    name: str
    claim: str
    lengths: list[int]
    microseconds: list[float]
    """Of one list."""
    claimed: list[float]
    """The claimed growth through the last point."""
    slope: float
    claimed_slope: float


@dataclass(frozen=True)
class Axes:
    """Common scales of the panels: logarithms to pixels."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float

    def x(self, length: float) -> float:
        return WIDTH * (math.log(length) - self.low_x) / (self.high_x - self.low_x)

    def y(self, microseconds: float) -> float:
        share = (math.log10(microseconds) - self.low_y) / (self.high_y - self.low_y)
        return HEIGHT * (1.0 - min(max(share, 0.0), 1.0))

    def points(self, lengths: list[int], values: list[float]) -> list[tuple[float, float]]:
        return [(self.x(n), self.y(v)) for n, v in zip(lengths, values, strict=True)]


def chart(curves: list[Curve]) -> str:
    """The whole chart as SVG."""
    axes = _axes(curves)
    rows = math.ceil(len(curves) / COLUMNS)
    width = LEFT + COLUMNS * (WIDTH + GAP) - GAP + RIGHT
    height = TOP + rows * (HEIGHT + HEAD) + BOTTOM
    panels = []
    for i, curve in enumerate(curves):
        x = LEFT + i % COLUMNS * (WIDTH + GAP)
        y = TOP + HEAD + i // COLUMNS * (HEIGHT + HEAD)
        below = i + COLUMNS >= len(curves)
        inside = _panel(curve, axes) + _ticks(axes, left=i % COLUMNS == 0, below=below)
        panels.append(f'<g transform="translate({x},{y})">{inside}</g>')
    title = "Microseconds of one list against its number of documents n; dashed: as claimed"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"<title>{title}</title><style>{STYLE}</style>"
        f'<rect width="{width}" height="{height}" rx="6" fill="white"/>'
        f'<text class="title" x="{LEFT}" y="26">{title}</text>{"".join(panels)}</svg>\n'
    )


def _axes(curves: list[Curve]) -> Axes:
    lengths = [n for curve in curves for n in curve.lengths]
    times = [t for curve in curves for t in curve.microseconds]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    return Axes(math.log(min(lengths)), math.log(max(lengths)), low, high)


def _panel(curve: Curve, axes: Axes) -> str:
    measured = axes.points(curve.lengths, curve.microseconds)
    claimed = axes.points(curve.lengths, curve.claimed)
    dots = "".join(f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="2"/>' for x, y in measured)
    return (
        f'<rect class="frame" width="{WIDTH}" height="{HEIGHT}"/>'
        f'<text class="name" y="-17">{escape(curve.name)}</text>'
        f'<text class="small" y="-5">{escape(curve.claim)}: {curve.claimed_slope:.2f}, '
        f"measured {curve.slope:.2f}</text>"
        f'<polyline class="claimed" points="{_path(claimed)}"/>'
        f'<polyline class="measured" points="{_path(measured)}"/>{dots}'
    )


def _path(points: list[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _ticks(axes: Axes, *, left: bool, below: bool) -> str:
    parts = []
    for power in range(int(axes.low_y), int(axes.high_y) + 1):
        y = axes.y(10.0**power)
        parts.append(f'<line class="grid" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        if left:
            label = f"{10**power:,}" if power >= 0 else f"{10.0**power:g}"
            parts.append(
                f'<text class="small" x="-6" y="{y + 3:.1f}" text-anchor="end">{label}</text>'
            )
    for n in X_TICKS if below else ():
        x = axes.x(n)
        parts.append(
            f'<text class="small" x="{x:.1f}" y="{HEIGHT + 14}" text-anchor="middle">{n:,}</text>'
        )
    return "".join(parts)
