"""Charts as data, and the files they are drawn to.

A chart is a plain description: :class:`DotChart`, :class:`LineChart` or :class:`BarChart`. HTML
reports show it with tooltips (:mod:`plackett.experiments.report.page`). :func:`write_figure`
draws the same chart with Matplotlib as SVG, PNG and PDF, for papers and slides.

>>> chart = LineChart("NDCG", "trees", [Line("lambdamart", (1, 2, 3), (0.30, 0.36, 0.38))])
>>> [path.name for path in write_figure(chart, folder / "curves")]  # doctest: +SKIP
['curves.svg', 'curves.png', 'curves.pdf']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from plackett.base.errors import require
from plackett.base.files import atomic_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = ("#1f6f8b", "#c7782b", "#5b7f2b", "#8d5a97", "#b3402a", "#4b5d6e")
"""Of lines, in this order; further lines repeat them and are dashed."""
FORMATS = ("svg", "png", "pdf")

_INK, _SOFT, _GRID, _UNSURE = "#1c2530", "#5b6875", "#d9dfe5", "#8a96a3"
_PARTS = ("#1c7c4a", _GRID, "#b3402a")
_WIDTH = 6.4
_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": _INK,
    "axes.axisbelow": True,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.constrained_layout.use": True,
    "figure.titlesize": 10.5,
    "figure.titleweight": "bold",
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "savefig.dpi": 200,
    "xtick.color": _SOFT,
    "ytick.color": _SOFT,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    # Keep text as text, and give equal files for equal charts.
    "svg.fonttype": "none",
    "svg.hashsalt": "plackett",
    "pdf.fonttype": 42,
}


@dataclass(frozen=True)
class Dots:
    """A row of a :class:`DotChart`: one or more points over an interval."""

    name: str
    points: Sequence[float]
    interval: tuple[float, float]
    significant: bool = True  # rows that are not significant are hollow
    note: str = ""  # added to the tooltip


@dataclass(frozen=True)
class DotChart:
    """Points with intervals, a row for each name."""

    title: str
    x_label: str
    rows: Sequence[Dots]
    zero: bool = False  # center the axis on 0 and mark it: the values are differences

    @property
    def limits(self) -> tuple[float, float]:
        """Ends of the axis."""
        values = [v for row in self.rows for v in (*row.points, *row.interval)]
        if self.zero:
            reach = 1.05 * max([abs(v) for v in values] + [1e-6])
            return -reach, reach
        return widen(min(values), max(values))


@dataclass(frozen=True)
class Line:
    """A line of a :class:`LineChart`."""

    name: str  # lines of the same name have the same color and one entry in the legend
    xs: Sequence[float]
    ys: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()  # ends of the interval at each x, if there are intervals
    label: str = ""  # tells lines of the same name apart, such as ``fold 2``
    thin: bool = False  # drawn in the background
    style: Literal["line", "dots", "both"] = "line"


@dataclass(frozen=True)
class LineChart:
    """Lines over a common x axis, with bands where there are intervals."""

    title: str
    x_label: str
    lines: Sequence[Line]
    y_label: str = ""
    zero: bool = False  # include 0 in the y axis and mark it
    order: Sequence[str] = ()
    """Names in the order of their colors, so that several charts agree; by default in order of appearance."""
    percent: bool = False  # whether x values are shares to be shown in percent
    notes: dict[str, str] = field(default_factory=dict)  # text in the legend after a name

    @property
    def names(self) -> list[str]:
        """Each name once."""
        return list(dict.fromkeys(line.name for line in self.lines))

    @property
    def has_legend(self) -> bool:
        """Whether a legend is needed because the title does not say the names."""
        return len(self.names) > 1 or bool(self.notes or self.order)

    def color_of(self, name: str) -> int:
        """Position of the name's color; those from ``len(COLORS)`` on are dashed."""
        return list(self.order or self.names).index(name)

    @property
    def x_limits(self) -> tuple[float, float]:
        """Ends of the x axis: those of the data."""
        xs = [x for line in self.lines for x in (min(line.xs), max(line.xs))]
        low, high = min(xs), max(xs)
        return (low, high) if high > low else widen(low, high)

    @property
    def y_limits(self) -> tuple[float, float]:
        """Ends of the y axis, with room around all of the data."""
        ys = np.concatenate([np.r_[line.ys, line.low, line.high] for line in self.lines])
        extra = [0.0] if self.zero else []
        return widen(float(np.min([*ys, *extra])), float(np.max([*ys, *extra])))


@dataclass(frozen=True)
class Bar:
    """A row of a :class:`BarChart`; its parts are stacked."""

    name: str
    parts: Sequence[float]
    text: str  # shown next to the bar


@dataclass(frozen=True)
class BarChart:
    """Horizontal bars."""

    title: str
    bars: Sequence[Bar]
    kinds: Sequence[str] = ("",)  # names of the parts; three stand for better, equal and worse

    @property
    def stacked(self) -> bool:
        """Whether bars have several parts; then each takes the whole width."""
        return len(self.kinds) > 1

    def widths(self, bar: Bar) -> list[float]:
        """Shares of the width that the parts take."""
        total = sum(bar.parts) if self.stacked else max(sum(b.parts) for b in self.bars)
        return [part / (total or 1.0) for part in bar.parts]


Chart = DotChart | LineChart | BarChart


def widen(low: float, high: float) -> tuple[float, float]:
    """An interval with 5 % of room on both sides."""
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1e-3
    return low - margin, high + margin


def round_ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Round numbers between two ends: multiples of 1, 2 or 5 times a power of ten.

    >>> round_ticks(0.37, 0.52)
    [0.4, 0.45, 0.5]
    """
    power = 10.0 ** np.floor(np.log10(max(high - low, 1e-12) / most))
    step = next(m * power for m in (1, 2, 5, 10) if (high - low) / (m * power) < most)
    first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
    return [float(round(k * step, 12)) + 0.0 for k in np.arange(first, last + 1)]  # no -0.0


def format_ticks(ticks: Sequence[float], *, signed: bool = False, percent: bool = False) -> list[str]:
    """Labels with as many decimals as the step between ticks needs.

    >>> format_ticks([-0.05, 0.0, 0.05], signed=True)
    ['−0.05', '0', '+0.05']
    """
    numbers = [100 * tick for tick in ticks] if percent else list(ticks)
    step = min(np.diff(numbers), default=abs(numbers[0]) if numbers else 1.0) or 1.0
    decimals = max(0, -int(np.floor(np.log10(step) + 1e-9)))
    labels = []
    for number in numbers:
        text = f"{number:{'+' if signed else ''},.{decimals}f}".replace("-", "−")
        labels.append("0" if signed and number == 0 else text)
    return [f"{label} %" for label in labels] if percent else labels


def can_draw() -> bool:
    """Whether Matplotlib is installed (the extra ``figures``)."""
    return find_spec("matplotlib") is not None


def write_figure(chart: Chart, stem: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Draw a chart to files ``stem`` + suffix, in the formats ``svg``, ``png``, ``pdf``; returns their paths."""
    paths = [stem.with_name(f"{stem.name}.{form}") for form in formats]
    if not paths:
        return []  # Matplotlib may be absent
    with style():
        figure = draw(chart)
        for form, path in zip(formats, paths, strict=True):
            # No date in the file: the same chart gives the same bytes.
            metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
            with atomic_file(path) as temporary:
                figure.savefig(temporary, format=form, metadata=metadata)
    return paths


@contextmanager
def style() -> Iterator[None]:
    """Matplotlib in the style of all figures, for as long as the context lasts."""
    require("matplotlib")
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        yield


def draw(chart: Chart) -> Figure:
    """The chart as a Matplotlib figure; call it inside :func:`style`."""
    from matplotlib.figure import Figure

    if isinstance(chart, LineChart):
        figure = Figure(figsize=(_WIDTH, 3.4 + 0.18 * ((len(chart.names) + 1) // 2)))
        _draw_lines(chart, figure.add_subplot())
        if chart.has_legend:
            figure.legend(loc="outside lower left", ncols=2)
    else:
        rows = len(chart.rows) if isinstance(chart, DotChart) else len(chart.bars)
        figure = Figure(figsize=(_WIDTH, 0.9 + 0.28 * rows + 0.2 * isinstance(chart, DotChart)))
        axes = figure.add_subplot()
        _draw_dots(chart, axes) if isinstance(chart, DotChart) else _draw_bars(chart, axes)
    figure.suptitle(chart.title, x=0.01, ha="left")
    return figure


def _draw_dots(chart: DotChart, axes: Axes) -> None:
    low, high = chart.limits
    if chart.zero:
        axes.axvline(0, color=_INK, linewidth=0.8)
    for y, row in enumerate(chart.rows):
        color = COLORS[0] if row.significant else _UNSURE
        single = len(row.points) == 1
        axes.hlines(y, *row.interval, color=color if single else _GRID, linewidth=2 if single else 9, zorder=1)
        face = color if row.significant else "white"
        axes.scatter(
            row.points,
            [y] * len(row.points),
            s=36 if single else 18,
            facecolor=face,
            edgecolor=color,
            linewidth=1.5,
            alpha=1 if single else 0.7,
            zorder=2,
        )
    ticks = round_ticks(low, high)
    axes.set_xticks(ticks, format_ticks(ticks, signed=chart.zero))
    axes.set_xlim(low, high)
    axes.set_xlabel(chart.x_label)
    _name_rows(axes, [row.name for row in chart.rows])
    axes.grid(axis="x")


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names, color=_INK)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.spines["left"].set_visible(False)


def _draw_lines(chart: LineChart, axes: Axes) -> None:
    for name, lines in groupby(sorted(chart.lines, key=lambda line: chart.color_of(line.name)),
                               key=lambda line: line.name):  # fmt: skip
        index = chart.color_of(name)
        color = COLORS[index % len(COLORS)]
        label: str | None = f"{name}{chart.notes.get(name, '')}"
        for line in sorted(lines, key=lambda line: line.thin):
            if len(line.low):
                axes.fill_between(line.xs, line.low, line.high, color=color, alpha=0.18, lw=0)
            axes.plot(
                line.xs,
                line.ys,
                color=color,
                label=label,
                linestyle="none" if line.style == "dots" else "-" if index < len(COLORS) else "--",
                marker=None if line.style == "line" else "o",
                markersize=3.5,
                linewidth=0.9 if line.thin else None,
                alpha=0.4 if line.thin else 1,
                zorder=2 if line.thin else 3,
            )
            label = None
    if chart.zero:
        axes.axhline(0, color=_INK, linewidth=0.8)
    xs, ys = round_ticks(*chart.x_limits), round_ticks(*chart.y_limits)
    axes.set_xticks(xs, format_ticks(xs, percent=chart.percent))
    axes.set_yticks(ys, format_ticks(ys))
    margin = 0.01 * (chart.x_limits[1] - chart.x_limits[0])
    axes.set_xlim(chart.x_limits[0] - margin, chart.x_limits[1] + margin)
    axes.set_ylim(*chart.y_limits)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    axes.grid(axis="y")


def _draw_bars(chart: BarChart, axes: Axes) -> None:
    colors = _PARTS if chart.stacked else COLORS
    for y, bar in enumerate(chart.bars):
        left = 0.0
        for color, kind, width in zip(colors, chart.kinds, chart.widths(bar), strict=False):
            axes.barh(y, width, left=left, color=color, height=0.62, label=None if y else kind)
            left += width
        axes.text(left + 0.01, y, bar.text, va="center", color=_SOFT)
    _name_rows(axes, [bar.name for bar in chart.bars])
    axes.set_xlim(0, 1.45 if chart.stacked else 1.2)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
