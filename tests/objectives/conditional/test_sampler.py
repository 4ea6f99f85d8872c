"""The sampler of rankings and its random walks."""

from __future__ import annotations

import numpy as np
import pytest

from plackett.base.errors import UsageError
from plackett.objectives.conditional.rankings import alpha, bits_of, flippable, gain_of, state_of
from plackett.objectives.conditional.sampler import mutate, mutate_one, restart, sample_rankings, start_walk
from references.conditional import valid_rankings

pytestmark = pytest.mark.kernels


def signs_of(good_wins, bad_wins):
    """Signs of a ranking from its wins: goods and bads merged from the top down."""
    n_goods = len(good_wins)
    above = n_goods - np.asarray(bad_wins)
    rank = (-np.asarray(good_wins)).argsort(kind="stable").argsort(kind="stable")
    return np.where(rank[:, None] < above[None, :], 1, -1)


def walk_to(bits):
    """A walk that stands at a given ranking."""
    walk = start_walk(*bits.shape)
    state = state_of(bits)
    for ours, theirs in zip(walk.state, state, strict=True):
        ours[:] = theirs
    walk.goods[:] = np.argsort(-state.good_wins, kind="stable")
    walk.good_places[walk.goods] = np.arange(len(walk.goods))
    walk.bads[:] = np.argsort(-state.bad_wins, kind="stable")
    walk.bad_places[walk.bads] = np.arange(len(walk.bads))
    return walk


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, (3, 8)),
        ({"restarts": "many", "walk": 30}, (8, 5)),
        ({"best": 0.1, "walk": 200}, (10, 10)),
        ({"restarts": "many", "skew": 900.0}, (4, 30)),
    ],
)
def test_all_samples_are_rankings_the_first_is_ideal_and_none_comes_twice(options, sizes) -> None:
    n_goods, n_bads = sizes
    result = sample_rankings(n_goods, n_bads, samples=300, key=5, **options)
    assert result.good_wins.shape == (300, n_goods)
    assert result.bad_wins.shape == (300, n_bads)
    assert np.all(result.good_wins[0] == n_bads)
    seen = set()
    for good_wins, bad_wins in zip(*result, strict=True):
        state = state_of(signs_of(good_wins, bad_wins))  # refuses what is no ranking
        assert np.array_equal(state.good_wins, good_wins)
        assert np.array_equal(state.bad_wins, bad_wins)
        seen.add(bits_of(state).tobytes())
    assert len(seen) == 300


def test_without_dedupe_rankings_may_come_again() -> None:
    actual = sample_rankings(2, 3, samples=100, dedupe=False)
    rows = np.hstack(actual)
    assert len(rows) == 100
    assert len(np.unique(rows, axis=0)) < 47


@pytest.mark.parametrize(("n_goods", "n_bads", "valid"), [(1, 1, 2), (2, 2, 14), (2, 3, 46)])
def test_short_lists_give_every_ranking_once(n_goods, n_bads, valid) -> None:
    result = sample_rankings(n_goods, n_bads, samples=1000, best=0.5)
    assert len(result.good_wins) == valid


def test_mutations_follow_the_law_of_the_paper() -> None:
    # Among flippable pairs, in proportion to alpha; from every ranking of two goods and three bads.
    n = 2000
    for bits in valid_rankings(2, 3)[::5]:
        state = state_of(bits)
        law = np.array([[alpha(state, g, b) * flippable(state, g, b) for b in range(3)] for g in range(2)])
        law /= law.sum()
        counts = np.zeros((2, 3))
        for key in range(n):
            g, b = mutate(walk_to(bits), np.uint64(key * 2_654_435_761))
            counts[g, b] += 1
        assert np.all(np.abs(counts - n * law) <= 5 * np.sqrt(n * law * (1 - law)))


def test_a_walk_keeps_its_books() -> None:
    walk = start_walk(6, 9)
    restart(walk, 4, np.uint64(3))
    assert (bits_of(walk.state) == -1).sum() == 4 * 6
    for step in range(300):
        before = bits_of(walk.state)
        g, b = mutate(walk, np.uint64(step))
        after = bits_of(walk.state)
        assert np.argwhere(before != after).tolist() == [[g, b]]
        for ours, theirs in zip(walk.state, state_of(after), strict=True):
            assert np.array_equal(ours, theirs)
        assert np.all(np.diff(walk.state.good_wins[walk.goods]) <= 0)
        assert np.all(np.diff(walk.state.bad_wins[walk.bads]) <= 0)
        assert np.array_equal(walk.good_places[walk.goods], np.arange(6))
        assert np.array_equal(walk.bad_places[walk.bads], np.arange(9))


def test_with_one_good_the_first_mutation_halves_average_precision() -> None:
    result = sample_rankings(1, 20, samples=2, key=1, walk=10)
    assert gain_of(result.good_wins[1], 20, gain="map") == 0.5


def test_losses_spread_far_around_the_best_ranking_and_little_around_the_worst() -> None:
    def spread(best):
        wins = sample_rankings(3, 60, samples=1000, best=best, key=2, dedupe=False).good_wins
        # All but the first walk, which starts at the ideal ranking.
        return np.std([gain_of(w, 60, gain="map") for w in wins[11:]])

    assert spread(best=1.0) > 50 * spread(best=0.0)


@pytest.mark.parametrize("sizes", [(1, 60), (10, 60), (45, 100), (45, 10), (100, 200)])
def test_automatic_walks_put_as_many_bads_above_a_good_in_lists_of_any_size(sizes) -> None:
    wins = sample_rankings(*sizes, samples=500, best=1.0, key=3, dedupe=False).good_wins
    above = (sizes[1] - wins) / min(1.0, sizes[1] / 20)  # short lists are filled up
    low, middle, high = np.quantile(above.mean(axis=1), [0.2, 0.5, 0.8])
    assert 1.0 <= low < 6.0
    assert 3.0 < middle < 15.0
    assert high > middle + 1.0


def test_the_number_of_bads_above_a_single_good_follows_the_law_of_the_paper() -> None:
    n, k, n_bads = 4000, 3, 10
    falls = 0
    for key in range(n):
        walk = start_walk(1, n_bads)
        restart(walk, k, np.uint64(key))
        mutate_one(walk, np.uint64(key * 2_654_435_761))
        falls += walk.state.good_wins[0] == n_bads - k - 1
    down, up = (n_bads - k) * (1 + k), k * (1 + n_bads - k)
    assert abs(falls / n - down / (down + up)) < 0.03


def test_skew_prefers_good_or_bad_restarts() -> None:
    def mean_auc(skew):
        wins = sample_rankings(5, 50, samples=500, restarts="many", skew=skew, walk=1).good_wins
        return wins.mean() / 50

    assert mean_auc(-5.0) > 0.7
    assert 0.4 < mean_auc(0.0) < 0.6
    assert mean_auc(5.0) < 0.3


def test_the_key_alone_decides() -> None:
    one, same, other = (sample_rankings(4, 9, key=key).good_wins for key in (7, 7, 8))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    "wrong",
    [{"samples": 0}, {"walk": 0}, {"walk": "long"}, {"restarts": "three"}, {"best": 1.5}, {"skew": float("inf")}],
)
def test_settings_out_of_range_are_refused(wrong) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        sample_rankings(2, 2, **wrong)


def test_lists_without_goods_are_refused() -> None:
    with pytest.raises(UsageError, match="n_goods"):
        sample_rankings(0, 2)
