"""``plackett tune`` as a person runs it."""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from pathlib import Path

import pytest

import plackett as pk
from commands import invoke
from plackett.base.errors import UsageError
from plackett.cli.tune import tune
from plackett.models.recipes.search_spaces import FAMILIES, OBJECTIVES

pytest.importorskip("optuna")

_DOCS = Path(__file__).resolve().parents[2] / "docs" / "guide" / "tune.md"
_QUICK = ("--model", "listnet-linear", "--trials", 3)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.parquet"
    pk.write(pk.synthetic("letor", n_lists=30, seed=2), path)
    return path


_run = partial(invoke, tune)


def test_a_search_ends_in_a_table_and_a_model_and_goes_on_when_run_again(data, tmp_path) -> None:
    store, out = tmp_path / "tuning.db", tmp_path / "model"
    result = _run(data, *_QUICK, "--store", store)
    assert result.exit_code == 0, result.output
    assert "3 trials (3 finished), 3 run now" in result.stdout
    assert "--out listnet-linear.plackett" in result.stdout.replace("\n", "")
    again = _run(data, *_QUICK, "--trials", 4, "--store", store, "--out", out, "--json")
    payload = json.loads(again.stdout)
    assert (payload["ran"], payload["counts"]["finished"]) == (1, 4)
    assert payload["model"] == str(out)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["training"]["tuning"]["trials"] == 4
    for name, value in payload["settings"].items():
        kept = manifest["settings"][name]
        assert kept == ({"$tuple": value} if isinstance(value, list) else value)


def test_folds_and_validation_files(data, tmp_path) -> None:
    store = ("--store", tmp_path / "tuning.db", "--json")
    whole = pk.read(data)
    for i in (1, 2):
        parts = pk.split(whole, (0.6, 0.2, 0.2), seed=i)
        for name, part in zip(("train", "vali", "test"), parts, strict=True):
            pk.write(part, tmp_path / "set" / f"Fold{i}" / f"{name}.txt")
    over = json.loads(_run(tmp_path / "set", *_QUICK, *store).stdout)
    one = tmp_path / "set" / "Fold1"
    single = json.loads(_run(one, *_QUICK, *store).stdout)
    inputs = json.loads(_run(one / "train.txt", "--validation", one / "vali.txt", *_QUICK, *store).stdout)
    assert [t["value"] for t in inputs["trials"]] == [t["value"] for t in single["trials"]]
    assert over["recipe_value"] != single["recipe_value"]


def test_settings_are_searched_and_fixed(data, tmp_path) -> None:
    result = _run(
        data, "--model", "lambdamart", "--trials", 2, "--set", "trees=2", "--set", "leaves=4",
        "--space", "learning_rate=0.1..0.2", "--store", tmp_path / "t.db", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    payload = json.loads(result.stdout)
    assert "leaves" not in payload["space"]
    rates = [trial["settings"]["learning_rate"] for trial in payload["trials"]]
    assert all(0.1 <= rate <= 0.2 for rate in rates)


def test_the_space_of_a_recipe_is_printed() -> None:
    result = _run("--space", "lambdamart")
    assert result.exit_code == 0
    assert re.search(r"learning_rate +0\.01 \.\. 0\.3, log", result.stdout)
    plain = json.loads(_run("--space", "urank", "--json").stdout)
    assert plain["urank"]["activation"] == "relu | elu | gelu"


def test_what_is_missing_or_wrong_is_said(data, tmp_path) -> None:
    assert "give the data and a model" in str(_run("--trials", 3).exception)
    wrong = _run(data, "--model", "lambdamard", "--store", tmp_path / "t.db")
    assert isinstance(wrong.exception, UsageError)
    assert "Did you mean" in str(wrong.exception)
    assert not (tmp_path / "t.db").exists()


def test_missing_extras_are_named(data, tmp_path, monkeypatch) -> None:
    store = ("--store", tmp_path / "t.db")
    monkeypatch.setitem(sys.modules, "optuna", None)
    result = _run(data, *_QUICK, *store)
    assert isinstance(result.exception, UsageError)
    assert "the extra 'tune'" in str(result.exception)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    result = _run(data, *_QUICK, *store, "--mlflow", tmp_path / "mlflow.db")
    assert "the extra 'mlflow'" in str(result.exception)


@pytest.mark.skipif(not _DOCS.is_file(), reason="not run from a checkout")
def test_the_guide_lists_every_dimension_as_it_is() -> None:
    text = _DOCS.read_text()
    for space in (*FAMILIES.values(), *OBJECTIVES.values()):
        for name, item in space.items():
            shown = str(item).replace("|", "\\|")
            assert f"| `{name}` | {shown} |" in text, name
