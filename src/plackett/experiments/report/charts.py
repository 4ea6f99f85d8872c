"""Small charts of HTML and CSS: fluid at any width, no scripts, no network, fit to print.

Rows are text beside a track; marks stand at percentages of the track, so that on a telephone the
track shrinks and the text does not. Curves are an SVG that is stretched, with its text outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

Row = tuple[str, float, float, float, bool]
"""Name, middle, low end, high end, and whether it is significant."""

COLOURS = 6
"""Different ones that report.css has."""


def bars(counts: Mapping[str, int], *, title: str) -> str:
    """Horizontal bars, one per name, with the count and share at the end."""
    total = sum(counts.values()) or 1
    top = max(counts.values(), default=1) or 1
    rows = [
        _row(
            name,
            f"<i class='bar' style='width:{max(72 * count / top, 0.3):.2f}%'></i>"
            f"<span class='note'>{count:,} ({count / total:.1%})</span>",
            kind="flow",
        )
        for name, count in counts.items()
    ]
    return chart("".join(rows), title)


def intervals(rows: Sequence[Row], *, title: str, unit: str) -> str:
    """A dot with a whisker per row around a line at zero."""
    reach = max([abs(v) for _, _, low, high, _ in rows for v in (low, high)] + [1e-6]) * 1.05
    scale = Scale(-reach, reach)
    drawn = []
    for name, middle, low, high, significant in rows:
        kind = "sure" if significant else "unsure"
        marks = (
            f"<i class='line zero' style='left:{scale(0)}'></i>"
            f"<i class='whisker {kind}' style='left:{scale(low)};right:{scale.rest(high)}'></i>"
            f"<i class='dot {kind}' style='left:{scale(middle)}'></i>"
        )
        drawn.append(_row(name, marks))
    return chart("".join(drawn) + _axis(scale, unit, signed=True), title)


def strips(
    series: Mapping[str, tuple[Sequence[float], tuple[float, float]]], *, title: str, unit: str
) -> str:
    """A row of dots per name, one for each trial, over the interval of their mean."""
    everything = [v for dots, ends in series.values() for v in (*dots, *ends)]
    margin = 0.05 * max(max(everything) - min(everything), 1e-6)
    scale = Scale(min(everything) - margin, max(everything) + margin)
    drawn = []
    for name, (dots, (low, high)) in series.items():
        marks = (
            f"<i class='span' style='left:{scale(low)};right:{scale.rest(high)}'></i>"
            + "".join(f"<i class='small dot' style='left:{scale(value)}'></i>" for value in dots)
        )
        drawn.append(_row(name, marks))
    return chart("".join(drawn) + _axis(scale, unit), title)


def shares(rows: Mapping[str, tuple[int, int, int]], *, title: str) -> str:
    """For each name a bar of wins, ties and losses."""
    drawn = []
    for name, counts in rows.items():
        total = sum(counts) or 1
        parts = "".join(
            f"<i class='{kind}' style='width:{100 * count / total:.2f}%'></i>"
            for kind, count in zip(("win", "tie", "loss"), counts, strict=True)
        )
        wins, ties, losses = counts
        note = f"<span class='note'>{wins:,} won · {ties:,} tied · {losses:,} lost</span>"
        drawn.append(_row(name, f"<span class='stack'>{parts}</span>{note}", kind="flow tall"))
    return chart("".join(drawn), title)


def curves(series: Mapping[str, Sequence[float]], *, title: str, x_label: str) -> str:
    """One line per series over 1, 2, 3 ..., its best point in the legend."""
    longest = max(len(values) for values in series.values())
    everything = np.concatenate([np.asarray(values) for values in series.values()])
    # The first steps are steep and tell little; start the axis above them.
    low, high = float(np.quantile(everything, 0.05)), float(everything.max())
    scale = Scale(low, high + 0.04 * max(high - low, 1e-9))
    grid = "".join(
        f"<i class='grid' style='bottom:{scale(tick)}'><span>{tick:.3g}</span></i>"
        for tick in ticks(low, high)
    )
    lines, legend = [], []
    for i, (name, values) in enumerate(series.items()):
        kind, best = f"c{i % COLOURS}", int(np.argmax(values))
        points = " ".join(
            f"{1000 * j / max(longest - 1, 1):.1f},{1000 - 10 * scale.percent(max(v, low)):.1f}"
            for j, v in enumerate(values)
        )
        lines.append(f'<polyline class="{kind}" points="{points}"/>')
        legend.append(f"<li class='{kind}'>{escape(name)}: {values[best]:.4f} at {best + 1}</li>")
    body = (
        f"<div class='plot'>{grid}{stretched(''.join(lines))}</div><div class='ends'><span>1</span>"
        f"<span>{escape(x_label)}</span><span>{longest}</span></div>"
        f"<ul class='legend'>{''.join(legend)}</ul>"
    )
    return chart(body, title)


def stretched(drawing: str) -> str:
    """Lines on a canvas of 1000 by 1000 that takes the size of what is around it."""
    return f'<svg viewBox="0 0 1000 1000" preserveAspectRatio="none">{drawing}</svg>'


class Scale:
    """Numbers between two ends as percentages."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def percent(self, value: float) -> float:
        """Where a number stands."""
        return 100 * (value - self.low) / max(self.high - self.low, 1e-12)

    def __call__(self, value: float) -> str:
        return f"{self.percent(value):.2f}%"

    def rest(self, value: float) -> str:
        """The distance from the other end."""
        return f"{100 - self.percent(value):.2f}%"


def _row(name: str, marks: str, *, kind: str = "") -> str:
    return (
        f"<div class='row'><span class='name'>{escape(name)}</span>"
        f"<span class='track {kind}'>{marks}</span></div>"
    )


def _axis(scale: Scale, unit: str, *, signed: bool = False) -> str:
    labels = "".join(
        f"<span style='left:{scale(tick)}'>{_number(tick, signed=signed)}</span>"
        for tick in ticks(scale.low, scale.high)
    )
    return (
        f"<div class='row axis'><span class='name'></span><span class='track'>{labels}</span></div>"
        f"<div class='row axis'><span class='name'></span><span class='unit'>{escape(unit)}</span>"
        "</div>"
    )


def _number(number: float, *, signed: bool) -> str:
    return "0" if number == 0 else f"{number:+.3g}" if signed else f"{number:.3g}"


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between two ends, about five."""
    rough = max((high - low) / 5, 1e-12)
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * min((1, 2, 5, 10), key=lambda m: abs(m * power - rough))
    first = np.ceil(low / step)
    return [float(k * step) for k in np.arange(first, np.floor(high / step) + 1)]


def chart(body: str, title: str) -> str:
    """A chart with a title for those who cannot see it."""
    return f"<div class='chart' role='figure' aria-label='{escape(title)}'>{body}</div>"
