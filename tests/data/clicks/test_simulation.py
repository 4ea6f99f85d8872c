from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import plackett as pk
from plackett.base.errors import DataError, UsageError
from plackett.data.clicks import PRESETS, CascadeModel, PositionModel, click_model, simulate

pytestmark = pytest.mark.kernels


@pytest.fixture(scope="module")
def web():
    return pk.synthetic("web", n_lists=60, seed=0)


def _same(one, other) -> bool:
    names = ("impressions", "queries", "documents", "positions", "clicks")
    return all(np.array_equal(getattr(one, n), getattr(other, n)) for n in names)


def test_a_log_is_a_value(web) -> None:
    once = simulate(web, "ai2018", impressions=3, seed=5)
    assert _same(once, simulate(web, "ai2018", impressions=3, seed=5))
    assert not _same(once, simulate(web, "ai2018", impressions=3, seed=6))
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        assert _same(once, simulate(web, "ai2018", impressions=3, seed=5))
    finally:
        numba.set_num_threads(before)


def test_impressions_depend_on_neither_other_lists_nor_their_number(web) -> None:
    many = simulate(web, "bruch2021", impressions=5)
    few = simulate(web.lists(7, 9), "bruch2021", impressions=2)
    for query in few.queries[0], few.queries[-1]:
        a, b = many.of_queries([query]), few.of_queries([query])
        n = len(b)
        assert np.array_equal(a.documents[:n], b.documents)
        assert np.array_equal(a.clicks[:n], b.clicks)


def test_every_document_is_shown_once_at_each_impression(web) -> None:
    log = simulate(web, impressions=4)
    sizes = np.diff(web.offsets)
    assert np.bincount(log.impressions).tolist() == np.repeat(sizes, 4).tolist()
    for m in (0, 17, 100):
        mask = log.impressions == m
        assert sorted(log.positions[mask]) == list(range(1, mask.sum() + 1))
        assert len(set(log.documents[mask])) == mask.sum()


def test_scores_order_what_is_shown(web) -> None:
    scores = web.features[:, 3].astype(np.float64)
    log = simulate(web, impressions=2, scores=scores, top=5)
    at = log.documents
    shown = scores[at]
    within = np.diff(log.impressions) == 0
    assert np.all(np.diff(shown)[within] <= 0)
    assert log.positions.max() == 5


def test_temperature_draws_from_plackett_and_luce() -> None:
    ds = pk.Dataset.from_arrays([[0.0], [1.0], [2.0]], [0, 1, 2], [7, 7, 7])
    scores = ds.features[:, 0].astype(np.float64)
    log = simulate(ds, impressions=20_000, scores=scores, temperature=0.5)
    first = np.bincount(log.documents[log.positions == 1], minlength=3) / 20_000
    law = np.exp(np.arange(3) / 0.5)
    np.testing.assert_allclose(first, law / law.sum(), atol=0.012)


def test_position_based_clicks_have_their_rates(web) -> None:
    model = PositionModel(eta=1.0)
    log = simulate(web, model, impressions=300, top=6, seed=1)
    labels = web.labels[log.documents].astype(int)
    for k in range(1, 7):
        for y in (0, 1, 2):
            mask = (log.positions == k) & (labels == y)
            chance = model.clicks[y] / k
            spread = 5 * np.sqrt(chance * (1 - chance) / mask.sum())
            assert abs(log.clicks[mask].mean() - chance) < spread


def test_the_first_click_ends_a_cascade(web) -> None:
    log = simulate(web, "bruch2021", impressions=20, log="examined")
    last = np.append(np.diff(log.impressions) != 0, True)
    assert not log.clicks[~last].any()
    whole = simulate(web, "bruch2021", impressions=20)
    assert len(whole) > len(log)
    assert whole.clicks.sum() == log.clicks.sum()
    labels = web.labels[log.documents].astype(int)
    for y, chance in enumerate((0.05, 0.3, 0.5)):
        mask = labels == y
        spread = 5 * np.sqrt(chance * (1 - chance) / mask.sum())
        assert abs(log.clicks[mask].mean() - chance) < spread


def test_a_user_who_never_stops_clicks_what_attracts(web) -> None:
    log = simulate(web, CascadeModel((0.0, 1.0, 1.0, 1.0, 1.0), (0.0,) * 5), impressions=2)
    assert np.array_equal(log.clicks, web.labels[log.documents] > 0)


def test_swaps_bring_the_first_document_everywhere() -> None:
    ds = pk.Dataset.from_arrays(np.arange(5.0)[:, None], [1, 0, 0, 0, 0], [1] * 5)
    scores = ds.features[:, 0].astype(np.float64)
    log = simulate(ds, impressions=5000, scores=scores, swap=True)
    at = log.positions[log.documents == 4]
    np.testing.assert_allclose(np.bincount(at, minlength=6)[1:] / 5000, 0.2, atol=0.03)


@given(n=st.integers(1, 6), top=st.integers(1, 8), seed=st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_any_shape_of_list_can_be_shown(n: int, top: int, seed: int) -> None:
    ds = pk.Dataset.from_arrays(np.arange(float(n))[:, None], np.arange(n) % 5, np.zeros(n, int))
    log = simulate(ds, "hofmann2013-informational", impressions=3, top=top, seed=seed)
    assert len(log) == 3 * min(n, top)


def test_presets_have_the_papers_numbers() -> None:
    assert click_model("bruch2021").clicks == (0.05, 0.3, 0.5, 0.7, 0.95)
    graded = [0.1 + 0.9 * (2**y - 1) / 15 for y in range(5)]
    np.testing.assert_allclose(PRESETS["ai2018"].clicks, graded)
    assert click_model("bruch2021").with_noise(0.25).clicks[0] == 0.25
    with pytest.raises(UsageError, match="there is no click model 'pbm'; there are bruch2021"):
        click_model("pbm")


def test_what_cannot_be_simulated_says_why(web) -> None:
    with pytest.raises(DataError, match=r"has chances for the labels 0 to 1, but the data has 2"):
        simulate(web, PositionModel((0.1, 1.0)))
    with pytest.raises(UsageError, match="chances from 0 to 1"):
        PositionModel((0.1, 1.5))
    with pytest.raises(UsageError, match="stops must be 5"):
        CascadeModel(stops=(0.1,))
    with pytest.raises(UsageError, match="impressions=0"):
        simulate(web, impressions=0)
    with pytest.raises(UsageError, match="scores must be"):
        simulate(web, scores=[1.0])
