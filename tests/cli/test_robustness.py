"""``plackett robustness`` as a person runs it."""

from __future__ import annotations

import json
from functools import partial

import pytest

import plackett as pk
from commands import invoke
from plackett.base.errors import UsageError
from plackett.cli.robustness import robustness
from plackett.experiments.robustness import NOISE_KINDS
from plackett.experiments.store import RunStore

_SMALL = ("--set", "trees=3", "--set", "leaves=4", "--trials", "2", "--threads", "1")
_MODELS = "lambdamart,xendcg-mart"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.parquet"
    pk.write(pk.synthetic("web", n_lists=25, seed=2), path)
    return path


_run = partial(invoke, robustness)


def test_curves_end_in_tables_figures_and_a_report_and_trials_are_kept(data, tmp_path) -> None:
    arguments = (
        data, "--models", _MODELS, "--perturb", "negatives,labels", "--levels", "0,0.5",
        "--out", tmp_path, *_SMALL,
    )  # fmt: skip
    first = _run(*arguments)
    assert first.exit_code == 0, first.output
    # Trials without noise are shared: 2 systems x 2 trials x (1 clean + 2 kinds).
    assert "12 trials: 2 systems under splits:2 under sampled negatives (0, 0.5)" in first.stderr
    assert "expected time: about " in first.stderr
    assert "xendcg-mart − lambdamart" in first.stdout
    names = {path.name for path in tmp_path.iterdir()}
    figures = {f"{k}-{n}.svg" for k in ("negatives", "labels") for n in ("curves", "differences")}
    files = {"report.html", "results.json", "robustness.md", "robustness.tex"}
    assert figures | files <= names
    report = (tmp_path / "report.html").read_text()
    assert "Robustness curves" in report
    assert report.count("<polyline") == 6
    assert "How to repeat it" in report
    again = _run(*arguments, "--json")
    assert "12 are finished already" in again.stderr
    payload = json.loads(again.stdout)
    assert payload["noise"]["labels"]["levels"] == [0.0, 0.5]
    assert len(payload["noise"]["negatives"]["differences"]["xendcg-mart"]) == 2
    with RunStore(tmp_path / "runs.db") as store:
        assert len(store) == 12


def test_another_level_costs_only_its_own_trials(data, tmp_path) -> None:
    arguments = (data, "--models", _MODELS, "--perturb", "labels", "--out", tmp_path, *_SMALL)
    _run(*arguments, "--levels", "0,1")
    more = _run(*arguments, "--levels", "0,0.4,1")
    assert "12 trials" in more.stderr
    assert "8 are finished already" in more.stderr


def test_clicks_take_the_place_of_labels(data, tmp_path) -> None:
    result = _run(
        data, "--models", _MODELS, "--perturb", "clicks", "--levels", "0.05,0.3", "--out", tmp_path,
        *_SMALL, "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    curves = json.loads(result.stdout)["noise"]["clicks"]
    assert curves["corruption"] == "simulated clicks"
    assert [len(points) for points in curves["curves"].values()] == [2, 2]


def test_wrong_names_and_levels_are_refused_before_anything_is_read(tmp_path) -> None:
    absent = tmp_path / "absent.txt"
    result = _run(absent, "--models", _MODELS, "--perturb", "label")
    assert isinstance(result.exception, UsageError)
    assert "There are: negatives, labels" in str(result.exception)
    result = _run(absent, "--models", _MODELS, "--levels", "none")
    assert isinstance(result.exception, UsageError)
    assert "such as 0,0.5,1" in str(result.exception)


def test_the_help_names_every_kind_of_noise() -> None:
    text = _run("--help").output
    assert all(name in text for name in NOISE_KINDS)
