"""Curves under noise as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from plackett.base.files import atomic_file
from plackett.experiments.figures import Line, line_figure
from plackett.experiments.report.bands import bands
from plackett.experiments.report.page import page
from plackett.experiments.robustness.curves import Point, RobustnessCurves
from plackett.experiments.robustness.tables import level_text


def write_curves(found: RobustnessCurves, path: Path) -> None:
    """Write the curves as a self-contained HTML file."""
    with atomic_file(path) as temporary:
        temporary.write_text(render_curves(found), encoding="utf-8")


def render_curves(found: RobustnessCurves) -> str:
    """The HTML: each system's curve, the differences from the baseline, and the numbers."""
    title = f"{found.metric} under {found.corruption}"
    lead = (
        f"{found.trials} trials at each level; noise in {found.noisy} only. Bands are 95 % "
        "intervals of the means."
    )
    body = f"<h1>{escape(title)}</h1><p class='lead'>{lead}</p>{curve_section(found)}"
    return page(title, body)


def curve_section(found: RobustnessCurves) -> str:
    """The charts and numbers, for a page that shows more than one kind of noise."""
    charts = curve_charts(found)
    sections = [charts["curves"]]
    if found.differences:
        sections.append(f"<h2>{escape(_under(found))}</h2>{charts['differences']}")
    return "".join([*sections, _table(found)])


def curve_charts(found: RobustnessCurves) -> dict[str, str]:
    """HTML of each chart, by the names of :func:`curve_figures`."""
    title = f"{found.metric} under {found.corruption}"
    result = {"curves": _chart(found, found.curves, title, zero=False)}
    if found.differences:
        result["differences"] = _chart(found, found.differences, _under(found), zero=True)
    return result


def _under(found: RobustnessCurves) -> str:
    return f"Difference from {found.baseline}"


def _chart(
    found: RobustnessCurves, series: Mapping[str, Sequence[Point]], title: str, *, zero: bool
) -> str:
    return bands(
        {name: [(p.mean, p.low, p.high) for p in points] for name, points in series.items()},
        levels=found.levels,
        title=title,
        x_label=found.unit,
        zero=zero,
        order=list(found.curves),
    )


def curve_figures(found: RobustnessCurves, *, on: str = "") -> dict[str, str]:
    """SVG files by name: the curves, and the differences from the baseline.

    Parameters
    ----------
    found
        The curves.
    on
        The data, for titles.
    """
    order = list(found.curves)
    head = f"{on}: " if on else ""
    result = {
        "curves": line_figure(
            {name: _line(found.levels, points) for name, points in found.curves.items()},
            title=f"{head}{found.metric} under {found.corruption}",
            x_label=found.unit,
        )
    }
    if found.differences:
        result["differences"] = line_figure(
            {name: _line(found.levels, points) for name, points in found.differences.items()},
            title=f"{head}difference in {found.metric} from {found.baseline}",
            x_label=found.unit,
            zero=True,
            order=order,
        )
    return result


def _line(levels: Sequence[float], points: Sequence[Point]) -> Line:
    return Line(levels, [p.mean for p in points], [p.low for p in points], [p.high for p in points])


def _table(found: RobustnessCurves) -> str:
    head = "".join(f"<th>{level_text(level)}</th>" for level in found.levels)
    rows = []
    for name, points in found.curves.items():
        marks = [
            "" if d.p >= found.alpha else "▲" if d.mean > 0 else "▼"
            for d in found.differences.get(name, ())
        ] or [""] * len(points)
        cells = "".join(
            f"<td>{p.mean:.4f} {mark}<span class='interval'>{p.low:.4f} … {p.high:.4f}</span></td>"
            for p, mark in zip(points, marks, strict=True)
        )
        rows.append(f"<tr><td>{escape(name)}</td>{cells}</tr>")
    return (
        f"<h2>Numbers</h2><div class='scroll'><table class='board'><thead><tr><th>system</th>{head}"
        f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div><p class='small'>▲ better, ▼ "
        f"worse than {escape(found.baseline)}: paired t-test over trials, level {found.alpha:g}, "
        "not corrected for the number of levels.</p>"
    )
