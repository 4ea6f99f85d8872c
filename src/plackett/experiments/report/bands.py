"""Curves with intervals over a few levels, as stretched SVG with its text outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from plackett.experiments.report.charts import COLOURS, Scale, chart, stretched, ticks

Band = Sequence[tuple[float, float, float]]
"""For each level the middle, low and high end."""


def bands(
    series: Mapping[str, Band],
    *,
    levels: Sequence[float],
    title: str,
    x_label: str,
    zero: bool = False,
    order: Sequence[str] | None = None,
) -> str:
    """One line with a band per series.

    Parameters
    ----------
    series
        Bands by name.
    levels
        Where along the axis their points stand.
    title, x_label
        For the reader.
    zero
        Take 0 into the axis and mark it.
    order
        Names that have a colour each, so that charts of some of them agree; by default those of
        the series.
    """
    ends = [v for band in series.values() for point in band for v in point] + (
        [0.0] if zero else []
    )
    margin = 0.05 * max(max(ends) - min(ends), 1e-6)
    up = Scale(min(ends) - margin, max(ends) + margin)
    along = Scale(min(levels), max(levels))
    grid = "".join(
        f"<i class='grid{' strong' if zero and tick == 0 else ''}' style='bottom:{up(tick)}'>"
        f"<span>{tick:.3g}</span></i>"
        for tick in ticks(up.low, up.high)
    )
    colours = {name: f"c{i % COLOURS}" for i, name in enumerate(order or series)}
    drawn = "".join(_drawn(b, levels, along, up, colours[name]) for name, b in series.items())
    legend = "".join(f"<li class='{colours[name]}'>{escape(name)}</li>" for name in series)
    body = (
        f"<div class='plot'>{grid}{stretched(drawn)}</div><div class='ends'>"
        f"<span>{levels[0]:.0%}</span><span>{escape(x_label)}</span><span>{levels[-1]:.0%}</span>"
        f"</div><ul class='legend'>{legend}</ul>"
    )
    return chart(body, title)


def _drawn(band: Band, levels: Sequence[float], along: Scale, up: Scale, kind: str) -> str:
    places = list(zip(levels, band, strict=True))
    middle = " ".join(_point(along, up, x, point[0]) for x, point in places)
    lows = [_point(along, up, x, point[1]) for x, point in places]
    highs = [_point(along, up, x, point[2]) for x, point in places]
    area = " ".join([*lows, *reversed(highs)])
    return f'<polygon class="{kind}" points="{area}"/><polyline class="{kind}" points="{middle}"/>'


def _point(along: Scale, up: Scale, x: float, y: float) -> str:
    return f"{10 * along.percent(x):.1f},{1000 - 10 * up.percent(y):.1f}"
