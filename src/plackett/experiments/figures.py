"""Figures for papers and slides: SVG files that stand alone, and the same as PNG.

What every figure is drawn on: a white sheet with its own styles, in units of one pixel.

Small charts of HTML and CSS: fluid at any width, no scripts, no network, fit to print.

Rows are text beside a track; marks stand at percentages of the track, so that on a telephone the
track shrinks and the text does not. Curves are an SVG that is stretched, with its text outside.

Differences from a baseline, a dot with a whisker each.

Curves, with bands around them where there are intervals.

Figures as PNG: the same SVG, rasterised by resvg, so that both forms show the same.

Curves with intervals over a few levels, as stretched SVG with its text outside.

Lines and points as standalone SVG files, for the diagnostics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from plackett.base.errors import PlackettError
from plackett.base.files import atomic_file
from plackett.base.optional import require

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


Row = tuple[str, float, float, float, bool]
"""Name, middle, low end, high end, and whether it is significant."""

CHART_COLOURS = 6
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
        kind, best = f"c{i % CHART_COLOURS}", int(np.argmax(values))
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


_INTERVALS_LEFT, _INTERVALS_RIGHT, _INTERVALS_TOP, _ROW = 190, 30, 40, 28
_UNSURE = "#8a96a3"


def interval_figure(rows: Sequence[Row], *, title: str, unit: str) -> str:
    """An SVG file of the rows around a line at zero; hollow dots are not significant."""
    reach = max([abs(v) for _, _, low, high, _ in rows for v in (low, high)] + [1e-6]) * 1.05
    scale = Scale(-reach, reach)
    bottom = _INTERVALS_TOP + _ROW * len(rows)

    def x(value: float) -> float:
        return (
            _INTERVALS_LEFT
            + (WIDTH - _INTERVALS_LEFT - _INTERVALS_RIGHT) * scale.percent(value) / 100
        )

    parts = [text(20, 24, title), line(x(0), _INTERVALS_TOP, x(0), bottom, stroke=INK)]
    for i, (name, middle, low, high, significant) in enumerate(rows):
        y = _INTERVALS_TOP + _ROW * (i + 0.5)
        colour = COLOURS[0] if significant else _UNSURE
        fill = colour if significant else "#ffffff"
        parts += [
            text(_INTERVALS_LEFT - 12, y + 4, name, anchor="end"),
            line(x(low), y, x(high), y, stroke=colour, width=3),
            f'<circle cx="{x(middle):.1f}" cy="{y:.1f}" r="5" fill="{fill}" stroke="{colour}" '
            'stroke-width="2"/>',
        ]
    for tick in ticks(-reach, reach):
        label = f"{tick:+.3g}" if tick else "0"
        parts.append(text(x(tick), bottom + 18, label, anchor="middle", fill=SOFT))
    parts.append(text(x(0), bottom + 38, unit, anchor="middle", fill=SOFT))
    return svg("".join(parts), height=bottom + 50, title=title)


_LINES_LEFT, _LINES_RIGHT, _LINES_TOP, _LINES_HEIGHT = 70, 30, 40, 260


@dataclass(frozen=True)
class Line:
    """A curve; ``low`` and ``high`` are the ends of its interval at each place, if it has any."""

    xs: Sequence[float]
    ys: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def line_figure(
    lines: Mapping[str, Line],
    *,
    title: str,
    x_label: str,
    zero: bool = False,
    order: Sequence[str] | None = None,
) -> str:
    """An SVG file of curves by name.

    Parameters
    ----------
    lines
        The curves.
    title, x_label
        For the reader.
    zero
        Take 0 into the axis and mark it.
    order
        Names that have a colour each, so that figures of some of them agree.
    """
    places = _Places(lines, zero)
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(order or lines)}
    parts = [text(20, 24, title), places.grid(zero)]
    parts += [places.drawn(each, colours[name]) for name, each in lines.items()]
    bottom = _LINES_TOP + _LINES_HEIGHT
    for tick in ticks(places.along.low, places.along.high):
        parts.append(text(places.x(tick), bottom + 18, f"{tick:.3g}", anchor="middle", fill=SOFT))
    parts.append(
        text((_LINES_LEFT + WIDTH - _LINES_RIGHT) / 2, bottom + 38, x_label, anchor="middle")
    )
    for i, name in enumerate(lines):
        x, y = _LINES_LEFT + 280 * (i % 2), bottom + 62 + 20 * (i // 2)
        parts.append(line(x, y - 4, x + 18, y - 4, stroke=colours[name], width=3))
        parts.append(text(x + 26, y, name))
    return svg("".join(parts), height=bottom + 62 + 20 * ((len(lines) + 1) // 2), title=title)


class _Places:
    """Where values stand on the sheet."""

    def __init__(self, lines: Mapping[str, Line], zero: bool) -> None:
        xs = [x for each in lines.values() for x in each.xs]
        ys = [y for each in lines.values() for y in (*each.ys, *each.low, *each.high)]
        ys += [0.0] if zero else []
        margin = 0.05 * max(max(ys) - min(ys), 1e-6)
        self.along = Scale(min(xs), max(xs))
        self.up = Scale(min(ys) - margin, max(ys) + margin)

    def x(self, value: float) -> float:
        return _LINES_LEFT + (WIDTH - _LINES_LEFT - _LINES_RIGHT) * self.along.percent(value) / 100

    def y(self, value: float) -> float:
        return _LINES_TOP + _LINES_HEIGHT * (1 - self.up.percent(value) / 100)

    def grid(self, zero: bool) -> str:
        parts = []
        for tick in ticks(self.up.low, self.up.high):
            stroke = INK if zero and tick == 0 else GRID
            y = self.y(tick)
            parts.append(line(_LINES_LEFT, y, WIDTH - _LINES_RIGHT, y, stroke=stroke))
            parts.append(text(_LINES_LEFT - 10, y + 4, f"{tick:.3g}", anchor="end", fill=SOFT))
        return "".join(parts)

    def drawn(self, given: Line, colour: str) -> str:
        band = ""
        if given.low:
            ends = [
                *zip(given.xs, given.low, strict=True),
                *reversed(list(zip(given.xs, given.high, strict=True))),
            ]
            band = f'<polygon points="{self._points(ends)}" fill="{colour}" opacity="0.18"/>'
        middle = self._points(list(zip(given.xs, given.ys, strict=True)))
        return f'{band}<polyline points="{middle}" fill="none" stroke="{colour}" stroke-width="2"/>'

    def _points(self, places: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in places)


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
    return _draw_png(svg, zoom)


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
    return _draw_png(words, 1.0) != _draw_png(words, 1.0, fonts=False)


def _draw_png(svg: str, zoom: float, *, fonts: bool = True) -> bytes:
    require("resvg_py")
    from resvg_py import svg_to_bytes

    return bytes(svg_to_bytes(svg_string=svg, zoom=zoom, skip_system_fonts=not fonts))


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
    colours = {name: f"c{i % CHART_COLOURS}" for i, name in enumerate(order or series)}
    drawn = "".join(_draw_band(b, levels, along, up, colours[name]) for name, b in series.items())
    legend = "".join(f"<li class='{colours[name]}'>{escape(name)}</li>" for name in series)
    body = (
        f"<div class='plot'>{grid}{stretched(drawn)}</div><div class='ends'>"
        f"<span>{levels[0]:.0%}</span><span>{escape(x_label)}</span><span>{levels[-1]:.0%}</span>"
        f"</div><ul class='legend'>{legend}</ul>"
    )
    return chart(body, title)


def _draw_band(band: Band, levels: Sequence[float], along: Scale, up: Scale, kind: str) -> str:
    places = list(zip(levels, band, strict=True))
    middle = " ".join(_point(along, up, x, point[0]) for x, point in places)
    lows = [_point(along, up, x, point[1]) for x, point in places]
    highs = [_point(along, up, x, point[2]) for x, point in places]
    area = " ".join([*lows, *reversed(highs)])
    return f'<polygon class="{kind}" points="{area}"/><polyline class="{kind}" points="{middle}"/>'


def _point(along: Scale, up: Scale, x: float, y: float) -> str:
    return f"{10 * along.percent(x):.1f},{1000 - 10 * up.percent(y):.1f}"


_WIDTH, _TALL, _SAMPLER_LEFT, _BOTTOM, _SAMPLER_TOP, _SAMPLER_RIGHT = (
    560,
    340,
    70,
    50,
    30,
    150,
)
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
    size = np.array([_WIDTH - _SAMPLER_LEFT - _SAMPLER_RIGHT, _TALL - _SAMPLER_TOP - _BOTTOM])
    parts = [_axes(low, span, title, x, y)]
    for i, (name, points) in enumerate(series.items()):
        colour = _COLOURS[i % len(_COLOURS)]
        places = (points - low) / span * size
        places = np.column_stack([_SAMPLER_LEFT + places[:, 0], _TALL - _BOTTOM - places[:, 1]])
        if lines:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}"/>')
        parts.extend(
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.5" fill="{colour}" fill-opacity="0.7"/>'
            for a, b in places
        )
        place = f'x="{_WIDTH - _SAMPLER_RIGHT + 12}" y="{_SAMPLER_TOP + 16 * (i + 1)}"'
        parts.append(f'<text {place} fill="{colour}">{escape(name)}</text>')
    return _svg("".join(parts), title)


def _axes(low: np.ndarray, span: np.ndarray, title: str, x: str, y: str) -> str:
    right, bottom = _WIDTH - _SAMPLER_RIGHT, _TALL - _BOTTOM
    middle = (_SAMPLER_LEFT + right) / 2
    parts = [
        f'<path d="M{_SAMPLER_LEFT} {_SAMPLER_TOP}V{bottom}H{right}" fill="none" stroke="#888"/>',
        f'<text x="{_SAMPLER_LEFT}" y="18" font-weight="bold">{escape(title)}</text>',
        f'<text x="{middle}" y="{_TALL - 10}" text-anchor="middle">{escape(x)}</text>',
        f'<text x="8" y="{_SAMPLER_TOP - 2}">{escape(y)}</text>',
    ]
    for k in range(_TICKS + 1):
        share = k / _TICKS
        across, up = (
            _SAMPLER_LEFT + share * (right - _SAMPLER_LEFT),
            bottom - share * (bottom - _SAMPLER_TOP),
        )
        parts.append(
            f'<text x="{across:.0f}" y="{bottom + 16}" text-anchor="middle">'
            f"{low[0] + share * span[0]:.3g}</text>"
            f'<text x="{_SAMPLER_LEFT - 6}" y="{up + 4:.0f}" text-anchor="end">'
            f"{low[1] + share * span[1]:.3g}</text>"
        )
    return "".join(parts)


def _svg(body: str, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_TALL}" role="img" '
        f'aria-label="{escape(title)}" font-family="sans-serif" font-size="12">'
        f'<rect width="{_WIDTH}" height="{_TALL}" fill="white"/>{body}</svg>\n'
    )


__all__ = [
    "Line",
    "as_png",
    "can_draw_png",
    "interval_figure",
    "line_figure",
    "write_png",
]
