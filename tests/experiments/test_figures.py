"""Figures are whole SVG files, with every mark inside the sheet."""

from __future__ import annotations

import re
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from plackett.experiments import figures as png
from plackett.experiments.compare import compare
from plackett.experiments.figures import Line, as_png, can_draw_png, interval_figure, line_figure
from plackett.experiments.report.write import write_files
from plackett.experiments.robustness import Augmentation, curve_figures, robustness
from small_systems import FeatureRanker, small_data

_SVG = "{http://www.w3.org/2000/svg}"


def _points(figure: str) -> np.ndarray:
    root = ElementTree.fromstring(figure)
    text = " ".join(e.get("points") or "" for e in root.iter() if "points" in e.attrib)
    return np.array([pair.split(",") for pair in text.split()], dtype=float)


def test_intervals_have_a_dot_per_row_and_hollow_ones_are_unsure() -> None:
    rows = [("a<b>", 0.1, 0.05, 0.15, True), ("c", -0.02, -0.1, 0.06, False)]
    root = ElementTree.fromstring(interval_figure(rows, title="t & t", unit="u"))
    dots = root.findall(f"{_SVG}circle")
    assert [dot.get("fill") for dot in dots] == [dots[0].get("stroke"), "#ffffff"]
    assert float(dots[0].get("cx") or 0) > float(dots[1].get("cx") or 0)
    assert "a<b>" in [e.text for e in root.findall(f"{_SVG}text")]


def test_lines_and_bands_stay_on_the_sheet() -> None:
    xs = (0.0, 0.5, 1.0)
    lines = {
        "a": Line(xs, (0.5, 0.4, 0.1), (0.4, 0.3, 0.0), (0.6, 0.5, 0.2)),
        "b": Line(xs, (0.5, 0.5, 0.5)),
    }
    figure = line_figure(lines, title="t", x_label="x", zero=True)
    points = _points(figure)
    assert len(points) == 6 + 3 + 3
    width, height = map(float, re.findall(r'viewBox="0 0 (\d+) (\d+)"', figure)[0])
    assert points.min() >= 0
    assert points[:, 0].max() <= width
    assert points[:, 1].max() <= height
    # Higher values stand higher on the sheet, whose rows count downwards.
    assert points[6, 1] < points[8, 1]


def test_curves_under_noise_and_their_differences_agree_in_colour() -> None:
    systems = {"a": FeatureRanker(feature=3), "b": FeatureRanker(feature=0)}
    found = robustness(
        small_data(), systems, corruption=Augmentation(), levels=(0, 1), protocol="splits:3"
    )
    figures = curve_figures(found)
    curves, differences = (
        re.findall(r'<polyline[^>]*stroke="(#\w+)"', figures[name])
        for name in ("curves", "differences")
    )
    assert len(set(curves)) == 2
    assert differences == curves[1:]


def test_a_comparison_writes_values_of_single_lists_and_figures(tmp_path) -> None:
    systems = {"a": FeatureRanker(feature=3), "b": FeatureRanker(feature=0)}
    found = compare(small_data(), systems, protocol="folds:3", metrics="ndcg@5,map")
    files = write_files(found, tmp_path, png=False)
    assert [path.name for path in files.figures] == ["differences.svg"]
    ElementTree.fromstring(files.figures[0].read_text())
    lines = [line.split("\t") for line in files.per_list.read_text().splitlines()]
    assert lines[0] == ["trial", "query_id", "metric", "a", "b"]
    own = [float(line[3]) for line in lines[1:] if line[2] == "map" and line[3]]
    values = found.gathered.values["a"]["map"]
    assert own == pytest.approx(values[np.isfinite(values)].tolist())
    assert len(lines) == 1 + 2 * small_data().n_lists


def test_a_png_shows_what_the_svg_does_at_twice_its_size() -> None:
    pytest.importorskip("resvg_py")
    if not can_draw_png():
        pytest.skip("there is no font here (Debian's package: fonts-dejavu-core)")
    lines = {"a": Line((1, 2, 3), (0.1, 0.3, 0.2))}
    figure = line_figure(lines, title="title", x_label="x")
    drawn = as_png(figure)
    assert drawn[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(drawn[at : at + 4], "big") for at in (16, 20))
    assert f'width="{width // 2}" height="{height // 2}"' in figure
    assert as_png(line_figure(lines, title="", x_label="x")) != drawn  # text is drawn, too


def test_png_figures_stand_beside_svg_ones(tmp_path) -> None:
    if not can_draw_png():
        pytest.skip("PNG figures need the extra figures and a font")
    systems = {"a": FeatureRanker(feature=3), "b": FeatureRanker(feature=0)}
    found = compare(small_data(), systems, metrics="ndcg@5")
    files = write_files(found, tmp_path)
    assert [path.name for path in files.figures] == ["differences.svg", "differences.png"]
    assert all(path.is_file() for path in files.figures)


def test_a_missing_rasteriser_names_the_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    png._draws_text.cache_clear()
    try:
        assert not can_draw_png()
        with pytest.raises(ImportError, match=r"plackett\[figures\]"):
            as_png("<svg/>")
    finally:
        png._draws_text.cache_clear()
