from __future__ import annotations

import numpy as np
import pytest

import plackett as pk
from plackett.base.errors import DataError, UsageError
from plackett.experiments.compare import compare
from plackett.experiments.plan import forecast, plan_comparison
from plackett.experiments.store import RunStore
from plackett.experiments.systems import as_systems
from small_systems import FITS, FeatureRanker, linear_systems, small_data


@pytest.fixture(scope="module")
def data():
    return small_data()


@pytest.fixture
def systems():
    return {f"f{i}": FeatureRanker(feature=i) for i in range(3)}


def test_a_comparison_that_is_run_again_trains_nothing(data, systems, tmp_path) -> None:
    store = tmp_path / "runs.db"
    first = compare(data, systems, protocol="folds:4", metrics="ndcg@5", store=store)
    FITS.clear()
    again = compare(data, systems, protocol="folds:4", metrics="ndcg@5", store=store)
    assert (first.ran, again.ran, FITS) == (12, 0, [])
    assert first.board == again.board


def test_a_comparison_prints_as_a_table(data, systems) -> None:
    result = compare(data, {"<b>": systems["f0"], "f1": systems["f1"]}, metrics="ndcg@5,map", progress=None)
    lines = repr(result).splitlines()
    assert lines[0].split() == ["system", "ndcg@5", "map", "p"]
    assert len(lines) == 4
    assert "worse than <b> (base); p of ndcg@5" in lines[-1]
    assert "<td>&lt;b&gt;</td>" in result._repr_html_()
    first, *_ = result.board.rows()
    assert list(first) == ["system", "ndcg@5", "map", "difference", "p", "verdict", "seconds"]


def test_more_trials_models_or_metrics_train_only_what_is_new(data, systems, tmp_path) -> None:
    store = tmp_path / "runs.db"
    compare(data, systems, protocol="splits:2", metrics="ndcg@5", store=store)
    FITS.clear()
    with_metric = compare(data, systems, protocol="splits:2", metrics="map,ndcg@5", store=store)
    assert (with_metric.ran, FITS) == (0, [])
    assert list(with_metric.board.metrics) == ["map", "ndcg@5"]
    compare(data, systems, protocol="splits:3", metrics="ndcg@5", store=store)
    assert sorted(FITS) == ["0/2", "1/2", "2/2"]
    FITS.clear()
    more = systems | {"f7": FeatureRanker(feature=7)}
    compare(data, more, protocol="splits:3", metrics="ndcg@5", store=store)
    assert FITS == ["7/0", "7/1", "7/2"]


def test_values_of_folds_are_those_of_each_fold_one_after_the_other(data, systems) -> None:
    comparison = compare(data, systems, protocol="folds:4", metrics="ndcg@5")
    plan = comparison.plan
    expected = []
    for part in plan.protocol.splits(plan.source):
        trial = plan.protocol.load(plan.source, part)
        ranker = FeatureRanker(feature=1).fit(trial.train, trial.validation)
        expected.append(pk.per_list(ranker.predict(trial.test), trial.test, "ndcg@5")["ndcg@5"])
    values = comparison.results.values["f1"]["ndcg@5"]
    assert np.array_equal(values, np.concatenate(expected), equal_nan=True)
    entry = next(e for e in comparison.board.entries if e.name == "f1")
    assert entry.means["ndcg@5"] == pytest.approx(np.nanmean(values))
    assert comparison.board.n_lists == data.n_lists
    low, high = entry.intervals["ndcg@5"]
    assert low < entry.means["ndcg@5"] < high


def test_splits_are_compared_by_trial_at_the_stricter_level(data, systems) -> None:
    board = compare(data, systems, protocol="splits:5", metrics="ndcg@5").board
    assert (board.unit, board.alpha, board.test, board.n_counted) == ("trials", 0.01, "t_test", 5)
    entry = next(e for e in board.entries if e.name != board.baseline)
    assert entry.comparisons["ndcg@5"].n_lists == 5


def test_seeds_give_intervals_over_seeds_and_tests_over_lists(data) -> None:
    noisy = {"quiet": FeatureRanker(), "noisy": FeatureRanker(noise=5.0)}
    comparison = compare(data, noisy, protocol="seeds:4", metrics="ndcg@5")
    quiet, loud = (next(e for e in comparison.board.entries if e.name == name) for name in ("quiet", "noisy"))
    assert quiet.intervals["ndcg@5"] == pytest.approx((quiet.means["ndcg@5"],) * 2)
    low, high = loud.intervals["ndcg@5"]
    assert low < loud.means["ndcg@5"] < high
    assert loud.means["ndcg@5"] == pytest.approx(comparison.results.trial_means["noisy"]["ndcg@5"].mean())
    assert (comparison.board.unit, comparison.board.n_lists) == ("lists", 8)


def test_the_same_system_under_two_names_is_trained_once(data) -> None:
    FITS.clear()
    comparison = compare(data, {"a": FeatureRanker(), "b": FeatureRanker()}, metrics="ndcg@5")
    assert FITS == ["0/0"]
    assert [e.means for e in comparison.board.entries] == [comparison.board.entries[0].means] * 2


def test_a_trial_that_fails_stops_the_comparison_and_keeps_the_others(data, systems, tmp_path) -> None:
    broken = systems | {"broken": FeatureRanker(feature=999)}
    with pytest.raises(DataError, match="no feature 999"):
        compare(data, broken, protocol="folds:3", store=tmp_path / "runs.db")
    with RunStore(tmp_path / "runs.db") as store:
        assert len(store) == 3
        assert store.held() == {}
    FITS.clear()
    compare(data, systems, protocol="folds:3", store=tmp_path / "runs.db")
    assert len(FITS) == 6


def test_worker_processes_find_the_same_as_one_process(data, tmp_path) -> None:
    systems = linear_systems() | {"trees": pk.recipe("lambdamart", trees=3, leaves=4)}
    arguments = {"protocol": "folds:3", "metrics": "ndcg@5,map"}
    one = compare(data, systems, **arguments)
    several = compare(data, systems, jobs=2, store=tmp_path / "runs.db", **arguments)
    assert several.ran == 12
    for name in systems:
        for metric in ("ndcg@5", "map"):
            a, b = (item.results.values[name][metric] for item in (one, several))
            assert np.array_equal(a, b, equal_nan=True)
    assert several.results.curves == one.results.curves
    assert several.results.curves.keys() == {"trees"}


def test_a_worker_that_fails_says_why_as_one_process_does(data) -> None:
    systems = {"a": pk.LinearRanker("listnet", C=1.0), "b": pk.LinearRanker("nonsense", C=1.0)}
    with pytest.raises(UsageError, match="nonsense"):
        compare(data, systems, jobs=2)


def test_the_forecast_counts_what_is_finished(data, systems, tmp_path) -> None:
    plan = plan_comparison(data, systems, protocol="folds:3")
    with RunStore(tmp_path / "runs.db") as store:
        before = forecast(plan, store=store)
        compare(data, systems, protocol="folds:3", store=tmp_path / "runs.db")
        after = forecast(plan, store=store)
    assert (before.trials, before.finished) == (9, 0)
    assert before.seconds > 0
    assert (after.trials, after.finished, after.seconds) == (9, 9, 0.0)


def test_the_forecast_grows_with_the_number_of_trees(data, tmp_path) -> None:
    long = {"long": pk.recipe("xendcg-mart", trees=1_000_000, patience=1_000_000)}
    plan = plan_comparison(data, long)
    with RunStore(tmp_path / "runs.db") as store:
        assert forecast(plan, store=store).seconds > 60


def test_settings_and_presets_go_to_the_models_that_have_them() -> None:
    names = ["lambdamart", "listnet-linear"]
    trees, linear = as_systems(names, preset="A-web30k", settings={"trees": 7})
    assert (trees.ranker.trees, trees.ranker.leaves) == (7, 400)
    assert "trees" not in linear.ranker.get_params()
    with pytest.raises(UsageError, match=r"no parameter 'treez'.* Did you mean 'trees'"):
        as_systems(names, settings={"treez": 7})
    with pytest.raises(UsageError, match="has the preset 'Z'"):
        as_systems(names, preset="Z")
    with pytest.raises(UsageError, match="'lambdamart' is named twice"):
        as_systems(["lambdamart", "lambdamart"])
    with pytest.raises(UsageError, match="no models were given"):
        as_systems([])


def test_threads_and_names_do_not_change_what_a_trial_is(data) -> None:
    one = plan_comparison(data, {"a": pk.recipe("lambdamart", threads=1)})
    other = plan_comparison(data, {"b": pk.recipe("lambdamart", threads=2)})
    assert one.trials[0].identity.digest == other.trials[0].identity.digest
    third = plan_comparison(data, {"a": pk.recipe("lambdamart", leaves=5)})
    assert one.trials[0].identity.digest != third.trials[0].identity.digest


def test_the_seed_reaches_models_inside_models() -> None:
    (system,) = as_systems({"x": pk.CrossFit(pk.recipe("lambdamart"), folds=3)})
    ranker = system.build(seed=5, threads=1)
    assert (ranker.seed, ranker.ranker.seed, ranker.ranker.threads) == (5, 5, 1)
    assert system.ranker.ranker.seed == 0
    assert "lightgbm" in system.libraries()


def test_a_model_keeps_its_threads_unless_the_comparison_sets_them() -> None:
    (system,) = as_systems({"trees": pk.recipe("lambdamart", threads=4)})
    assert system.build(seed=0).threads == 4
    assert system.build(seed=0, threads=1).threads == 1


def test_what_cannot_be_compared_is_refused(data, systems) -> None:
    with pytest.raises(UsageError, match="baseline 'x' is not among the models f0, f1, f2"):
        compare(data, systems, baseline="x")
    with pytest.raises(UsageError, match="no metric"):
        compare(data, systems, metrics="nonsense@5")
    with pytest.raises(UsageError, match="jobs must be at least 1"):
        compare(data, systems, jobs=0)


class _Fails(pk.LinearRanker):
    """Cannot be fitted with one seed."""

    def _fit(self, train, validation, run) -> None:
        if self.seed == 3:
            raise self.refusal("the fourth is refused.")
        super()._fit(train, validation, run)


@pytest.mark.parametrize("kind", [DataError, UsageError, ZeroDivisionError])
def test_a_trial_that_fails_is_named_and_the_others_are_kept(data, tmp_path, kind) -> None:
    _Fails.refusal = kind
    systems = {"good": pk.LinearRanker("listnet", C=1.0), "bad": _Fails("listnet", C=1.0)}
    raised = RuntimeError if kind is ZeroDivisionError else kind
    with pytest.raises(raised, match=r"^bad, split 4: the fourth is refused\."):
        compare(data, systems, protocol="splits:6", store=tmp_path / "runs.db")
    with RunStore(tmp_path / "runs.db") as store:
        assert len(store) == 7


def test_models_may_come_from_a_generator() -> None:
    systems = as_systems(name for name in ("lambdamart", "listnet-linear"))
    assert [system.name for system in systems] == ["lambdamart", "listnet-linear"]
