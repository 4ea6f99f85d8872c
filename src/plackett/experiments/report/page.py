"""HTML pages of experiments: Jinja2 templates in one style, each page a single file.

Templates escape whatever is put into them. A page loads nothing: its style and scripts are inside.

Charts have positions in percent and are drawn by the template ``charts.html``. Rows of dots and
bars are HTML; lines are an SVG that stretches, with its text outside. A chart therefore fits any
width, and text keeps its size on a phone. Charts need no script; ``report.js`` only adds tooltips.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from plackett.base.files import write_text
from plackett.experiments import figures

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def render_page(template: str, **values: Any) -> str:
    """The HTML of a template of this package with these values."""
    return template_environment().get_template(template).render(values)


def write_page(path: Path, template: str, **values: Any) -> None:
    """Write the HTML of a template to a file."""
    write_text(path, render_page(template, **values))


@cache
def template_environment() -> Environment:
    """Jinja2 with our filters; every value is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("plackett.experiments.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    folder = files("plackett.experiments.report").joinpath("templates")
    environment.globals["asset"] = lambda name: Markup(folder.joinpath(name).read_text(encoding="utf-8"))  # our own
    environment.filters |= {
        "chart": chart_html,
        "dot_tip": dot_tip,
        "line_class": line_class,
        "p_value": format_p_value,
        "setting": format_setting,
    }
    return environment


def format_p_value(value: float) -> str:
    """A p-value with two digits.

    >>> format_p_value(0.0312), format_p_value(3e-7)
    ('0.031', '<0.0001')
    """
    return "<0.0001" if value < 1e-4 else f"{value:.2g}"


def format_setting(value: Any) -> str:
    """Format a setting of a model file as a user would write it in Python, without quotes.

    >>> format_setting({"$tuple": [64, 32]}), format_setting({"$tuple": []}), format_setting(None)
    ('(64, 32)', '()', 'None')
    >>> format_setting({"$objective": {"name": "xendcg", "order": 3}})
    'xendcg(order=3)'
    """
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(format_setting, value))}]"
    if not isinstance(value, Mapping):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if set(value) == {"$tuple"}:
        items = [format_setting(item) for item in value["$tuple"]]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if set(value) == {"$pairs"}:
        return format_setting(dict(value["$pairs"]))
    if len(value) == 1 and next(iter(value)).startswith("$"):
        return format_setting(next(iter(value.values())))
    name = next((str(value[key]) for key in _NAMES if key in value), "")
    arguments = {key: item for key, item in value.items() if key not in (*_NAMES, *_DIGESTS)}
    arguments |= arguments.pop("settings", {})
    inner = ", ".join(f"{key}={format_setting(item)}" for key, item in arguments.items())
    return f"{name}({inner})" if name and inner else name or inner or "{}"


_NAMES = ("name", "kind", "custom")  # where objectives, rankers and modules have their names
_DIGESTS = ("code", "sum")

MAX_POINTS = 800  # of longer lines, the lowest and the highest point of each of MAX_POINTS / 2 ranges are kept


class Scale:
    """Positions between two ends, in percent."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def __call__(self, value: float) -> float:
        return round(100 * (value - self.low) / (self.high - self.low), 3)


def chart_html(chart: figures.Chart) -> Markup:
    """The HTML of a chart."""
    macros: Any = template_environment().get_template("charts.html").module
    if isinstance(chart, figures.DotChart):
        scale = Scale(*chart.limits)
        return macros.dots(chart, scale, _ticks(scale, signed=chart.zero))
    if isinstance(chart, figures.BarChart):
        return macros.bars(chart)
    across, up = Scale(*chart.x_limits), Scale(*chart.y_limits)
    lines = [_line_view(chart, line, across, up) for line in chart.lines]
    lines.sort(key=lambda line: "thin" not in line["kind"])  # thin lines lie below the others
    x_ticks = _ticks(across, percent=chart.percent)
    return macros.lines(chart, lines, across, up, x_ticks, _ticks(up), summarize(chart))


def _ticks(scale: Scale, *, signed: bool = False, percent: bool = False) -> list[tuple[float, str, bool]]:
    """Position, label, and whether it is 0."""
    ticks = figures.round_ticks(scale.low, scale.high)
    labels = figures.format_ticks(ticks, signed=signed, percent=percent)
    return [(scale(t), label, t == 0) for t, label in zip(ticks, labels, strict=True)]


def line_class(chart: figures.LineChart, name: str) -> str:
    """CSS classes of the color."""
    index = chart.color_of(name)
    return f"c{index % len(figures.COLORS)}" + (" dashed" if index >= len(figures.COLORS) else "")


def _line_view(chart: figures.LineChart, line: figures.Line, across: Scale, up: Scale) -> dict[str, str]:
    """A line as SVG on a canvas of 1000 by 1000."""
    xs, ys = reduce_points(line.xs, line.ys)
    points = _points(xs, ys, across, up)
    band = ""
    if len(line.low):
        xs = [*line.xs, *reversed(line.xs)]
        band = " ".join(_points(xs, [*line.low, *reversed(line.high)], across, up))
    dots = "" if line.style == "line" else "".join(f"M{p.replace(',', ' ')}h.01" for p in points)
    kind = line_class(chart, line.name) + (" thin" if line.thin else "")
    kind += " unjoined" if line.style == "dots" else ""
    view = {"name": line.name, "label": line.label, "kind": kind}
    return view | {"points": " ".join(points), "band": band, "dots": dots}


def _points(xs: Sequence[float], ys: Sequence[float], across: Scale, up: Scale) -> list[str]:
    return [f"{10 * across(x):.5g},{1000 - 10 * up(y):.6g}" for x, y in zip(xs, ys, strict=True)]


def reduce_points(xs: Sequence[float], ys: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    """A line of at most :data:`MAX_POINTS` points that looks the same.

    It keeps the lowest and the highest point of each of many equal ranges, and always the end points.
    """
    if len(xs) <= MAX_POINTS:
        return xs, ys
    values = np.asarray(ys)
    kept = {0, len(xs) - 1}
    for places in np.array_split(np.arange(len(xs)), MAX_POINTS // 2 - 1):
        kept |= {int(places[values[places].argmin()]), int(places[values[places].argmax()])}
    chosen = sorted(kept)
    return [xs[i] for i in chosen], [ys[i] for i in chosen]


def dot_tip(row: figures.Dots, chart: figures.DotChart) -> str:
    """A row in words."""
    sign = "+" if chart.zero else ""
    low, high = row.interval
    points = ", ".join(f"{value:{sign}.4f}" for value in row.points)
    text = f"{row.name}: {points}; 95 % interval {low:{sign}.4f} to {high:{sign}.4f}"
    if chart.zero:
        text += ", significant" if row.significant else ", not significant"
    return f"{text}; {row.note}" if row.note else text


def summarize(chart: figures.LineChart) -> str:
    """A text for those who cannot see the chart: first and last value of each line."""
    lines = [line for line in chart.lines if not line.thin]
    values = "; ".join(f"{x.name} from {x.ys[0]:.4f} to {x.ys[-1]:.4f}" for x in lines)
    return f"{chart.title}, over {chart.x_label}. {values}"
