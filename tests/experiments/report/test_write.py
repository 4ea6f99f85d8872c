"""The files of a comparison: numbers, tables, and a report that holds up to hostile names."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import plackett as pk
from plackett.experiments.compare import compare
from plackett.experiments.report.queries import DEPTH, FeatureTable, browse_queries
from plackett.experiments.report.write import payload, resampled, write_files
from plackett.experiments.significance import resampled_t_test
from plackett.experiments.tables import latex_table, markdown_table
from small_systems import FeatureRanker, small_data

_HOSTILE = "</script><script>alert(1)</script> & 50%_x|y"


@pytest.fixture(scope="module")
def compared():
    systems = {"base": FeatureRanker(feature=3), _HOSTILE: FeatureRanker(feature=0)}
    return compare(small_data(), systems, protocol="folds:3", metrics="ndcg@5,map")


@pytest.fixture(scope="module")
def folder(compared, tmp_path_factory):
    path = tmp_path_factory.mktemp("out")
    write_files(compared, path, command="plackett compare 'a b'")
    return path


def _data(page: str) -> dict:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(text)


def test_results_hold_the_board_every_trial_and_what_repeats_it(folder, compared) -> None:
    actual = json.loads((folder / "results.json").read_text())
    assert actual["protocol"] == "folds:3"
    assert len(actual["trials"]) == len({trial["digest"] for trial in actual["trials"]}) == 6
    means = actual["trial_means"]["base"]["ndcg@5"]
    assert means == compared.results.trial_means["base"]["ndcg@5"].tolist()
    assert actual["settings"]["base"]["feature"] == 3
    assert actual["environment"]["plackett"].startswith(pk.__version__)
    assert actual["leaderboard"]["entries"][0]["means"] == compared.board.entries[0].means


def test_the_report_cannot_be_broken_out_of(folder) -> None:
    page = (folder / "report.html").read_text()
    assert "<script>alert" not in page
    assert page.count("</script>") == 3  # the data and two programs
    assert _HOSTILE in _data(page)["systems"]
    assert not re.search(r"src=|href=[\"'](?!#)|https?://|url\(", page)


def test_the_report_shows_every_query_that_counts_with_the_values_of_all_systems(folder, compared) -> None:
    data = _data((folder / "report.html").read_text())
    counted = np.isfinite(compared.results.values["base"]["ndcg@5"]).sum()
    assert len(data["rows"]) == counted
    at = data["systems"].index("base")
    shown = sorted(row[3][at] for row in data["rows"])
    values = compared.results.values["base"]["ndcg@5"]
    assert shown == pytest.approx(sorted(values[np.isfinite(values)]), abs=1e-5)


def test_documents_stand_in_the_order_of_each_system_with_their_labels(compared) -> None:
    browser = browse_queries(compared.results.details, metric="ndcg@5", baseline="base", note="")
    assert browser is not None
    name, trial, *_ = browser.rows[0]
    shown = next(s for s in compared.results.details if s.split.name == trial)
    test = shown.data.test
    q = test.list_ids.astype(str).tolist().index(name)
    low, high = test.offsets[q], test.offsets[q + 1]
    order = np.lexsort((test.order.places[low:high], -shown.scores["base"][low:high]))[:DEPTH]
    documents = browser.documents["0"]
    first = documents["orders"][0]
    assert [documents["labels"][i] for i in first] == test.labels[low:high][order].tolist()
    assert [documents["names"][i] for i in first] == [f"row {row + 1}" for row in test.rows[low:high][order]]
    assert documents["total"] == high - low


def test_queries_come_by_the_size_of_their_differences_and_the_rest_is_counted(compared, monkeypatch) -> None:
    monkeypatch.setattr("plackett.experiments.report.queries.MAX_QUERIES", 7)
    monkeypatch.setattr("plackett.experiments.report.queries.MAX_OPEN", 2)
    browser = browse_queries(compared.results.details, metric="ndcg@5", baseline="base", note="")
    assert browser is not None
    swings = [abs(values[1] - values[0]) for *_, values in browser.rows]
    assert swings == sorted(swings, reverse=True)
    assert len(browser.rows) == 7
    assert list(browser.documents) == ["0", "1"]
    total = np.isfinite(compared.results.values["base"]["ndcg@5"]).sum()
    assert browser.left_out == total - 7


@pytest.mark.parametrize("protocol", ["folds:3", "holdout", "splits:2"])
def test_documents_come_with_the_features_of_their_own_rows(protocol) -> None:
    data = small_data()
    compared = compare(data, {"a": FeatureRanker(feature=3)}, protocol=protocol, metrics="ndcg@5")
    importance = np.arange(data.n_features, dtype=float)
    features = FeatureTable(compared.plan.source, importance)
    trials = compared.results.details
    browser = browse_queries(trials, metric="ndcg@5", baseline="a", note="", features=features)
    assert browser is not None
    columns = features.columns()
    assert columns[0] == data.n_features - 1  # the most important first
    documents = browser.documents["0"]
    by_row = np.asarray(data.features)
    for name, values in zip(documents["names"], documents["features"], strict=True):
        row = int(name.removeprefix("row ")) - 1
        assert values == pytest.approx(by_row[row, columns].tolist(), rel=1e-3)


def test_tables_escape_names_and_mark_the_best(compared) -> None:
    markdown, latex = markdown_table(compared.board), latex_table(compared.board)
    assert r"\</script\>\<script\>alert(1)\</script\> & 50%\_x\|y" in markdown
    less, more, bar = (rf"\text{name}{{}}" for name in ("less", "greater", "bar"))
    script = f"{less}script{more}"
    end = f"{less}/script{more}"
    assert rf"{end}{script}alert(1){end} \& 50\%\_x{bar}y" in latex
    best = f"{compared.board.entries[0].means['ndcg@5']:.4f}"
    assert f"**{best}**" in markdown
    assert rf"\textbf{{{best}}}" in latex
    assert len({line.count(" | ") for line in markdown.splitlines()[:3]}) == 1
    assert latex.count(r"\\") == 3


def test_overlapping_splits_are_corrected_for() -> None:
    systems = {"base": FeatureRanker(feature=3), "other": FeatureRanker(feature=0)}
    comparison = compare(small_data(), systems, protocol="splits:4", metrics="ndcg@5")
    values = comparison.results.values
    d = values["other"]["ndcg@5"] - values["base"]["ndcg@5"]
    expected = resampled_t_test(d, test_share=0.2, train_share=0.6)
    assert resampled(comparison) == {"other": pytest.approx(expected)}
    assert payload(comparison)["resampled_t_test"] == resampled(comparison)
    assert len(comparison.results.details) == 1


def test_one_system_alone_is_measured_without_a_comparison(tmp_path) -> None:
    alone = compare(small_data(), {"alone": FeatureRanker()}, metrics="ndcg@5")
    files = write_files(alone, tmp_path)
    assert "Leaderboard" in files.report.read_text()
    assert files.figures == ()
    assert "alone" in files.markdown.read_text()


def test_a_comparison_writes_values_of_single_lists_and_figures(tmp_path) -> None:
    systems = {"a": FeatureRanker(feature=3), "b": FeatureRanker(feature=0)}
    compared = compare(small_data(), systems, protocol="folds:3", metrics="ndcg@5,map")
    files = write_files(compared, tmp_path, formats=["svg", "pdf"])
    assert [path.name for path in files.figures] == ["differences.svg", "differences.pdf"]
    assert all(path.is_file() for path in files.figures)
    lines = [line.split("\t") for line in files.per_list.read_text().splitlines()]
    assert lines[0] == ["trial", "query_id", "metric", "a", "b"]
    shown = [float(line[3]) for line in lines[1:] if line[2] == "map" and line[3]]
    values = compared.results.values["a"]["map"]
    assert shown == pytest.approx(values[np.isfinite(values)].tolist())
    assert len(lines) == 1 + 2 * small_data().n_lists
