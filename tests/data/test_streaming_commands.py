"""``train``, ``rank`` and ``evaluate`` on shards give what they give on one file in memory."""

from __future__ import annotations

import io
import json
import shutil
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

import pyarrow.parquet as pq
import pytest

import plackett as pk
from plackett.cli import main

SMALL_TREES = ("--model", "lambdamart", "--set", "trees=5", "--set", "leaves=6")


def run(*arguments: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["plackett", *map(str, arguments)]),
        mock.patch.object(warnings, "showwarning"),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as end,
    ):
        main()
    return int(end.value.code or 0), out.getvalue(), err.getvalue()


def done(*arguments: object) -> str:
    code, out, err = run(*arguments)
    assert code == 0, err
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A set as one file and as shards that cut lists in two, and a model."""
    path = tmp_path_factory.mktemp("data")
    data = pk.synthetic("letor", n_lists=40, seed=1)
    pk.write(data, path / "one.parquet")
    table = pq.read_table(path / "one.parquet")
    (path / "shards").mkdir()
    for i, start in enumerate(range(0, len(table), 333)):
        pq.write_table(table.slice(start, 333), path / "shards" / f"part-{i}.parquet")
    pk.TreeRanker(trees=5, leaves=6, min_documents=5).fit(data).save(path / "model.plackett")
    return path


@pytest.fixture
def shards(folder):
    return sorted((folder / "shards").iterdir())


@pytest.fixture(autouse=True)
def _blocks_of_some_lists(monkeypatch):
    monkeypatch.setattr("plackett.data.large_arrays.LARGE_BYTES", 1000)
    monkeypatch.setattr("plackett.data.large_arrays.BLOCK_BYTES", 20_000)
    monkeypatch.setattr("plackett.data.columnar.reader._BATCH_ROWS", 50)


def test_train_on_shards_is_train_on_one_file(folder, shards, tmp_path) -> None:
    one = json.loads(done("train", folder / "one.parquet", "--out", tmp_path / "a", *SMALL_TREES, "--json"))
    many = json.loads(done("train", *shards, "--stream", "--out", tmp_path / "b", *SMALL_TREES, "--json"))
    assert pk.load(tmp_path / "a").model_ == pk.load(tmp_path / "b").model_
    assert one["metrics"] == many["metrics"]
    assert one["training"] == many["training"]


def test_train_keeps_a_cache_for_each_part(folder, tmp_path) -> None:
    pattern = folder / "shards" / "*.parquet"
    command = ("train", pattern, "--validation", folder / "one.parquet", "--stream", *SMALL_TREES)
    for name in ("a", "b"):
        done(*command, "--cache", tmp_path / "cache", "--out", tmp_path / name)
    assert pk.load(tmp_path / "a").model_ == pk.load(tmp_path / "b").model_
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["train", "validation"]


@pytest.mark.parametrize("form", ["parquet", "tsv", "txt", "npy", "run"])
def test_rank_writes_the_same_file_block_by_block(folder, shards, form, tmp_path) -> None:
    model = folder / "model.plackett"
    whole = done("rank", model, folder / "one.parquet", "--out", tmp_path / f"a.{form}", "--json")
    parts = done("rank", model, *shards, "--stream", "--out", tmp_path / f"b.{form}", "--json")
    assert {**json.loads(whole), "out": ""} == {**json.loads(parts), "out": ""}
    if form == "parquet":  # the rows are the same, in more groups
        tables = [pq.read_table(tmp_path / f"{name}.parquet") for name in "ab"]
        assert tables[0].equals(tables[1])
        assert pq.ParquetFile(tmp_path / "b.parquet").num_row_groups > 1
    else:
        assert (tmp_path / f"a.{form}").read_bytes() == (tmp_path / f"b.{form}").read_bytes()


@pytest.mark.parametrize("how", [(), ("--json",), ("--top", "2")])
def test_rank_prints_the_same(folder, how) -> None:
    model = folder / "model.plackett"
    whole = done("rank", model, folder / "one.parquet", *how)
    assert done("rank", model, folder / "shards", "--stream", *how) == whole


def test_evaluate_prints_the_same(folder, shards, tmp_path) -> None:
    model, scores = folder / "model.plackett", tmp_path / "scores.txt"
    done("rank", model, folder / "one.parquet", "--out", scores)
    for inputs in (model, scores):
        whole = done("evaluate", inputs, folder / "one.parquet", "--json")
        assert done("evaluate", inputs, *shards, "--stream", "--json") == whole


def test_sets_that_do_not_fit_are_streamed_unasked(folder, shards, monkeypatch) -> None:
    monkeypatch.setattr("plackett.data.reader.available_memory", lambda: 1000)

    def refuse(*_args, **_options):
        raise AssertionError("read into memory")

    monkeypatch.setattr("plackett.data.columnar.reader.read_columns", refuse)
    done("evaluate", folder / "model.plackett", *shards)
    command = ["plackett", "evaluate", *map(str, (folder / "model.plackett", shards[0]))]
    monkeypatch.setattr(sys, "argv", [*command, "--no-stream"])
    with pytest.raises(AssertionError, match="read into memory"):
        main()


def test_a_list_that_occurs_again_is_reported(folder, shards, tmp_path) -> None:
    again = shutil.copy(shards[0], tmp_path / "again.parquet")
    code, _, err = run("rank", folder / "model.plackett", *shards, again, "--stream")
    assert code == 1
    assert "occurs again after rows of other queries" in " ".join(err.split())


def test_a_pattern_without_files_is_reported(folder) -> None:
    code, _, err = run("rank", folder / "model.plackett", folder / "*.arrow")
    assert code == 1
    assert "no file matches this pattern" in " ".join(err.split())
