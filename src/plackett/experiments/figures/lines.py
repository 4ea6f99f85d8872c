"""Curves, with bands around them where there are intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plackett.experiments.figures.canvas import (
    COLOURS,
    GRID,
    INK,
    SOFT,
    WIDTH,
    line,
    svg,
    text,
)
from plackett.experiments.report.charts import Scale, ticks

_LEFT, _RIGHT, _TOP, _HEIGHT = 70, 30, 40, 260


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
    bottom = _TOP + _HEIGHT
    for tick in ticks(places.along.low, places.along.high):
        parts.append(text(places.x(tick), bottom + 18, f"{tick:.3g}", anchor="middle", fill=SOFT))
    parts.append(text((_LEFT + WIDTH - _RIGHT) / 2, bottom + 38, x_label, anchor="middle"))
    for i, name in enumerate(lines):
        x, y = _LEFT + 280 * (i % 2), bottom + 62 + 20 * (i // 2)
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
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * self.along.percent(value) / 100

    def y(self, value: float) -> float:
        return _TOP + _HEIGHT * (1 - self.up.percent(value) / 100)

    def grid(self, zero: bool) -> str:
        parts = []
        for tick in ticks(self.up.low, self.up.high):
            stroke = INK if zero and tick == 0 else GRID
            y = self.y(tick)
            parts.append(line(_LEFT, y, WIDTH - _RIGHT, y, stroke=stroke))
            parts.append(text(_LEFT - 10, y + 4, f"{tick:.3g}", anchor="end", fill=SOFT))
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
