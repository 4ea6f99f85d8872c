"""Searches find good settings, go on where they were, and count nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import plackett as pk
import tuned_systems
from plackett.base.errors import DataError, UsageError
from plackett.experiments.store import RunStore
from plackett.experiments.tuning import Choice, Whole, plan_search, tune
from plackett.experiments.tuning.plan import build_ranker
from tuned_systems import FITS, SPACE, AngleRanker, search, small_data

pytest.importorskip("optuna")

SCRIPT = Path(tuned_systems.__file__)


def _suggestions(found):
    return [tuple(item.settings.values()) for item in found.trials]


def test_the_best_settings_are_those_of_the_best_trial(tmp_path) -> None:
    actual = search(tmp_path / "a.db", 12, pruner="none")
    values = [item.value for item in actual.trials]
    assert actual.value == max([*values, actual.recipe_value])
    assert actual.best is not None
    assert actual.settings == actual.best.settings
    assert actual.value > actual.recipe_value
    assert actual.ran == 12
    assert set(actual.importance) == set(SPACE)
    assert sum(actual.importance.values()) == pytest.approx(1.0)


def test_a_search_that_goes_on_suggests_what_an_uninterrupted_one_does(tmp_path) -> None:
    # Beyond the trials at random, so that suggestions depend on what was found.
    whole = search(tmp_path / "a.db", 13)
    search(tmp_path / "b.db", 7)
    FITS.clear()
    rest = search(tmp_path / "b.db", 13)
    assert rest.ran == 6
    assert 0 < len(FITS) <= 6
    assert _suggestions(rest) == _suggestions(whole)
    assert [item.value for item in rest.trials] == [item.value for item in whole.trials]
    FITS.clear()
    again = search(tmp_path / "b.db", 13)
    assert (again.ran, FITS) == (0, [])
    assert again.settings == whole.settings


def test_another_seed_space_or_metric_is_another_search(tmp_path) -> None:
    first = search(tmp_path / "a.db", 2)
    assert search(tmp_path / "a.db", 2, seed=1).study != first.study
    assert search(tmp_path / "a.db", 2, metric="map").study != first.study
    other = search(tmp_path / "a.db", 2, space={"angle": "0.0..1.0"})
    assert other.study != first.study
    assert search(tmp_path / "a.db", 2).ran == 0


def test_trials_that_are_behind_are_given_up_early(tmp_path) -> None:
    actual = search(tmp_path / "a.db", 16)
    states = [item.state for item in actual.trials]
    assert states[:5] == ["finished"] * 5
    assert 0 < states.count("pruned") < 11
    assert actual.best is not None
    assert actual.best.state == "finished"


@pytest.mark.parametrize("pruner", ["hyperband", "none"])
def test_other_pruners(tmp_path, pruner) -> None:
    # Hyperband shares trials out among brackets, of which one prunes nothing, by the name of the
    # search, and that changes with the code: one search in which none is pruned is no fault.
    pruned = any(
        item.state == "pruned"
        for seed in range(6 if pruner == "hyperband" else 1)
        for item in search(tmp_path / "a.db", 9, pruner=pruner, seed=seed).trials
    )
    assert pruned == (pruner == "hyperband")


def test_settings_that_cannot_be_fitted_fail_alone(tmp_path) -> None:
    actual = search(tmp_path / "a.db", 8, ranker=AngleRanker(limit=2.5))
    failed = [item for item in actual.trials if item.state == "failed"]
    assert failed
    assert all(item.settings["angle"] > 2.5 for item in failed)
    assert "is too large" in failed[0].reason
    assert len(failed) < 8


def test_a_search_in_which_nothing_can_be_fitted_ends(tmp_path) -> None:
    with pytest.raises(UsageError, match=r"none of the first 5 trials .* is too large"):
        search(tmp_path / "a.db", 20, ranker=AngleRanker(limit=0.5), space={"angle": "1.0..2.0"})


def test_the_mean_over_folds_counts(tmp_path) -> None:
    actual = search(tmp_path / "a.db", 2, folds=4, pruner="none", space={"rate": "0.5..0.6"})
    inputs = search(tmp_path / "a.db", 2, pruner="none", space={"rate": "0.5..0.6"})
    assert actual.study != inputs.study
    assert actual.recipe_value != inputs.recipe_value
    FITS.clear()
    search(tmp_path / "b.db", 2, folds=4, pruner="none", space={"rate": "0.5..0.6"})
    assert len(FITS) == 3 * 4


def test_validation_lists_of_folds_choose_and_their_test_lists_do_not() -> None:
    data = small_data(60)
    train, validation, test = pk.split(data, (0.6, 0.2, 0.2))
    other = pk.Fold("a", train, validation, test)
    options = {"trials": 3, "space": SPACE, "refit": False}
    by_fold = tune(other, AngleRanker(), **options)
    inputs = tune(train, AngleRanker(), validation=validation, **options)
    assert [item.value for item in by_fold.trials] == [item.value for item in inputs.trials]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_recipe_is_tuned_refitted_saved_and_says_so(tmp_path, jobs) -> None:
    actual = tune(
        small_data(),
        "listnet-linear",
        trials=4,
        space={"transforms": Choice((("standard",), ("query-minmax",)))},
        store=tmp_path / "a.db",
        jobs=jobs,
    )
    assert len(actual.trials) == 4
    assert actual.ranker is not None
    actual.ranker.save(tmp_path / "model")
    loaded = pk.load(tmp_path / "model")
    kept = loaded.training_["tuning"]
    assert (kept["trials"], kept["value"]) == (4, actual.value)
    for name, value in actual.settings.items():
        assert loaded.get_params()[name] == value
    assert not list(tmp_path.glob(".shared-*"))


def test_what_goes_wrong_in_a_worker_is_said_here(tmp_path) -> None:
    data = small_data(20)
    features = np.array(data.features)
    features[0, 0] = np.nan
    holed = data.with_features(features)
    with pytest.raises(DataError, match="cannot take missing features"):
        tune(holed, "listnet-linear", trials=4, store=tmp_path / "a.db", jobs=2)
    assert not list(tmp_path.glob(".shared-*"))


def test_nested_and_fixed_settings(tmp_path) -> None:
    actual = tune(
        small_data(20),
        "lambdamart",
        trials=2,
        settings={"trees": 3, "learning_rate": 0.1},
        space={"leaves": Whole(3, 5), "lightgbm.max_depth": "2..3"},
        store=tmp_path / "a.db",
    )
    assert "learning_rate" not in actual.plan.space
    assert {"objective.sigma", "lightgbm.lambda_l2", "lightgbm.max_depth"} <= set(actual.plan.space)
    for item in actual.trials:
        assert 3 <= item.settings["leaves"] <= 5
        assert item.settings["lightgbm.max_depth"] in (2, 3)
    ranker = actual.ranker
    assert (ranker.trees, ranker.learning_rate) == (3, 0.1)


def test_a_trial_has_its_threads_also_inside_a_cross_fit() -> None:
    plan = plan_search(pk.CrossFit(pk.LinearRanker()), space={"folds": "2..4"}, seed=3)
    ranker = build_ranker(plan, {"folds": 2}, 2)
    assert (ranker.folds, ranker.seed, ranker.ranker.threads) == (2, 3, 2)
    assert plan.ranker.ranker.threads is None
    assert build_ranker(plan_search(pk.LinearRanker(), space={"C": "1..2"}), {}, 2).threads == 2


def test_wrong_words_are_refused_before_any_work() -> None:
    data = small_data(20)
    with pytest.raises(UsageError, match=r"no parameter 'leafs'"):
        tune(data, "lambdamart", space={"leafs": "1..3"})
    with pytest.raises(UsageError, match="both fixed and searched"):
        tune(data, "lambdamart", space={"leaves": "4..8"}, settings={"leaves": 4})
    with pytest.raises(UsageError, match="no parameter 'slope'"):
        tune(data, "lambdamart", space={"objective.slope": "1..3"})
    with pytest.raises(UsageError, match="trials must be at least 1"):
        tune(data, "lambdamart", trials=0)


def _start(store, trials: int, pause: float) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), str(store), str(trials), str(pause)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _wait_for(process: subprocess.Popen[str], text: str) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        line = process.stdout.readline()
        if text in line:
            return
        assert line, "the script ended early"
    raise AssertionError(f"{text!r} never came")


def test_killed_in_the_midst_of_a_trial_a_search_goes_on_with_it(tmp_path) -> None:
    store = tmp_path / "a.db"
    process = _start(store, 6, 0.02)
    _wait_for(process, "trial 4")
    time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    FITS.clear()
    # The same ranker as the script's: its settings, the pause among them, name the search.
    options = {"ranker": AngleRanker(pause=0.02), "folds": 2}
    actual = search(store, 6, **options)
    assert 2 <= actual.ran <= 3
    assert len(FITS) <= 2 * actual.ran
    whole = search(tmp_path / "b.db", 6, **options)
    assert _suggestions(actual) == _suggestions(whole)
    assert [item.value for item in actual.trials] == [item.value for item in whole.trials]
    with RunStore(store) as kept:
        assert kept.held() == {}


def test_two_processes_share_a_search_and_run_no_trial_twice(place) -> None:
    other = _start(place, 6, 0.02)
    _wait_for(other, "trial 1")
    options = {"ranker": AngleRanker(pause=0.02), "folds": 2}
    ours = search(place, 6, **options)
    out, _ = other.communicate(timeout=120)
    assert other.returncode == 0
    assert int(out.splitlines()[-1].removeprefix("ran ")) + ours.ran == 6
    result = search(place, 6, **options)
    assert result.ran == 0
    assert [trial.number for trial in result.trials] == list(range(6))
