from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from plackett.base.errors import UsageError
from plackett.data.description import describe
from plackett.data.synthetic import synthetic
from plackett.experiments.report import Report, render
from plackett.experiments.report.comparison import (
    curve_chart,
    difference_chart,
    importance_charts,
    summarize,
    win_chart,
)
from plackett.experiments.results import leaderboard


def _board():
    rng = np.random.default_rng(0)
    base = rng.random(100)
    base[:5] = np.nan
    values = {
        "<base>": {"ndcg@10": base, "map": base},
        "better": {"ndcg@10": base + 0.1, "map": base - 0.1},
        "same": {"ndcg@10": base + rng.normal(size=100) * 1e-3, "map": base},
    }
    return leaderboard(values, baseline="<base>", primary="ndcg@10", seconds={"better": 1.5})


def test_systems_are_ordered_by_the_primary_metric_and_compared_with_the_baseline() -> None:
    board = _board()
    assert board.entries[0].name == "better"
    assert board.n_counted == 95
    better = board.entries[0]
    assert better.comparisons["ndcg@10"].difference == pytest.approx(0.1)
    # Two systems are compared, so Holm's method doubles the smaller p-value.
    assert better.adjusted["ndcg@10"] == pytest.approx(2 * better.comparisons["ndcg@10"].randomization)
    baseline = next(e for e in board.entries if e.name == "<base>")
    assert baseline.comparisons == {}


def test_a_baseline_or_metric_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="baseline 'x' is not among"):
        leaderboard({"a": {"map": np.zeros(3)}}, baseline="x")
    with pytest.raises(UsageError, match="primary metric 'x' is not among"):
        leaderboard({"a": {"map": np.zeros(3)}}, baseline="a", primary="x")


class _Balance(HTMLParser):
    """Checks that every tag that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:  # noqa: ARG002
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag


def test_the_report_is_whole_self_contained_and_escaped() -> None:
    page = render(
        Report(
            title="A & B",
            lead="<script>alert(1)</script>",
            board=_board(),
            description=describe(synthetic("letor", n_lists=30)),
            curves={"better": {"fold 1": [0.1, 0.3, 0.2], "fold 2": [0.2, 0.3]}},
            notes=("one",),
        )
    )
    checker = _Balance()
    checker.feed(page)
    assert checker.open == []
    assert page.count("<script>") == page.count("</script>") == 1  # ours
    assert "<script>alert" not in page
    assert "&lt;base&gt;" in page
    assert not re.search(r"src=|href=[\"'](?!#)", page)
    assert not re.search(r"(left|right|bottom|width):-?nan", page)
    assert len(re.findall(r'<polyline class="c0[^"]*" points="[-\d., ]+"', page)) == 3


def test_the_main_result_is_said_in_a_sentence() -> None:
    board = _board()
    text = summarize(board)
    assert text.startswith("better is best by ndcg@10")
    assert "+0.1000 from the baseline <base>" in text
    assert "significantly different (p <0.0001)" in text


@pytest.mark.parametrize("primary", ["ndcg@10", "map"])
def test_differences_open_at_the_primary_metric(primary) -> None:
    base = np.random.default_rng(0).random(20)
    values = {name: {"ndcg@10": base + step, "map": base} for name, step in (("a", 0.0), ("b", 0.1))}
    board = leaderboard(values, baseline="a", primary=primary)
    page = render(Report("title", "lead", board, describe(synthetic("letor", n_lists=5))))
    assert re.findall(r'data-tab="([^"]+)" data-shown', page) == [primary]


def test_every_metric_has_its_differences_and_its_wins_and_losses() -> None:
    board = _board()
    wins = {bar.name: tuple(bar.parts) for bar in win_chart(board, "map").bars}
    assert wins["better"] == (0, 0, 95)
    assert wins["same"] == (0, 95, 0)
    (row, _) = difference_chart(board, "map").rows
    assert row.points == [pytest.approx(-0.1)] or row.points == [pytest.approx(0.0)]


def test_learning_curves_show_every_trial_from_the_first_step_and_their_mean() -> None:
    chart = curve_chart({"a": {"fold 1": [0.1, 0.5, 0.6], "fold 2": [0.3, 0.4]}}, "ndcg@5")
    assert [(line.label, list(line.xs)) for line in chart.lines] == [
        ("fold 1", [1, 2, 3]),
        ("fold 2", [1, 2]),
        ("mean of trials", [1, 2]),
    ]
    assert chart.lines[2].ys == pytest.approx([0.2, 0.45])
    assert [line.thin for line in chart.lines] == [True, True, False]
    assert chart.notes["a"] == ": best 0.5000 at 2 to 3"


def test_importances_are_means_over_trials_the_largest_first() -> None:
    shares = np.array([[0.1, 0.9, 0.0], [0.3, 0.7, 0.0]])
    chart = importance_charts({"a": shares}, ["x", "y", "z"])["a"]
    assert [(bar.name, bar.text) for bar in chart.bars] == [
        ("y", "80.0% (70.0% to 90.0%)"),
        ("x", "20.0% (10.0% to 30.0%)"),
    ]
