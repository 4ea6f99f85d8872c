"""AutoRanker: the best ensemble for a budget, reproducible, resumable, and never too late."""

from __future__ import annotations

import numpy as np
import pytest

import plackett as pk
from plackett.models.auto import portfolio, ranker as auto_ranker
from plackett.models.auto.portfolio import BASELINE, Candidate
from plackett.models.auto.search import Search

_TREES = {"trees": 12, "leaves": 6, "learning_rate": 0.2, "patience": 6, "smoothing": 1}
TINY = (
    Candidate("linear", "listnet-linear", {"C": 1.0, "max_iterations": 20}, 0.1),
    Candidate(BASELINE, "lightgbm-lambdarank", _TREES, 0.2),
    Candidate("lambdaloss", "e-lambdaloss-mart", _TREES, 0.3),
    Candidate("xendcg", "e-xendcg-mart", _TREES, 0.3),
)


class Clock:
    """A clock that only moves when it is read."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 0.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    monkeypatch.setattr(portfolio, "CANDIDATES", TINY)
    monkeypatch.setattr(pk.AutoRanker, "clock", Clock())


@pytest.fixture(scope="module")
def parts():
    return pk.split(pk.synthetic("letor", n_lists=70, seed=5), (0.7, 0.3), seed=0)


def _auto(**parameters):
    return pk.AutoRanker(**{"minutes": 1, "folds": 3, "threads": 1, "seed": 1, "variations": 0} | parameters)


@pytest.fixture(scope="module")
def fitted(parts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(portfolio, "CANDIDATES", TINY)
        patch.setattr(pk.AutoRanker, "clock", Clock())
        return _auto().fit(parts[0])


def test_it_ranks_unseen_lists_better_than_chance(fitted, parts) -> None:
    test = parts[1]
    nothing = pk.evaluate(np.zeros(test.n_docs), test, "ndcg@10")["ndcg@10"]
    assert pk.evaluate(fitted.predict(test), test, "ndcg@10")["ndcg@10"] > nothing + 0.03


def test_weights_sum_to_one_and_every_member_has_some(fitted) -> None:
    assert fitted.weights_.sum() == pytest.approx(1.0)
    assert (fitted.weights_ > 0).all()
    assert len(fitted.members_) == len(fitted.member_names_) == len(fitted.weights_)


def test_the_score_is_the_weighted_sum_of_the_members(fitted, parts) -> None:
    scores = fitted.member_scores(parts[1])
    weights = dict(zip(fitted.member_names_, fitted.weights_, strict=True))
    expected = sum(weights[name] * scores[name] for name in scores)
    assert np.allclose(fitted.predict(parts[1]), expected, rtol=1e-9, atol=1e-12)


def test_the_leaderboard_has_every_candidate_and_the_ensemble_first(fitted) -> None:
    rows = {row.name: row for row in fitted.leaderboard_}
    assert set(rows) == {"ensemble", *(c.name for c in TINY)}
    assert fitted.leaderboard_[0].name == "ensemble"
    best = max((row for row in fitted.leaderboard_[1:]), key=lambda row: row.value)
    assert best.p_best is None
    assert rows[BASELINE].p_baseline is None
    assert 0 <= rows["ensemble"].p_baseline <= 1
    assert rows["ensemble"].low < rows["ensemble"].value < rows["ensemble"].high
    assert "lambdaloss" in fitted.leaderboard()


def test_a_saved_model_scores_as_before(fitted, parts, tmp_path) -> None:
    fitted.save(tmp_path / "m.plackett")
    back = pk.load(tmp_path / "m.plackett")
    assert np.array_equal(back.predict(parts[1]), fitted.predict(parts[1]))
    assert back.leaderboard_ == fitted.leaderboard_
    assert back.summary() == fitted.summary()


def test_the_same_seed_and_shuffled_rows_give_the_same_model(fitted, parts) -> None:
    data = parts[0]
    ids = np.repeat(np.arange(data.n_lists), np.diff(data.offsets))
    rows = np.random.default_rng(0).permutation(data.n_docs)
    shuffled = pk.Dataset.from_arrays(
        data.features[rows], data.labels[rows], ids[rows], feature_names=data.feature_names
    )
    again = _auto().fit(shuffled)
    assert np.array_equal(again.predict(parts[1]), fitted.predict(parts[1]))


def test_a_killed_fit_goes_on_where_it_was(fitted, parts, tmp_path) -> None:
    class KilledError(BaseException):
        pass

    calls: list[str] = []

    def kill(text: str, *_: int) -> None:
        calls.append(text)
        if text.startswith("lambdaloss, member 2"):
            raise KilledError

    with pytest.raises(KilledError):
        _auto().fit(parts[0], checkpoint=tmp_path / "work", progress=kill)
    calls.clear()

    def watch(text: str, *_: int) -> None:
        calls.append(text)

    again = _auto().fit(parts[0], checkpoint=tmp_path / "work", progress=watch)
    assert np.array_equal(again.predict(parts[1]), fitted.predict(parts[1]))
    assert not any(text.startswith(("linear", BASELINE)) for text in calls)
    assert not any(text.startswith("lambdaloss, member 1") for text in calls)
    # More minutes continue the same work; other data does not.
    _auto(minutes=2).fit(parts[0], checkpoint=tmp_path / "work")
    with pytest.raises(pk.UsageError, match="belongs to another fit"):
        _auto().fit(parts[1], checkpoint=tmp_path / "work")


def test_control_c_gives_the_best_so_far(parts) -> None:
    def interrupt(text: str, *_: int) -> None:
        if text.startswith("lambdaloss"):
            raise KeyboardInterrupt

    ranker = _auto().fit(parts[0], progress=interrupt)
    names = {row.name for row in ranker.leaderboard_}
    assert names == {"ensemble", "linear", BASELINE}

    def at_once(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _auto().fit(parts[0], progress=at_once)


def test_a_callback_can_end_the_search(parts) -> None:
    seen = []

    def stop(step) -> bool:
        seen.append(step)
        return step.step == 2

    ranker = _auto().fit(parts[0], callbacks=stop)
    assert {row.name for row in ranker.leaderboard_} == {"ensemble", "linear", BASELINE}
    assert seen[0].metrics["validation"]["ndcg@10"] > 0


def test_the_budget_is_kept(parts, monkeypatch) -> None:
    clock = Clock(step=0.25)
    monkeypatch.setattr(pk.AutoRanker, "clock", clock)
    ranker = _auto(minutes=1).fit(parts[0])
    notes = {row.name: row.note for row in ranker.leaderboard_}
    assert any("not finished" in note or "left out" in note for note in notes.values())
    assert 40 < clock.now < 66


def test_too_little_time_gives_the_simplest_model_and_a_warning(parts, monkeypatch) -> None:
    monkeypatch.setattr(pk.AutoRanker, "clock", Clock(step=5.0))
    with pytest.warns(pk.DataWarning, match="enough for one candidate only"):
        ranker = _auto(minutes=0.01).fit(parts[0])
    assert ranker.member_names_ == ("linear",)


def test_too_few_lists_give_one_linear_model_and_a_warning(parts) -> None:
    few = parts[0].lists(0, 4)
    with pytest.warns(pk.DataWarning, match="4 lists are too few for cross-fitting"):
        ranker = _auto().fit(few)
    assert np.isfinite(ranker.predict(parts[1])).all()
    assert ranker.leaderboard_ == ()


def test_constant_features_are_refused_as_by_every_model(parts) -> None:
    data = parts[0].with_features(np.ones((parts[0].n_docs, 2), np.float32))
    with pytest.raises(pk.DataError, match="no feature differs between the documents of a list"):
        _auto().fit(data)


def test_bad_input_is_refused_with_a_remedy(parts) -> None:
    one_level = parts[0].with_labels(np.ones(parts[0].n_docs))
    with pytest.raises(pk.DataError, match="no list has two levels of labels"):
        _auto().fit(one_level)
    with pytest.raises(pk.UsageError, match="minutes > 0"):
        _auto(minutes=0).fit(parts[0])
    with pytest.raises(pk.UsageError, match="folds >= 3"):
        _auto(folds=2).fit(parts[0])
    with pytest.raises(pk.UsageError, match=r"there is no member 'tres'\. Did you mean 'trees'"):
        _auto(members="tres").fit(parts[0])
    with pytest.raises(pk.UsageError, match="tries trees only"):
        _auto(members="linear").fit(parts[0], presets="good")


def test_missing_values_are_imputed_for_members_that_need_it(parts) -> None:
    X = parts[0].features.copy()
    X[::5, 3] = np.nan
    ranker = _auto(members=("linear", "xendcg")).fit(parts[0].with_features(X))
    assert all(row.value is not None for row in ranker.leaderboard_)


def test_members_whose_fits_cannot_be_resumed_are_tried_too(parts, monkeypatch) -> None:
    random = Candidate("random", "xendcg-mart", _TREES | {"lightgbm.extra_trees": True})
    monkeypatch.setattr(portfolio, "CANDIDATES", (random,))
    assert _auto().fit(parts[0]).member_names_ == ("random",)


def test_presets_choose_what_is_tried(parts, monkeypatch) -> None:
    ranker = _auto().fit(parts[0], presets="good")
    tried = {row.name for row in ranker.leaderboard_}
    assert tried == {"ensemble", BASELINE, "lambdaloss", "xendcg"}
    assert not ranker._terms[1]
    assert len(ranker._terms[0]) == 1
    small = Candidate("e-lambdaloss-smooth", "e-lambdaloss-mart", _TREES)
    monkeypatch.setattr(portfolio, "CANDIDATES", (small,))
    monkeypatch.setattr("plackett.models.auto.ranker._FAST_SETTINGS", {"trees": 5})
    assert len(_auto(presets="fast").fit(parts[0]).members_) == 1


def test_trees_are_distilled_into_one_model(parts, tmp_path, monkeypatch) -> None:
    from plackett.models.auto import distillation

    monkeypatch.setattr(distillation, "_TREES", 30)
    monkeypatch.setattr(distillation, "_DOCUMENTS", 2000)
    ranker = _auto(distill="trees").fit(parts[0])
    distilled = ranker.distillation_
    assert distilled is not None
    assert distilled.trees == 30
    assert distilled.lists > 0
    assert distilled.loss == pytest.approx(distilled.ensemble_value - distilled.value)
    ensemble = sum(w * s for w, s in zip(ranker.weights_, ranker.member_scores(parts[1]).values(), strict=True))
    assert np.corrcoef(ranker.predict(parts[1]), ensemble)[0, 1] > 0.8
    assert not ranker._terms[1]
    ranker.save(tmp_path / "m.plackett")
    back = pk.load(tmp_path / "m.plackett")
    assert np.array_equal(back.predict(parts[1]), ranker.predict(parts[1]))
    assert back.distillation_.to_dict() == distilled.to_dict()
    assert back.members_ == ()


def test_members_that_are_trees_are_kept_by_distillation(parts, tmp_path) -> None:
    ranker = _auto(presets="good", distill="trees").fit(parts[0])
    assert ranker.distillation_.ranker is None
    assert ranker.distillation_.loss == 0.0
    ensemble = sum(w * s for w, s in zip(ranker.weights_, ranker.member_scores(parts[1]).values(), strict=True))
    assert np.allclose(ranker.predict(parts[1]), ensemble)
    ranker.save(tmp_path / "m.plackett")
    back = pk.load(tmp_path / "m.plackett")
    assert back.distillation_.loss == 0.0
    assert np.array_equal(back.predict(parts[1]), ranker.predict(parts[1]))


def test_variations_of_the_best_are_tried_if_there_is_time(parts) -> None:
    first, again = (_auto(variations=2, members=("xendcg", "lambdaloss")).fit(parts[0]) for _ in range(2))
    names = [row.name for row in first.leaderboard_]
    assert sum("~" in name for name in names) == 2
    assert np.array_equal(first.predict(parts[1]), again.predict(parts[1]))


def test_finished_variations_are_kept_if_the_time_was_up_when_the_fit_was_killed(parts, tmp_path) -> None:
    auto = _auto(variations=2, members=("xendcg", "lambdaloss"))
    first = auto.clone().fit(parts[0], checkpoint=tmp_path / "work")
    (tmp_path / "work" / "spent.json").write_text('{"seconds": 3600}')
    again = auto.fit(parts[0], checkpoint=tmp_path / "work")
    assert [row.name for row in again.leaderboard_] == [row.name for row in first.leaderboard_]
    assert np.array_equal(first.predict(parts[1]), again.predict(parts[1]))


def test_a_variation_stays_inside_the_search_space() -> None:
    from plackett.models.recipes.search_spaces import Choice, get_setting, search_space_of

    for candidate in portfolio.CANDIDATES:
        for number in range(5):
            ranker = portfolio.vary(candidate, number, 3).build(seed=0, threads=1)
            for path, dimension in search_space_of(ranker).items():
                value = get_setting(ranker, path)
                if isinstance(value, (int, float)) and not isinstance(dimension, Choice):
                    assert 0 <= value <= dimension.high
    assert portfolio.vary(TINY[2], 1, 0) == portfolio.vary(TINY[2], 1, 0)
    assert portfolio.vary(TINY[2], 1, 0).settings != portfolio.vary(TINY[2], 2, 0).settings


def test_a_damaged_file_is_refused(tmp_path) -> None:
    from plackett.models.auto.ranker import AutoRanker

    folder = tmp_path / "m"
    folder.mkdir()
    ranker = AutoRanker()
    for content in ("[]", '{"names": ["a"], "weights": [], "parts": [], "leaderboard": [], "distillation": null}'):
        (folder / "auto.json").write_text(content)
        with pytest.raises(pk.DataError, match=r"auto\.json"):
            ranker._read(folder)


def test_time_of_a_candidate_is_predicted_from_its_family(parts, tmp_path) -> None:
    from plackett.metrics import metric
    from plackett.models.auto.search import Result, TimeBudget

    search = Search(
        tmp_path,
        parts[0],
        (metric("ndcg@10"),),
        TimeBudget(60.0, clock=Clock()),
        lambda candidate: pk.CrossFit(candidate.build(seed=0, threads=1), folds=3),
        lambda *_: None,
    )
    trees, other = TINY[2:]
    first = search.predict_seconds(trees)
    expected = trees.expected_seconds(parts[0], 3)
    assert first < expected
    search.results[trees.name] = Result(trees, 10 * expected, np.zeros(parts[0].n_docs), 0.5)
    assert search.predict_seconds(other) == pytest.approx(10 * other.expected_seconds(parts[0], 3))


def test_members_fitted_in_processes_are_the_same_and_a_late_one_is_given_up(parts, monkeypatch) -> None:
    alone = _auto().fit(parts[0])
    monkeypatch.setattr(auto_ranker, "_PROCESS_VALUES", 0)
    together = _auto(threads=2).fit(parts[0])
    np.testing.assert_array_equal(together.predict(parts[1]), alone.predict(parts[1]))
    clock = Clock()
    monkeypatch.setattr(pk.AutoRanker, "clock", clock)

    def run_out(text: str, *_: int) -> None:
        if text.startswith("lambdaloss"):
            clock.now = 1e6

    late = _auto(threads=2).fit(parts[0], progress=run_out)
    notes = {row.name: row.note for row in late.leaderboard_}
    assert "the time was up" in notes["lambdaloss"]
    assert set(late.member_names_) <= {"linear", BASELINE}


def test_a_small_budget_for_large_data_has_fewer_parts(parts, monkeypatch) -> None:
    data, trees = parts[0], [Candidate(str(i), "e-xendcg-mart", seconds=5.0) for i in range(3)]
    one_fit = trees[0].expected_seconds(data, 1)
    assert portfolio.choose_folds(trees, data, one_fit) == 8  # there are few lists
    monkeypatch.setattr(portfolio, "_FEW_LISTS", 10)
    for folds, seconds in ((8, 3 * 8 * one_fit), (5, 3 * 5 * one_fit), (4, 3 * 4 * one_fit), (4, one_fit)):
        assert portfolio.choose_folds(trees, data, 1.001 * seconds) == folds
    slow_net = Candidate("net", "urank", seconds=1e9)
    assert portfolio.choose_folds([*trees, slow_net], data, 1.001 * 24 * one_fit) == 8


def test_a_fit_with_more_minutes_keeps_the_parts_of_the_first(parts, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(portfolio, "CANDIDATES", TINY[:3])
    monkeypatch.setattr(portfolio, "_FEW_LISTS", 10)
    few = _auto(folds=None, minutes=0.02).fit(parts[0], checkpoint=tmp_path / "work")
    assert {member.folds for member in few.members_} == {4}
    more = _auto(folds=None, minutes=5).fit(parts[0], checkpoint=tmp_path / "work")
    assert {member.folds for member in more.members_} == {4}
    assert {member.folds for member in _auto(folds=None, minutes=5).fit(parts[0]).members_} == {8}
    for content in ("{", '{"folds": "8"}'):
        (tmp_path / "work" / "folds.json").write_text(content)
        with pytest.raises(pk.DataError, match=r"folds\.json"):
            _auto(folds=None, minutes=5).fit(parts[0], checkpoint=tmp_path / "work")


def test_a_baseline_that_takes_much_of_the_budget_waits_its_turn(parts) -> None:
    slow = Candidate(BASELINE, "lightgbm-lambdarank", seconds=50.0, gains=(0.1, 0.1, 0.1))
    names = [c.name for c in portfolio.order_candidates((TINY[0], TINY[2], slow), parts[0], 3)]
    assert names == ["linear", BASELINE, "lambdaloss"]
    limit = slow.expected_seconds(parts[0], 3) / 0.2
    for seconds, place in ((1.01 * limit, 1), (0.99 * limit, 2)):
        ordered = portfolio.order_candidates((TINY[0], TINY[2], slow), parts[0], 3, seconds)
        assert ordered.index(slow) == place
