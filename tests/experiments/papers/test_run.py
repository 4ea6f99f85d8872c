"""Every table and figure can be planned; small ones run to the end, once."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import replace

import pytest

from plackett.base.errors import DataError, UsageError
from plackett.data.synthetic import synthetic
from plackett.data.writer import write
from plackett.experiments.papers import (
    DATASETS,
    PAPERS,
    Budget,
    PaperDatasets,
    list_items,
    paper,
    plan_reproduction,
    run_reproduction,
    write_reproduction,
)
from plackett.experiments.plan import forecast
from plackett.experiments.store import RunStore

_TINY = {"trees": 2, "leaves": 3, "epochs": 1, "layers": (4,), "learners": 1, "C": 1.0}


@pytest.fixture(autouse=True)
def _few_lists(monkeypatch):
    """Stand-ins of a size that trains in no time."""
    for name, known in list(DATASETS.items()):
        monkeypatch.setitem(DATASETS, name, replace(known, quick_lists=25))


@contextmanager
def _unseen(_):
    yield lambda *_: None


def _datasets(letter: str, budget: Budget | None = None, folder=None) -> PaperDatasets:
    return PaperDatasets(paper(letter), budget or Budget(quick=True, settings=_TINY), folder, _unseen)


def _made(letter: str, kind: str, number: int, tmp_path, budget: Budget | None = None):
    datasets = _datasets(letter, budget)
    plan = plan_reproduction(datasets, [datasets.paper.item(kind, number)])
    with RunStore(tmp_path / "runs.db") as store:
        return run_reproduction(plan, store=store, scratch=tmp_path, threads=1)


@pytest.mark.parametrize("letter", list(PAPERS))
def test_every_table_and_figure_has_trials_or_needs_none(letter) -> None:
    plan = plan_reproduction(_datasets(letter), PAPERS[letter].items)
    assert [planned.item for planned in plan.items] == list(PAPERS[letter].items)
    assert plan.missing == ()
    for comparison in plan.plans():
        assert comparison.trials
    # The papers' own settings must exist, too.
    for item in PAPERS[letter].items:
        for data in item.datasets:
            for study in item.studies(data, Budget()):
                assert study.systems


def test_trials_without_noise_are_those_of_the_table() -> None:
    datasets = _datasets("C")
    table, curves = (datasets.paper.item(*which) for which in (("table", 1), ("figure", 2)))
    alone = [plan_reproduction(datasets, [each]) for each in (table, curves)]
    digests = [{j.identity.digest for p in a.plans() for j in p.trials} for a in alone]
    # Two systems, two sets, four splits.
    assert len(digests[0] & digests[1]) == 2 * 2 * 4


def test_a_table_is_made_once_and_shows_ours_beside_the_papers(tmp_path) -> None:
    pytest.importorskip("torch", reason="nets need PyTorch (extra: neural)")
    found = _made("D", "table", 2, tmp_path)
    assert found.ran == 45
    ((item, content),) = found.contents
    (table,) = content.tables
    assert [row.kind for row in table.rows] == ["ours", "paper"] * 9
    assert table.rows[1].cells[1] == "*.602"
    assert [claim.text.partition(" is")[0] for claim in content.claims] == [
        *(f"synthetic 'letor' for OHSUMED: {name}" for name in ("uRank", "uBoost", "urBoost") * 2),
        *["synthetic 'letor' for OHSUMED: uRank"] * 2,
        "synthetic 'letor' for OHSUMED: tensors are 2 to 3 times faster than loops",
    ]
    # Every claim has a p-value or says why not.
    assert all(claim.p is not None or claim.test.startswith("no test") for claim in content.claims)
    assert _made("D", "table", 2, tmp_path).ran == 0
    files = write_reproduction(found, tmp_path / "out", command="plackett reproduce D")
    page = (tmp_path / "out" / f"{item.file_name()}.md").read_text()
    assert "QUICK" in page
    assert "stand in for it, and the paper's numbers do not apply" in page
    assert "lists without a relevant document left out" in page
    kept = json.loads(files.results.read_text())
    assert kept["exhibits"][0]["numbers"]["synthetic 'letor' for OHSUMED"]["paper"]["uRank"]["ndcg@1"] == 0.602
    report = files.report.read_text()
    assert "Zhu &amp; Klabjan (2020), reproduced" in report
    assert not re.search(r"src=|https?://", report)
    assert (tmp_path / "out" / "table-2.tex").exists()


def test_curves_under_noise_have_a_point_per_level_and_the_papers_claims(tmp_path) -> None:
    budget = Budget(quick=True, trials=2, settings=_TINY)
    found = _made("C", "figure", 2, tmp_path, budget)
    ((_, content),) = found.contents
    assert [len(table.rows) for table in content.tables] == [6] * 4
    assert content.tables[0].columns == ("level", "λMART", "XE-NDCG-MART", "XE-NDCG-MART − λMART")
    assert len(content.charts) == 8
    assert len(content.claims) == 8
    numbers = content.numbers["synthetic 'web' for MSLR-WEB30K, sampled negatives"]
    assert len(numbers["curves"]["λMART"]) == 6
    assert set(numbers["slopes"]) == {"λMART", "XE-NDCG-MART"}
    assert all(claim.p is not None for claim in content.claims)
    assert all("synthetic" in chart.title for chart in content.charts.values())


def test_clicks_replace_the_labels_of_training_and_validation_lists(tmp_path) -> None:
    budget = Budget(quick=True, trials=2, settings=_TINY)
    ((_, content),) = _made("C", "figure", 3, tmp_path, budget).contents
    numbers = content.numbers["synthetic 'yahoo' for Yahoo set 1, simulated clicks"]
    assert numbers["levels"] == (0.05, 0.1, 0.15, 0.2, 0.25)
    assert "noise in training and validation lists" in content.tables[0].note


def test_learning_curves_follow_both_parts_where_models_do(tmp_path) -> None:
    budget = Budget(quick=True, settings=_TINY | {"trees": 4})
    found = _made("C", "figure", 1, tmp_path, budget)
    ((_, content),) = found.contents
    curves = content.numbers["synthetic 'web' for MSLR-WEB30K"]["XE-NDCG-MART, validation"]
    assert [len(curve) for curve in curves] == [4] * 4
    assert len(content.charts) == 2
    assert len(content.claims) == 4
    assert all(claim.p is not None for claim in content.claims)


def test_the_samplers_figures_and_the_cells_of_paper_b(tmp_path) -> None:
    for number, lines, rows, claims in ((5, 4, 4, 2), (7, 3, 3, 1), (8, 1, 11, 2)):
        ((_, content),) = _made("B", "figure", number, tmp_path).contents
        (chart,) = content.charts.values()
        assert len(chart.lines) == lines
        assert len(content.tables[0].rows) == rows
        assert len(content.claims) == claims
        assert all(claim.p is not None for claim in content.claims)


def test_the_length_of_the_walk_is_chosen_on_validation_lists(tmp_path) -> None:
    budget = Budget(quick=True, settings=_TINY | {"C": (0.01, 1.0)})
    ((_, content),) = _made("B", "figure", 7, tmp_path, budget).contents
    *walks, chosen = content.tables[-1].rows
    assert chosen.cells[0] == "chosen on validation"
    assert float(chosen.cells[1]) >= max(float(row.cells[1]) for row in walks)
    best = max(walks, key=lambda row: float(row.cells[1])).cells[0]
    assert f"prefer {best}" in content.notes[-1]


def test_what_is_missing_is_said_and_what_is_there_is_done(tmp_path) -> None:
    (tmp_path / "data").mkdir()
    datasets = _datasets("D", Budget(), tmp_path / "data")
    with pytest.raises(DataError, match=r"Table 2 left out: missing OHSUMED \(OHSUMED/Query"):
        plan_reproduction(datasets, [datasets.paper.item("table", 2)])
    datasets = _datasets("B", Budget(), tmp_path / "data")
    plan = plan_reproduction(datasets, [datasets.paper.item("figure", n) for n in (7, 8)])
    assert [planned.item.number for planned in plan.items] == [7]
    assert "Figure 7 in part: missing HP2004" in plan.missing[0]
    assert "Figure 8 left out: missing HP2004" in plan.missing[1]


def test_wrong_letters_and_numbers_name_what_there_is() -> None:
    with pytest.raises(UsageError, match="There are A: Bruch"):
        paper("E")
    with pytest.raises(UsageError, match=r"has no table 7 .* Table 1, Table 2"):
        paper("d").item("table", 7)
    with pytest.raises(UsageError, match="Figure 2 is a drawing"):
        paper("A").item("figure", 2)


def test_the_list_and_the_forecast_count_trials_without_running_them(tmp_path) -> None:
    datasets = _datasets("C")
    chosen = [datasets.paper.item("table", 1), datasets.paper.item("figure", 1)]
    listed = list_items(datasets, chosen)
    assert [each.trials for each in listed] == [3 * 2 * 4, 2 * 2 * 4]
    assert listed[0].datasets == {"MSLR-WEB30K": "stand-in", "Yahoo set 1": "stand-in"}
    assert listed[0].seconds > 0
    plan = plan_reproduction(datasets, chosen)
    with RunStore(tmp_path / "runs.db") as store:
        ahead = forecast(*plan.plans(), store=store, threads=1)
        assert (ahead.trials, ahead.finished, len(store)) == (24, 0, 0)


def test_a_system_that_no_item_has_is_named() -> None:
    datasets = PaperDatasets(paper("C"), Budget(quick=True, systems=("xendcg-mart",)), None, _unseen)
    with pytest.raises(UsageError, match=r"no system 'xendcg-mart'\. There are: ListNet, λMART, XE-NDCG-MART"):
        plan_reproduction(datasets, [paper("C").item("table", 1)])


def test_paper_b_shows_both_ways_to_clean(tmp_path) -> None:
    budget = Budget(quick=True, settings=_TINY)
    budget = replace(budget, systems=("logrank-mle", "logrank-convex-auc", "logrank-convex-ndcg", "ranksvm", "svmmap"))
    datasets = PaperDatasets(paper("B"), budget, None, _unseen)
    item = replace(paper("B").item("figure", 3), datasets=("OHSUMED",))
    plan = plan_reproduction(datasets, [item])
    with RunStore(tmp_path / "runs.db") as store:
        ((_, content),) = run_reproduction(plan, store=store, scratch=tmp_path, threads=1).contents
    assert [row.cells[0] for row in content.tables[1].rows][:2] == [
        "logrank-mle, copies by features",
        "logrank-mle, copies by document id",
    ]
    tested = [claim.text for claim in content.claims if claim.p is not None]
    assert tested == ["ConvexLoss-AUC beats RankSVM"]
    assert {claim.verdict for claim in content.claims if claim.p is None} == {"not tested"}


def test_concrete_samples_have_the_expected_order(tmp_path) -> None:
    ((_, content),) = _made("A", "figure", 1, tmp_path).contents
    assert len(content.charts) == 2
    assert all(claim.holds for claim in content.claims)


def test_data_of_the_user_take_the_place_of_the_papers(tmp_path) -> None:
    write(synthetic("letor", n_lists=30, seed=1), tmp_path / "mine.txt")
    budget = Budget(quick=True, trials=2, settings=_TINY)
    datasets = PaperDatasets(paper("C"), budget, tmp_path, _unseen, ("mine.txt",))
    plan = plan_reproduction(datasets, [paper("C").item("table", 1)])
    with RunStore(tmp_path / "runs.db") as store:
        ((_, content),) = run_reproduction(plan, store=store, scratch=tmp_path, threads=1).contents
    assert content.tables[0].caption.startswith("Table 1: mine.txt")
    assert all(claim.text.startswith("mine.txt:") for claim in content.claims)
    assert "not a set of the paper's" in datasets.notes[0]
    with pytest.raises(DataError, match="there is no data set 'nowhere'"):
        PaperDatasets(paper("C"), budget, tmp_path, _unseen, ("nowhere",))


def test_real_data_that_are_not_the_papers_stand_without_its_numbers(tmp_path) -> None:
    for part, seed in (("train", 1), ("vali", 2), ("test", 3)):
        (tmp_path / "MQ2007_partial" / "Fold1").mkdir(parents=True, exist_ok=True)
        write(synthetic("letor", n_lists=5, seed=seed), tmp_path / "MQ2007_partial" / "Fold1" / f"{part}.txt")
    for on in ((), ("MQ2007_partial",)):
        datasets = PaperDatasets(paper("D"), Budget(), tmp_path, _unseen, on)
        plan = plan_reproduction(datasets, [paper("D").item("table", 1)])
        with RunStore(tmp_path / "runs.db") as store:
            ((_, content),) = run_reproduction(plan, store=store, scratch=tmp_path, threads=1).contents
        assert [(row.cells[0], row.kind) for row in content.tables[0].rows] == [("MQ2007_partial", "ours")]


def test_settings_reach_objectives_and_dictionaries_of_the_systems_that_have_them() -> None:
    budget = Budget(settings={"objective.beta": 0.5, "lightgbm.max_bin": 31, "trees": 7})
    mart, plain, net = (budget.ranker(name, "A-web30k") for name in ("e-lambdamart", "lambdamart", "crossentropy-net"))
    assert (mart.objective.beta, mart.lightgbm["max_bin"], mart.trees) == (0.5, 31, 7)
    assert mart.lightgbm["min_sum_hessian_in_leaf"] == 200.0
    assert plain.lightgbm["max_bin"] == 31
    assert net.get_params() == Budget().ranker("crossentropy-net", "A-web30k").get_params()


def test_what_is_cut_is_said() -> None:
    assert Budget().describe() == ()
    words = " ".join(Budget(quick=True, trials=3, settings={"trees": 5}).describe())
    assert "QUICK" in words
    assert "3 trials instead of the paper's number" in words
    assert "trees = 5" in words
