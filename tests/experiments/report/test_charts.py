"""Charts of HTML reports: all of the data, escaped, and settings as users write them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import plackett as pk
from plackett.experiments.figures import Bar, BarChart, DotChart, Dots, Line, LineChart
from plackett.experiments.report.page import MAX_POINTS, chart_html, format_setting, reduce_points
from plackett.experiments.systems import System


def test_long_lines_keep_their_ends_and_extremes() -> None:
    ys = np.sin(np.arange(5000) / 40).tolist()
    ys[1234] = -7.0
    xs, kept = reduce_points(range(1, 5001), ys)
    assert len(kept) <= MAX_POINTS
    assert (xs[0], xs[-1]) == (1, 5000)
    assert kept[0] == ys[0]
    assert min(kept) == -7.0
    assert max(kept) == max(ys)


def test_a_line_begins_at_its_first_point_and_its_values_can_be_read_back() -> None:
    ys = (0.1, 0.45, 0.5)
    chart = LineChart("t", "trees", [Line("a<b", (1, 2, 3), ys)])
    page = chart_html(chart)
    (points,) = re.findall(r'points="([^"]+)"', page)
    low, high = chart.y_limits
    actual = [high - (high - low) * float(p.split(",")[1]) / 1000 for p in points.split()]
    assert actual == pytest.approx(ys, abs=1e-4)
    assert "a&lt;b" in page
    assert "a<b" not in page


def test_rows_say_their_numbers_in_words() -> None:
    row = Dots("x", [0.1], (0.05, 0.15), note="p 0.01")
    page = chart_html(DotChart("t", "d", [row], zero=True))
    assert "x: +0.1000; 95 % interval +0.0500 to +0.1500, significant; p 0.01" in page
    assert "x: 3 won" in chart_html(BarChart("t", [Bar("x", (3, 0, 0), "3 won")], ("w", "t", "l")))


@pytest.mark.parametrize("name", ["e-lambdamart", "urank", "ranksvm"])
def test_settings_are_shown_without_the_marks_of_the_file_format(name) -> None:
    settings = System(name, pk.recipe(name)).settings(0)
    texts = [format_setting(value) for value in settings.values()]
    assert not any("$" in text for text in texts)
