"""Charts of HTML reports: positions in percent, drawn by the template ``charts.html``.

Rows of dots and bars are HTML; lines are an SVG that stretches, with its text outside. So a chart
fits any width, and text keeps its size on a phone. It needs no script; ``report.js`` adds tooltips.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from plackett.experiments.figures import (
    COLORS,
    BarChart,
    Chart,
    DotChart,
    Line,
    LineChart,
    format_ticks,
    round_ticks,
)

MAX_POINTS = 800
"""Longer lines keep the lowest and the highest point of each of half as many equal ranges."""


class Scale:
    """Positions between two ends, in percent."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def __call__(self, value: float) -> float:
        return round(100 * (value - self.low) / (self.high - self.low), 3)


@dataclass(frozen=True)
class LineView:
    """A line as SVG on a canvas of 1000 by 1000."""

    name: str
    label: str
    kind: str
    """CSS classes."""
    points: str
    band: str
    dots: str


def chart_html(chart: Chart) -> Markup:
    """The HTML of a chart."""
    from plackett.experiments.report.page import template_environment

    macros: Any = template_environment().get_template("charts.html").module
    if isinstance(chart, DotChart):
        scale = Scale(*chart.limits)
        return macros.dots(chart, scale, _ticks(scale, signed=chart.zero), dot_tip)
    if isinstance(chart, BarChart):
        return macros.bars(chart, bar_tip)
    across, up = Scale(*chart.x_limits), Scale(*chart.y_limits)
    lines = [_line_view(chart, line, across, up) for line in chart.lines]
    lines.sort(key=lambda line: "thin" not in line.kind)  # thin lines lie below the others
    x_ticks = _ticks(across, percent=chart.percent)
    return macros.lines(chart, lines, across, up, x_ticks, _ticks(up), summarize(chart))


def _ticks(
    scale: Scale, *, signed: bool = False, percent: bool = False
) -> list[tuple[float, str, bool]]:
    """Position, label, and whether it is 0."""
    ticks = round_ticks(scale.low, scale.high)
    labels = format_ticks(ticks, signed=signed, percent=percent)
    return [(scale(t), label, t == 0) for t, label in zip(ticks, labels, strict=True)]


def line_class(chart: LineChart, name: str) -> str:
    """CSS classes of the color."""
    index = chart.color_of(name)
    return f"c{index % len(COLORS)}" + (" dashed" if index >= len(COLORS) else "")


def _line_view(chart: LineChart, line: Line, across: Scale, up: Scale) -> LineView:
    xs, ys = reduce_points(line.xs, line.ys)
    points = _points(xs, ys, across, up)
    band = ""
    if len(line.low):
        xs = [*line.xs, *reversed(line.xs)]
        band = " ".join(_points(xs, [*line.low, *reversed(line.high)], across, up))
    dots = "" if line.style == "line" else "".join(f"M{p.replace(',', ' ')}h.01" for p in points)
    kind = line_class(chart, line.name) + (" thin" if line.thin else "")
    kind += " unjoined" if line.style == "dots" else ""
    return LineView(line.name, line.label, kind, " ".join(points), band, dots)


def _points(xs: Sequence[float], ys: Sequence[float], across: Scale, up: Scale) -> list[str]:
    return [f"{10 * across(x):.5g},{1000 - 10 * up(y):.6g}" for x, y in zip(xs, ys, strict=True)]


def reduce_points(
    xs: Sequence[float], ys: Sequence[float]
) -> tuple[Sequence[float], Sequence[float]]:
    """A line of at most :data:`MAX_POINTS` points that looks the same.

    Of each of many equal ranges it keeps the lowest and the highest point, and always the ends.
    """
    if len(xs) <= MAX_POINTS:
        return xs, ys
    values = np.asarray(ys)
    kept = {0, len(xs) - 1}
    for places in np.array_split(np.arange(len(xs)), MAX_POINTS // 2 - 1):
        kept |= {int(places[values[places].argmin()]), int(places[values[places].argmax()])}
    chosen = sorted(kept)
    return [xs[i] for i in chosen], [ys[i] for i in chosen]


def dot_tip(chart: DotChart, index: int) -> str:
    """A row in words."""
    row = chart.rows[index]
    sign = "+" if chart.zero else ""
    low, high = row.interval
    points = ", ".join(f"{value:{sign}.4f}" for value in row.points)
    text = f"{row.name}: {points}; 95 % interval {low:{sign}.4f} to {high:{sign}.4f}"
    if chart.zero:
        text += ", significant" if row.significant else ", not significant"
    return f"{text}; {row.note}" if row.note else text


def bar_tip(chart: BarChart, index: int) -> str:
    """A bar in words."""
    bar = chart.bars[index]
    return f"{bar.name}: {bar.text}"


def summarize(chart: LineChart) -> str:
    """The chart for those who cannot see it: first and last value of each line."""
    lines = [line for line in chart.lines if not line.thin]
    values = "; ".join(f"{x.name} from {x.ys[0]:.4f} to {x.ys[-1]:.4f}" for x in lines)
    return f"{chart.title}, over {chart.x_label}. {values}"
