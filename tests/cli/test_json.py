"""The keys of ``--json`` are a promise to programs that read it."""

from __future__ import annotations

import json
import sys
from unittest import mock

import pytest

import plackett as pk
from plackett.cli import main

STATISTICS = {
    "n_lists", "n_docs", "n_features", "n_levels", "lowest_share", "mean_lowest_share", "longest",
    "shortest", "mean_length", "median_length", "blank_lists", "single_label_lists",
    "constant_features", "zero_share", "missing_share", "lengths", "labels",
}  # fmt: skip
COMPARISON = {
    "n_lists", "difference", "low", "high", "t_test", "randomization", "wilcoxon", "effect",
    "wins", "losses", "randomisation",
}  # fmt: skip
COMPARE = {
    "data", "protocol", "selected_by", "leaderboard", "resampled_t_test", "trial_means",
    "settings", "environment", "trials", "ran", "report",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("json")
    data = pk.synthetic("letor", n_lists=24, seed=1)
    pk.write(data, path / "data.parquet")
    pk.recipe("lambdamart", trees=3, leaves=4).fit(data).save(path / "model.plackett")
    return path


@pytest.fixture
def run(capsys, folder, monkeypatch):
    monkeypatch.chdir(folder)

    def output(*arguments: str):
        command = ["plackett", *arguments, "--json"]
        with mock.patch.object(sys, "argv", command), pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        assert not end.value.code, err
        return json.loads(out)

    return output


def test_describe(run) -> None:
    assert set(run("describe", "data.parquet")) == STATISTICS


def test_convert(run) -> None:
    keys = {"target", "lists", "documents", "features", "seconds"}
    assert set(run("convert", "data.parquet", "data.pkdata")) == keys


def test_train(run) -> None:
    result = run("train", "data.parquet", "--model", "listnet-linear", "--out", "linear.plackett")
    assert set(result) == {"model", "kind", "recipe", "training", "metrics", "seconds"}
    assert set(result["metrics"]) == {"train", "validation"}


def test_auto(run, folder) -> None:
    command = ("auto", "data.parquet", "--minutes", "0.05", "--members", "listnet-linear")
    result = run(*command, "--out", "auto.plackett", "--test", "data.parquet", "--report", "a.html")
    assert set(result) == {
        "model", "kind", "metric", "minutes", "seconds", "training", "members", "leaderboard",
        "distillation", "test",
    }  # fmt: skip
    assert set(result["leaderboard"][0]) == {
        "name", "value", "low", "high", "p_best", "p_baseline", "weight", "seconds", "note",
    }  # fmt: skip
    assert set(result["test"]) == {"lists", "means", "p_values"}
    assert "listnet-linear" in (folder / "a.html").read_text()
    assert not (folder / "auto.plackett.work").exists()


def test_rank(run) -> None:
    rows = run("rank", "model.plackett", "data.parquet", "--label", "label", "--top", "2")
    assert set(rows[0]) == {"query_id", "document", "rank", "score"}
    result = run("rank", "model.plackett", "data.parquet", "--label", "label", "--out", "s.npy")
    assert set(result) == {"out", "lists", "documents"}


def test_evaluate(run) -> None:
    result = run("evaluate", "model.plackett", "data.parquet", "--baseline", "model.plackett")
    assert set(result) == {"lists", "documents", "metrics", "counted", "comparisons"}
    assert set(result["metrics"]) == {"ndcg@1", "ndcg@5", "ndcg@10", "err@10", "map"}
    assert set(result["comparisons"]["map"]) == COMPARISON


def test_export_and_import(run) -> None:
    result = run("export", "model.plackett", "--to", "lightgbm-text", "--out", "model.txt")
    assert set(result) == {"out", "form", "bytes", "verified", "largest_difference"}
    result = run("import", "model.txt", "--out", "again.plackett")
    assert set(result) == {"out", "form", "trees", "features"}


def test_inspect(run) -> None:
    assert set(run("inspect", "model.plackett")) == {
        "model", "kind", "recipe", "objective", "settings", "size", "features", "training",
        "curves", "importance", "libraries", "files", "note",
    }  # fmt: skip


def test_lists_of_what_there_is(run) -> None:
    assert set(run("recipes")[0]) == {"name", "kind", "objective", "presets"}
    assert set(run("objectives")[0]) == {"name", "title", "parameters"}
    assert set(run("metrics")[0]) == {"name", "title", "cutoff", "options", "conventions"}


def test_compare(run) -> None:
    models = ("--models", "listnet-linear,logrank-mle", "--protocol", "holdout")
    result = run("compare", "data.parquet", *models, "--out", "comparison")
    assert set(result) == COMPARE
    result = run("compare", "data.parquet", *models, "--out", "comparison", "--dry-run")
    assert set(result) == {"trials", "finished", "expected_seconds"}
    assert result["finished"] == result["trials"] == 2


@pytest.mark.parametrize("paper", ["A", "B", "C", "D"])
def test_reproduce_lists_tables_and_figures(run, paper: str) -> None:
    for item in run("reproduce", paper, "--list"):
        assert set(item) == {"paper", "name", "title", "data", "trials", "seconds"}
