"""The ranking state of the conditional models, against brute force over all sign vectors."""

from __future__ import annotations

import numpy as np
import pytest

from plackett.base.errors import DataError, UsageError
from plackett.objectives.conditional.rankings import (
    alpha,
    bit,
    bits_of,
    flip,
    flippable,
    gain_of,
    ideal_state,
    state_of,
)
from references.conditional import cube, gain_of_ranking, valid_rankings

pytestmark = pytest.mark.kernels

SIZES = [(1, 1), (1, 3), (3, 1), (2, 2), (2, 3), (3, 3)]


def flipped(bits, g, b):
    other = bits.copy()
    other[g, b] *= -1
    return other


def is_ranking(bits) -> bool:
    try:
        state_of(bits)
    except DataError:
        return False
    return True


@pytest.mark.parametrize(("n_goods", "n_bads", "valid"), [(2, 2, 14), (2, 3, 46), (3, 3, 230)])
def test_exactly_the_sign_vectors_of_total_orders_are_rankings(n_goods, n_bads, valid) -> None:
    by_orders = {bits.tobytes() for bits in valid_rankings(n_goods, n_bads)}
    by_state = {bits.tobytes() for bits in cube(n_goods, n_bads) if is_ranking(bits)}
    assert by_state == by_orders
    assert len(by_state) == valid


@pytest.mark.parametrize(("n_goods", "n_bads"), SIZES)
def test_a_pair_is_flippable_iff_the_flip_gives_a_ranking(n_goods, n_bads) -> None:
    valid = {bits.tobytes() for bits in valid_rankings(n_goods, n_bads)}
    for bits in valid_rankings(n_goods, n_bads):
        state = state_of(bits)
        for g, b in np.ndindex(n_goods, n_bads):
            assert bit(state, g, b) == bits[g, b]
            assert flippable(state, g, b) == (flipped(bits, g, b).tobytes() in valid)


@pytest.mark.parametrize(("n_goods", "n_bads"), SIZES)
def test_a_flip_changes_one_sign_and_keeps_all_counts_right(n_goods, n_bads) -> None:
    for bits in valid_rankings(n_goods, n_bads):
        for g, b in np.ndindex(n_goods, n_bads):
            state = state_of(bits)
            if flippable(state, g, b):
                flip(state, g, b)
                for ours, theirs in zip(state, state_of(flipped(bits, g, b)), strict=True):
                    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize(("n_goods", "n_bads"), SIZES)
def test_flips_connect_all_rankings(n_goods, n_bads) -> None:
    start = bits_of(ideal_state(n_goods, n_bads))
    reached, front = {start.tobytes()}, [start]
    while front:
        bits = front.pop()
        state = state_of(bits)
        for g, b in np.ndindex(n_goods, n_bads):
            other = flipped(bits, g, b)
            if flippable(state, g, b) and other.tobytes() not in reached:
                reached.add(other.tobytes())
                front.append(other)
    assert len(reached) == len(valid_rankings(n_goods, n_bads))


@pytest.mark.parametrize(("n_goods", "n_bads"), [size for size in SIZES if sum(size) > 2])
def test_flip_probabilities_span_all_from_one_over_n_minus_one_to_one(n_goods, n_bads) -> None:
    least = 1 / (n_goods + n_bads - 1)
    actual = [
        alpha(state_of(bits), g, b) for bits in valid_rankings(n_goods, n_bads) for g, b in np.ndindex(n_goods, n_bads)
    ]
    assert min(actual) == pytest.approx(least, rel=1e-14)
    assert max(actual) == pytest.approx(1, rel=1e-14)
    for state in (ideal_state(n_goods, n_bads), state_of(np.full((n_goods, n_bads), -1))):
        for g, b in np.ndindex(n_goods, n_bads):
            assert alpha(state, g, b) == pytest.approx(least, rel=1e-14)


def test_flip_probability_is_large_where_the_ranking_changes_little() -> None:
    # Good 0 beats bads 1 and 2, good 1 beats bad 2 only: g0 > b1 > g1 > b2 with b0 on top.
    state = state_of([[-1, 1, 1], [-1, -1, 1]])
    assert alpha(state, 0, 1) == pytest.approx((1 + 3 - 2 + 1) / 4)
    assert alpha(state, 1, 1) == pytest.approx((1 + 1 + 2 - 1) / 4)


def test_ideal_and_worst_state_have_all_signs_equal() -> None:
    assert np.all(bits_of(ideal_state(4, 3)) == 1)
    assert np.all(bits_of(state_of(np.full((4, 3), -1))) == -1)
    for ours, theirs in zip(ideal_state(4, 3), state_of(np.ones((4, 3))), strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("wrong", [[[1, -1], [-1, 1]], [[1, 0]], [1, -1], np.empty((0, 2))])
def test_signs_of_no_ranking_are_refused(wrong) -> None:
    with pytest.raises(DataError, match="bits"):
        state_of(wrong)


@pytest.mark.parametrize("gain", ["auc", "map", "ndcg"])
@pytest.mark.parametrize("discount", ["jk", "standard"])
@pytest.mark.parametrize("cutoff", [1, 3, 10])
def test_gains_from_counts_are_those_of_the_ranking(gain, discount, cutoff) -> None:
    options = {"gain": gain, "cutoff": cutoff, "discount": discount}
    for bits in valid_rankings(2, 3):
        ours = gain_of(state_of(bits).good_wins, 3, **options)
        assert ours == pytest.approx(gain_of_ranking(bits, **options), rel=1e-14, abs=1e-15)


def test_gains_by_hand() -> None:
    # Ranks 1 and 3 of five, counted from 0.
    wins = [2, 1]
    assert gain_of(wins, 3, gain="auc") == pytest.approx(3 / 6)
    assert gain_of(wins, 3, gain="map") == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert gain_of(wins, 3, gain="ndcg") == pytest.approx((1 + 1 / 2) / 2)
    expected = (1 / np.log2(3) + 1 / np.log2(5)) / (1 + 1 / np.log2(3))
    assert gain_of(wins, 3, gain="ndcg", discount="standard") == pytest.approx(expected)
    assert gain_of(wins, 3, gain="ndcg", cutoff=1) == 0.0
    with pytest.raises(UsageError, match="no gain='err'"):
        gain_of(wins, 3, gain="err")
