"""``plackett compare`` as a person runs it."""

from __future__ import annotations

import json
from functools import partial

import pytest

import plackett as pk
from commands import invoke
from plackett.base.errors import UsageError
from plackett.cli.compare import compare
from plackett.experiments.store import RunStore

_MODELS = "listnet-linear,lambdamart"
_SMALL = ("--set", "trees=3", "--set", "leaves=4", "--set", "C=1.0")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.parquet"
    pk.write(pk.synthetic("letor", n_lists=30, seed=2), path)
    return path


_run = partial(invoke, compare)


def test_a_comparison_ends_in_a_table_and_files_and_goes_on_when_run_again(data, tmp_path) -> None:
    arguments = (data, "--models", _MODELS, "--protocol", "folds:3", "--out", tmp_path, *_SMALL)
    first = _run(*arguments)
    assert first.exit_code == 0, first.output
    assert "6 trials: 2 systems × 3 (folds:3); expected time: about " in first.stderr
    assert "listnet-linear" in first.stdout
    assert "(base)" in first.stdout
    names = {path.name for path in tmp_path.iterdir()}
    assert {"report.html", "results.json", "leaderboard.md", "leaderboard.tex"} <= names
    again = _run(*arguments, "--json")
    assert "6 are finished already" in again.stderr
    actual = json.loads(again.stdout)
    assert actual["ran"] == 0
    assert actual["leaderboard"]["baseline"] == "listnet-linear"


def test_the_store_may_be_elsewhere_and_another_baseline_needs_no_training(data, tmp_path) -> None:
    store = tmp_path / "team.db"
    arguments = (data, "--models", _MODELS, "--store", store, "--metrics", "map", *_SMALL)
    _run(*arguments, "--out", tmp_path / "a")
    result = _run(*arguments, "--out", tmp_path / "b", "--baseline", "lambdamart", "--json")
    payload = json.loads(result.stdout)
    assert (payload["ran"], payload["protocol"]) == (0, "holdout")
    assert payload["leaderboard"]["baseline"] == "lambdamart"
    assert not (tmp_path / "b" / "runs.db").exists()
    with RunStore(store) as kept:
        assert len(kept) == 2


def test_folds_are_the_default_for_data_that_have_them(data, tmp_path) -> None:
    whole = pk.read(data)
    for i in (1, 2):
        parts = pk.split(whole, (0.6, 0.2, 0.2), seed=i)
        for name, part in zip(("train", "vali", "test"), parts, strict=True):
            pk.write(part, tmp_path / "set" / f"Fold{i}" / f"{name}.txt")
    result = _run(
        tmp_path / "set", "--models", "listnet-linear", "--set", "C=1.0", "--out",
        tmp_path / "out", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["protocol"] == "folds"


def test_wrong_names_are_refused_before_anything_is_read_or_run(tmp_path) -> None:
    result = _run(tmp_path / "absent.txt", "--models", "lambdamard", "--out", tmp_path / "out")
    assert isinstance(result.exception, UsageError)
    assert "Did you mean 'lambdamart'?" in str(result.exception)
    assert not (tmp_path / "out").exists()
