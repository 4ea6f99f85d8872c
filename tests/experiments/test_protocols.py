from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest

import plackett as pk
from plackett.base.errors import UsageError
from plackett.data.folds import Fold
from plackett.experiments.protocols import Folds, Holdout, Seeds, Splits, as_source, protocol
from plackett.experiments.results import drop_features


@pytest.fixture(scope="module")
def whole():
    return pk.synthetic("letor", n_lists=60, seed=3)


@pytest.fixture(scope="module")
def fold(whole):
    return Fold("Fold1", *pk.split(whole, (0.5, 0.25, 0.25), seed=9))


def _lists(data) -> set[int]:
    return set(data.keys.tolist())


def _check_disjoint(trial) -> None:
    train, validation, test = (_lists(d) for d in (trial.train, trial.validation, trial.test))
    assert not train & validation
    assert not train & test
    assert not validation & test


@pytest.mark.parametrize("spelling", ["folds", "folds:5", "splits:7", "seeds:3", "holdout"])
def test_spellings_read_back(spelling: str) -> None:
    assert str(protocol(spelling)) == spelling
    assert protocol(str(protocol(spelling, seed=4)), seed=4) == protocol(spelling, seed=4)


@pytest.mark.parametrize("wrong", ["fold", "splits:", "splits:x", "holdout:3", "splits:-2"])
def test_other_spellings_are_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match=r"There are: folds, folds:N, splits:N"):
        protocol(wrong)


@pytest.mark.parametrize("wrong", ["folds:2", "splits:1", "seeds:0"])
def test_too_few_trials_are_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="must be at least"):
        protocol(wrong)


@pytest.mark.parametrize("spelling", ["folds:5", "splits:4", "seeds:3", "holdout"])
def test_trials_are_values_the_same_whenever_they_are_made(whole, spelling: str) -> None:
    source, chosen = as_source(whole), protocol(spelling, seed=2)
    plan = chosen.splits(source)
    assert plan == pickle.loads(pickle.dumps(chosen.splits(as_source(whole))))
    for part in reversed(plan):
        one, again = chosen.load(source, part), chosen.load(as_source(whole), part)
        _check_disjoint(one)
        for a, b in pairwise([one, again]):
            assert np.array_equal(a.train.keys, b.train.keys)
            assert np.array_equal(a.validation.keys, b.validation.keys)
            assert np.array_equal(a.test.keys, b.test.keys)


@pytest.mark.parametrize("spelling", ["folds:5", "splits:4", "seeds:3"])
def test_no_two_trials_of_a_plan_are_determined_by_the_same(whole, spelling: str) -> None:
    plan = protocol(spelling).splits(as_source(whole))
    assert len({(part.data, part.division, part.seed) for part in plan}) == len(plan)


def test_folds_that_are_cut_test_every_list_once_and_learn_from_the_rest(whole) -> None:
    source, chosen = as_source(whole), Folds(4)
    trials = [chosen.load(source, part) for part in chosen.splits(source)]
    assert sorted(k for t in trials for k in t.test.keys.tolist()) == sorted(whole.keys.tolist())
    assert [t.train.n_lists for t in trials] == [30] * 4
    assert _lists(trials[0].validation) == _lists(trials[1].test)


def test_folds_that_the_data_come_in_are_taken_as_they_are(fold) -> None:
    other = Fold("Fold2", fold.validation, fold.train, fold.test)
    source = as_source([fold, other])
    plan = Folds().splits(source)
    assert [part.name for part in plan] == ["Fold1", "Fold2"]
    assert plan[0].data != plan[1].data
    trial = Folds().load(source, plan[1])
    assert trial.train is fold.validation
    assert trial.test is fold.test


def test_a_fold_without_validation_lists_lends_some_of_its_training_lists(fold) -> None:
    source = as_source(Fold("F", fold.train, None, fold.test))
    (part,) = Holdout().splits(source)
    trial = Holdout().load(source, part)
    _check_disjoint(trial)
    assert (trial.train.n_lists, trial.validation.n_lists) == (24, 6)
    assert "seed 0" in part.division


def test_a_fold_is_the_same_trial_under_folds_seeds_and_holdout(fold) -> None:
    source = as_source(fold)
    (one,), (other,) = Folds(seed=5).splits(source), Holdout(5).splits(source)
    first = Seeds(3, 5).splits(source)[0]
    for part in (other, first):
        assert (part.data, part.division, part.seed) == (one.data, one.division, one.seed)


def test_splits_take_three_fifths_one_fifth_one_fifth_of_all_lists(fold, whole) -> None:
    source = as_source(fold)
    trial = Splits(3).load(source, Splits(3).splits(source)[2])
    assert (trial.train.n_lists, trial.validation.n_lists, trial.test.n_lists) == (36, 12, 12)
    together = _lists(trial.train) | _lists(trial.validation) | _lists(trial.test)
    assert together == _lists(whole)


def test_test_lists_of_several_folds_are_pooled_once(fold) -> None:
    other = Fold("Fold2", fold.test, fold.train, fold.validation)
    assert as_source([fold, other]).pooled.n_lists == fold.test.n_lists + fold.validation.n_lists


def test_seeds_repeat_the_same_lists(whole) -> None:
    source, chosen = as_source(whole), Seeds(3, seed=7)
    trials = [chosen.load(source, part) for part in chosen.splits(source)]
    assert [part.seed for part in chosen.splits(source)] == [7, 8, 9]
    assert len({t.test.keys.tobytes() for t in trials}) == 1


def test_protocols_that_do_not_fit_the_data_say_what_does(whole, fold) -> None:
    with pytest.raises(UsageError, match=r"does not come in folds; use folds:5"):
        Folds().splits(as_source(whole))
    with pytest.raises(UsageError, match=r"has 2 folds.*Fold1, Fold1.*or use the protocol folds"):
        Holdout().splits(as_source([fold, fold]))
    with pytest.raises(UsageError, match="sequence of folds is empty"):
        as_source([])


@pytest.mark.parametrize("spelling", ["folds:3", "splits:2", "seeds:2", "holdout"])
def test_lists_without_features_are_divided_alike(spelling) -> None:
    source = as_source(pk.synthetic("letor", n_lists=30, seed=3))
    way = protocol(spelling, seed=1)
    light = drop_features(source, way)
    for part in way.splits(source):
        ours, theirs = way.load(light, part), way.load(source, part)
        for name in ("train", "validation", "test"):
            a, b = getattr(ours, name), getattr(theirs, name)
            assert a.n_features == 0
            for field in ("labels", "offsets", "query_ids", "rows", "keys"):
                np.testing.assert_array_equal(getattr(a, field), getattr(b, field))
