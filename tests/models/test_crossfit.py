"""Cross-fitting: every list is held out once a round, and members are averaged on one scale."""

from __future__ import annotations

import numpy as np
import pytest

import plackett as pk
from plackett.data.folds import concat
from plackett.models.checkpoint import Checkpoint
from plackett.models.crossfit import pooled_deviation, standardize


@pytest.fixture(scope="module")
def parts():
    return pk.split(pk.synthetic("letor", n_lists=90, seed=5), (0.6, 0.2, 0.2), seed=0)


def _tree(**settings):
    return pk.TreeRanker(trees=15, leaves=6, learning_rate=0.2, threads=1, **settings)


def test_every_list_is_held_out_once_in_each_round(parts) -> None:
    fit = pk.CrossFit(_tree(), folds=4, repeats=2, seed=3)
    rounds = [fit._part_of(parts[0], repeat) for repeat in (0, 1)]
    for part in rounds:
        counts = np.bincount(part, minlength=4)
        assert counts.sum() == parts[0].n_lists
        assert counts.max() - counts.min() <= 1
    assert not np.array_equal(*rounds)


def test_lists_of_one_group_are_held_out_together(parts) -> None:
    data = parts[0]._replace(groups=np.arange(parts[0].n_lists) // 5)
    fit = pk.CrossFit(_tree(), folds=4)
    part = fit._part_of(data, 0)
    for group in range(data.groups.max() + 1):
        assert len(set(part[data.groups == group])) == 1
    assert len(set(part)) == 4
    with pytest.raises(pk.DataError, match="2 groups of lists cannot be cut into 4 parts"):
        fit.fit(data._replace(groups=np.arange(data.n_lists) % 2))


def test_scores_are_the_mean_of_members_on_one_scale(parts) -> None:
    train, _, test = parts
    fit = pk.CrossFit(_tree(), folds=3).fit(train)
    expected = np.mean([m.predict(test) / s for m, s in zip(fit.members_, fit.scales_, strict=True)], axis=0)
    assert np.allclose(fit.predict(test), expected)
    part = fit._part_of(train, 0)
    held_out = train.select(np.flatnonzero(part == 1))
    assert fit.scales_[1] == pytest.approx(pooled_deviation(fit.members_[1].predict(held_out), held_out.offsets))


def test_members_differ_in_their_seed(parts) -> None:
    fit = pk.CrossFit(_tree(seed=7), folds=2).fit(parts[0])
    assert [member.seed for member in fit.members_] == [7, 8]


def test_validation_lists_are_rotated_too(parts) -> None:
    train, validation, test = parts
    both = pk.CrossFit(_tree(), folds=3).fit(train, validation)
    together = pk.CrossFit(_tree(), folds=3).fit(concat([train, validation]))
    assert np.array_equal(both.predict(test), together.predict(test))


def test_the_order_of_rows_does_not_matter(parts) -> None:
    train, _, test = parts
    order = np.random.default_rng(0).permutation(train.n_docs)
    shuffled = pk.Dataset.from_arrays(
        train.features[order], train.labels[order], -train.query_ids[order], feature_names=train.feature_names
    )
    first, second = (pk.CrossFit(_tree(), folds=2).fit(data).predict(test) for data in (train, shuffled))
    assert np.array_equal(first, second)


def test_a_killed_cross_fit_keeps_its_finished_members(parts, tmp_path) -> None:
    def stop(text, done, _total) -> None:
        if text.startswith("member 2") and done == 20:
            raise InterruptedError

    train, _, test = parts
    fit = pk.CrossFit(_tree(), folds=3)
    whole = fit.clone().fit(train).predict(test)
    with pytest.raises(InterruptedError):
        fit.clone().fit(train, checkpoint=tmp_path / "fit", progress=stop)
    seen = []
    resumed = fit.clone().fit(train, checkpoint=tmp_path / "fit", progress=lambda text, *_: seen.append(text[:8]))
    assert np.array_equal(resumed.predict(test), whole)
    assert set(seen) == {"member 2", "member 3"}


def test_a_checkpoint_resumes_with_another_number_of_threads(parts, tmp_path) -> None:
    fits = [pk.CrossFit(_tree().set_params(threads=n), folds=2) for n in (1, 2)]
    first, second = (fit.fit(parts[0], checkpoint=tmp_path / "fit") for fit in fits)
    assert np.array_equal(first.predict(parts[2]), second.predict(parts[2]))


def test_equal_scores_have_no_spread() -> None:
    offsets = np.array([0, 2, 4])
    scores = np.array([1.0, 1.0, 0.0, 2.0])
    assert np.array_equal(standardize(scores, offsets), [0.0, 0.0, -1.0, 1.0])
    assert pooled_deviation(np.ones(4), offsets) == 1.0
    assert pooled_deviation(scores, offsets) == pytest.approx(np.sqrt(0.5))


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (pk.CrossFit(), "needs a ranker"),
        (pk.CrossFit(_tree(), folds=1), "folds >= 2"),
        (pk.CrossFit(_tree(), combine="mean"), "'scale' or 'list', got 'mean'"),
        (pk.CrossFit(_tree(), folds=100), "54 lists cannot be cut into 100 parts"),
    ],
)
def test_an_impossible_cross_fit_raises(fit, message, parts) -> None:
    with pytest.raises(ValueError, match=message):
        fit.fit(parts[0])


def test_two_underscores_lead_into_the_ranker() -> None:
    ranker = pk.TreeRanker(leaves=31, learning_rate=0.1)
    fit = pk.CrossFit(ranker, folds=3)
    assert fit.set_params(ranker__leaves=np.int64(7), ranker__learning_rate=0.2, folds=4) is fit
    assert (fit.ranker.leaves, fit.ranker.learning_rate, fit.folds) == (7, 0.2, 4)
    assert type(fit.ranker.leaves) is int
    assert (ranker.leaves, ranker.learning_rate) == (31, 0.1)  # the caller's is unchanged


def test_changing_a_copy_leaves_the_original() -> None:
    fit = pk.CrossFit(pk.TreeRanker(leaves=31))
    assert fit.clone().set_params(ranker__leaves=7).ranker.leaves == 7
    assert fit.ranker.leaves == 31


def test_a_new_ranker_and_its_parameters_may_come_together_and_nest() -> None:
    inner = pk.CrossFit(pk.TreeRanker(leaves=31))
    fit = pk.CrossFit().set_params(ranker__ranker__leaves=5, ranker=inner)
    assert fit.ranker.ranker.leaves == 5
    assert inner.ranker.leaves == 31


def test_the_recipe_of_the_ranker_is_remembered() -> None:
    fit = pk.CrossFit(pk.recipe("lambdamart")).set_params(ranker__trees=5)
    assert fit.ranker.recipe_name == "lambdamart"


def test_parameters_by_name_are_those_of_the_cross_fit_itself() -> None:
    known = pk.CrossFit(pk.TreeRanker()).set_params(ranker__leaves=7).get_params()
    own = {"ranker", "folds", "repeats", "combine", "seed", "transforms", "stop_on", "jobs"}
    assert set(known) == own


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"ranker__leafs": 3}, "TreeRanker has no parameter 'leafs'. Did you mean"),
        ({"ranker__leaves": "many"}, "TreeRanker's leaves must be a whole number"),
        ({"folds__leaves": 3}, "'folds' is not a ranker"),
        ({"model__leaves": 3}, "'model' is not a ranker"),
        ({"leaves": 3}, "CrossFit has no parameter 'leaves'"),
    ],
)
def test_wrong_names_and_values_raise(settings, reason) -> None:
    with pytest.raises(pk.UsageError, match=reason):
        pk.CrossFit(pk.TreeRanker()).set_params(**settings)
    with pytest.raises(pk.UsageError, match="'ranker' is not a ranker, so its 'leaves'"):
        pk.CrossFit().set_params(ranker__leaves=3)


@pytest.mark.parametrize("stop_on", ["held-out", "next"])
def test_out_of_fold_scores_come_from_members_that_did_not_see_the_list(parts, stop_on) -> None:
    train = parts[0]
    fit = pk.CrossFit(_tree(), folds=3, stop_on=stop_on).fit(train)
    scores = fit.out_of_fold(train)
    part = fit._part_of(train, 0)
    for i, (member, scale) in enumerate(zip(fit.members_, fit.scales_, strict=True)):
        held_out = train.select(np.flatnonzero(part == i))
        documents = np.repeat(part == i, np.diff(train.offsets))
        assert np.array_equal(scores[documents], member.predict(held_out) / scale)
        seen = member.training_["train"]["lists"] + member.training_["validation"]["lists"]
        assert seen == train.n_lists if stop_on == "held-out" else train.n_lists - held_out.n_lists
        if stop_on == "next":
            n_next = int(np.sum(part == (i + 1) % 3))
            assert member.training_["validation"]["lists"] == n_next
    assert pk.evaluate(scores, train, "ndcg@10")["ndcg@10"] > 0.4


def test_stopping_on_the_next_part_needs_three(parts) -> None:
    with pytest.raises(pk.UsageError, match='stop_on="next" needs folds >= 3, got 2'):
        pk.CrossFit(_tree(), folds=2, stop_on="next").fit(parts[0])


def test_members_fitted_in_processes_are_those_of_one_process(parts, tmp_path) -> None:
    data = parts[0]._replace(groups=np.arange(parts[0].n_lists) // 2)
    alone = pk.CrossFit(_tree(), folds=3).fit(data)
    reported: list[tuple[int, int]] = []
    both = pk.CrossFit(_tree(), folds=3, jobs=2).fit(
        data, checkpoint=tmp_path, progress=lambda _text, done, total: reported.append((done, total))
    )
    np.testing.assert_array_equal(both.predict(parts[2]), alone.predict(parts[2]))
    assert both.members_[0].threads == 1
    assert reported[-1] == (3, 3)
    assert sorted(p.name for p in tmp_path.glob("member-*")) == ["member-0", "member-1", "member-2"]


def test_processes_refuse_callbacks(parts) -> None:
    with pytest.raises(pk.UsageError, match="jobs=1"):
        pk.CrossFit(_tree(), folds=3, jobs=2).fit(parts[0], callbacks=lambda _: False)


def test_members_share_the_bins_of_all_lists(parts, monkeypatch) -> None:
    from plackett.models.trees import lightgbm_data

    binned = []
    make = lightgbm_data.make_lightgbm_dataset
    monkeypatch.setattr(
        lightgbm_data, "make_lightgbm_dataset", lambda ranker, data: binned.append(data.n_docs) or make(ranker, data)
    )
    train, validation, _ = parts
    fit = pk.CrossFit(_tree(), folds=3).fit(train, validation)
    assert binned == [train.n_docs + validation.n_docs]
    assert all(member.whole is None for member in fit.members_)


def test_a_member_that_was_killed_between_trees_is_continued_to_the_bit(parts, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(Checkpoint, "due", lambda _: True)
    calls = []

    def stop(step) -> None:
        calls.append(step.step)
        if len(calls) == 25:
            raise KeyboardInterrupt

    whole = pk.CrossFit(_tree(), folds=3).fit(parts[0])
    with pytest.raises(KeyboardInterrupt):
        pk.CrossFit(_tree(), folds=3).fit(parts[0], checkpoint=tmp_path, callbacks=[stop])
    assert len(list(tmp_path.rglob("model.txt"))) > 1
    again = pk.CrossFit(_tree(), folds=3).fit(parts[0], checkpoint=tmp_path)
    assert [m.model_ for m in again.members_] == [m.model_ for m in whole.members_]
