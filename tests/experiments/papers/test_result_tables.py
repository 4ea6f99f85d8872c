"""Numbers of the papers, differences, and tables that show both."""

from __future__ import annotations

import numpy as np
import pytest

from plackett.experiments.papers import PAPERS
from plackett.experiments.papers.paper import Budget
from plackett.experiments.papers.result_tables import A_TABLE_1, D_TABLES, ResultTable, claim_better, judge, number
from plackett.experiments.protocols import Splits
from plackett.experiments.report.page import template_environment
from plackett.experiments.results import ComparisonResults
from plackett.experiments.significance import decide, holm, resampled_t_test, t_test
from plackett.experiments.tables import Row, TextTable


def _results(**values: object) -> ComparisonResults:
    by_metric = {name: {"ndcg@5": np.asarray(ours, float)} for name, ours in values.items()}
    return ComparisonResults(by_metric, by_metric, None, dict.fromkeys(values, 1.0), {}, {}, ())


def test_published_cells_are_numbers_under_their_marks() -> None:
    assert number(D_TABLES["OHSUMED"]["urBoost"][0]) == 0.612
    assert number(A_TABLE_1["MSLR-WEB30K"]["E[λMART]"][2]) == 51.40
    for table in (*D_TABLES.values(), *A_TABLE_1.values()):
        widths = {len(cells) for cells in table.values()}
        assert len(widths) == 1
        assert all(number(cell) > 0 for cells in table.values() for cell in cells)


@pytest.mark.parametrize("letter", ["A", "D"])
def test_every_published_row_has_a_system_and_every_cell_a_metric(letter) -> None:
    for item in PAPERS[letter].items:
        if not isinstance(item, ResultTable):
            continue
        for data, rows in item.published.items():
            if data not in item.datasets:
                continue
            (study,) = item.studies(data, Budget())
            assert set(rows) <= set(study.systems)
            assert {len(cells) for cells in rows.values()} == {len(study.metrics)}
            assert set(item.against(data)) & set(study.systems)


def test_marks_say_whether_a_difference_survives_the_correction() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=50)
    ours = {
        "sure": base + 1 + 0.1 * rng.normal(size=50),
        "faint": base + 0.29 + rng.normal(size=50),
        "worse": base - 1 + 0.1 * rng.normal(size=50),
        "same": base + rng.normal(size=50) * 0.01,
    }
    result = judge(_results(base=base, **ours), dict.fromkeys(ours, "base"), alpha=0.05)
    raw = [t_test(values - base) for values in ours.values()]
    assert [result.differences[n, "base", "ndcg@5"].adjusted for n in ours] == pytest.approx(list(holm(raw)))
    marks = {name: result.mark(name, "ndcg@5") for name in ours}
    assert (marks["sure"], marks["worse"], result.mark("base", "ndcg@5")) == ("▲", "▼", "")
    faint = result.differences["faint", "base", "ndcg@5"]
    expected = "" if faint.p >= 0.05 else "▲" if faint.adjusted < 0.05 else "△"
    assert marks["faint"] == expected


def test_overlapping_splits_are_corrected_for_and_lists_that_do_not_count_are_left_out() -> None:
    a, b = np.array([0.5, np.nan, 0.7, 0.6]), np.array([0.4, np.nan, 0.5, 0.55])
    result = judge(_results(a=a, b=b), {"a": "b"}, alpha=0.01, protocol=Splits(4))
    d = np.array([0.1, 0.2, 0.05])
    difference = result.differences["a", "b", "ndcg@5"]
    assert difference.mean == pytest.approx(d.mean())
    assert difference.resampled == pytest.approx(resampled_t_test(d, test_share=0.2, train_share=0.6))
    claim = claim_better(result, "a", "b")
    assert claim.holds is None  # not significant: neither shown nor refuted
    assert "resampled" in claim.here
    assert claim.p == difference.resampled
    assert "corrected for overlapping splits" in claim.test
    assert claim_better(result, "b", "a").holds is None


def test_a_text_table_is_escaped_in_every_format() -> None:
    rows = (Row(("a_b <i>|*", "1.0▲"), "ours"), Row(("paper", "*.9"), "paper"))
    table = TextTable("50 % of <all>", ("system", "NDCG@5"), rows, "a note")
    assert "a\\_b" in table.latex()
    assert r"$^{\blacktriangle}$" in table.latex()
    assert "a_b <i>\\|\\*" in table.markdown()
    assert "| · paper | \\*.9 |" in table.markdown()
    page = template_environment().get_template("macros.html").module.text_table(table)
    assert "<i>" not in page
    assert "50 % of &lt;all&gt;" in page


def test_a_claim_is_refuted_only_by_a_significant_difference() -> None:
    assert decide([(0.1, 0.001), (0.2, 0.04)], 0.05) is True
    assert decide([(0.1, 0.001), (-0.2, 0.04)], 0.05) is False
    assert decide([(0.1, 0.001), (-0.2, 0.4)], 0.05) is None
