"""Charts are drawn to files in three formats, with all of their data."""

from __future__ import annotations

import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from plackett.base.errors import MissingLibrary
from plackett.experiments.figures import (
    Bar,
    BarChart,
    DotChart,
    Dots,
    Line,
    LineChart,
    can_draw,
    draw,
    format_ticks,
    round_ticks,
    style,
    write_figure,
)

pytest.importorskip("matplotlib", reason="figures need Matplotlib (extra: figures)")

_DOTS = DotChart(
    "a & b",
    "difference",
    [Dots("a<b>", [0.1], (0.05, 0.15)), Dots("c", [-0.02], (-0.1, 0.06), significant=False)],
    zero=True,
)
_LINES = LineChart(
    "curves",
    "trees",
    [
        Line("a", (0, 1, 2), (0.5, 0.4, 0.1), (0.4, 0.3, 0.0), (0.6, 0.5, 0.2)),
        Line("b", (0, 1), (0.5, 0.5), thin=True),
        Line("b", (0, 1), (0.5, 0.5), style="dots"),
    ],
)
_BARS = BarChart("wins", [Bar("x", (3, 1, 2), "3 won")], ("won", "tied", "lost"))


@pytest.mark.parametrize("chart", [_DOTS, _LINES, _BARS], ids=["dots", "lines", "bars"])
def test_a_chart_becomes_an_svg_a_png_and_a_pdf_and_the_same_chart_the_same_svg(chart, tmp_path) -> None:
    svg, png, pdf = write_figure(chart, tmp_path / "figure")
    root = ElementTree.fromstring(svg.read_text(encoding="utf-8"))
    words = " ".join(element.text or "" for element in root.iter())
    assert chart.title in words  # text stays text
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    (again,) = write_figure(chart, tmp_path / "again", ("svg",))
    assert again.read_bytes() == svg.read_bytes()


def test_curves_begin_at_their_first_point_however_low_it_is() -> None:
    ys = [0.01, *np.linspace(0.4, 0.5, 200)]
    chart = LineChart("t", "trees", [Line("a", range(1, 202), ys)])
    assert chart.y_limits[0] < 0.01
    with style():
        (axes,) = draw(chart).axes
    x, y = axes.lines[0].get_data()
    assert (x[0], y[0], len(y)) == (1, 0.01, 201)
    assert axes.get_ylim()[0] < 0.01


def test_hollow_dots_are_not_significant() -> None:
    with style():
        (axes,) = draw(_DOTS).axes
    faces = [tuple(points.get_facecolor()[0][:3]) for points in axes.collections[1::2]]
    assert faces[0] != (1.0, 1.0, 1.0)
    assert faces[1] == (1.0, 1.0, 1.0)


def test_charts_of_some_systems_agree_in_color() -> None:
    lines = [Line(name, (0, 1), (0, 1)) for name in "bc"]
    some = LineChart("t", "x", lines, order=["a", "b", "c"])
    assert [some.color_of(name) for name in "bc"] == [1, 2]


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0.37, 0.52, ["0.40", "0.45", "0.50"]),
        (1, 120, ["20", "40", "60", "80", "100", "120"]),
        (0.0, 0.0, None),
        (-0.15, 0.15, ["−0.15", "−0.10", "−0.05", "0.00", "0.05", "0.10", "0.15"]),
    ],
)
def test_ticks_are_round_few_and_within_the_axis(low, high, labels) -> None:
    ticks = round_ticks(low, high)
    assert len(ticks) <= 7
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in ticks)
    if labels is not None:
        assert format_ticks(ticks) == labels
    mantissas = {f"{abs(step):.2e}"[0] for step in np.diff(ticks)}
    assert mantissas <= {"1", "2", "5"}


def test_labels_of_ticks_have_signs_and_percents() -> None:
    assert format_ticks([-0.05, 0.0, 0.05], signed=True) == ["−0.05", "0", "+0.05"]
    assert format_ticks([0.0, 0.2, 0.4], percent=True) == ["0 %", "20 %", "40 %"]


def test_a_missing_library_names_the_extra(monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("plackett.experiments.figures.find_spec", lambda _: None)
    assert not can_draw()
    with pytest.raises(ImportError, match="the extra 'figures'"):
        write_figure(_BARS, tmp_path / "figure")


def test_without_formats_matplotlib_is_not_needed(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    chart = LineChart("NDCG", "trees", [Line("lambdamart", (1, 2, 3), (0.30, 0.36, 0.38))])
    assert write_figure(chart, tmp_path / "curves", ()) == []
    with pytest.raises(MissingLibrary, match="figures need Matplotlib"):
        write_figure(chart, tmp_path / "curves", ("svg",))
