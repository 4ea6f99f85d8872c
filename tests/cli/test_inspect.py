"""Commands that describe models, and what there is to train and measure with."""

from __future__ import annotations

import json
import sys
from unittest import mock

import pytest

import plackett as pk
from plackett.cli import main
from plackett.cli.inspect import format_objective
from plackett.metrics import NAMES
from plackett.models import RECIPES
from plackett.objectives import OBJECTIVES


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("inspect")
    data = pk.synthetic("letor", n_lists=24, seed=1)
    train, validation = pk.split(data, (0.7, 0.3))
    trees = pk.recipe("e-lambdamart", trees=4, leaves=4)
    trees.fit(train, validation, metric="ndcg@3").save(path / "trees.plackett")
    pk.CrossFit(pk.recipe("listnet-linear", C=1.0), folds=2).fit(data).save(path / "c.plackett")
    pk.write(data, path / "data.txt")
    return path


@pytest.fixture
def run(capsys, folder, monkeypatch):
    monkeypatch.chdir(folder)

    def output(*arguments: str) -> tuple[int, str, str]:
        command = ["plackett", *arguments]
        with mock.patch.object(sys, "argv", command), pytest.raises(SystemExit) as end:
            main()
        return (int(end.value.code or 0), *capsys.readouterr())

    return output


def test_inspect_shows_what_a_model_is(run) -> None:
    code, out, err = run("inspect", "trees.plackett")
    assert code == 0, err
    words = ("TreeRanker", "e-lambdamart", "stochastic(lambdarank(sigma=2.0), samples=8, beta=0.25")
    for text in (*words, "trees=4", "ndcg@3", "validation ndcg@3", "at step", "lightgbm"):
        assert text in " ".join(out.split()), text


def test_inspect_as_json(run) -> None:
    _, out, _ = run("inspect", "trees.plackett", "--json")
    facts = json.loads(out)
    assert facts["objective"]["objective"]["name"] == "lambdarank"
    assert 1 <= facts["size"]["trees"] <= 4
    assert len(facts["curves"]["validation"]["ndcg@3"]) == 4
    assert sum(facts["importance"].values()) == pytest.approx(1)
    assert facts["training"]["train"]["lists"] == 17


def test_inspect_a_cross_fit(run) -> None:
    _, out, _ = run("inspect", "c.plackett", "--json")
    facts = json.loads(out)
    assert facts["objective"] == "listnet"
    assert len(facts["size"]["members"]) == 2


def test_models_and_data_are_told_apart(run) -> None:
    code, _, err = run("describe", "trees.plackett")
    assert code == 2
    assert "is a model; describe it with: plackett inspect trees.plackett" in " ".join(err.split())
    code, _, err = run("inspect", "data.txt")
    assert code == 1
    assert "plackett describe prints statistics of data" in " ".join(err.split())


@pytest.mark.parametrize(
    ("command", "names"),
    [("recipes", list(RECIPES)), ("objectives", [kind.name for kind in OBJECTIVES]), ("metrics", list(NAMES))],
)
def test_what_there_is_is_listed_one_line_each(run, command, names) -> None:
    _, out, _ = run(command, "--json")
    assert [row["name"] for row in json.loads(out)] == names
    _, out, _ = run(command)
    lines = [line.split()[0].removesuffix("[@k]") for line in out.splitlines() if line.strip()]
    assert [line for line in lines if line in names] == names


def test_objectives_are_written_with_what_differs_from_the_defaults() -> None:
    assert format_objective({"name": "xendcg", "order": 3, "seed": 5}) == "xendcg(seed=5)"
    assert format_objective({"custom": "mine", "params": [], "code": "1"}) == "custom:mine"
    assert format_objective("listnet") == "listnet"
    assert format_objective(None) == "-"


def test_recipes_recommends_one_for_a_data_set(run) -> None:
    code, out, err = run("recipes", "--for", "data.txt")
    assert code == 0, err
    assert "Begin with listnet-linear" in out
    assert "plackett train data.txt --model listnet-linear" in out
    _, out, _ = run("recipes", "--for", "data.txt", "--json")
    advice = json.loads(out)
    assert advice["recipe"] == "listnet-linear"
    assert advice["reasons"]
    assert advice["command"].startswith("plackett train")
