"""What holds for every metric and any lists."""

from __future__ import annotations

from itertools import pairwise

import numba
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from plackett.base.ragged import offsets_from_sizes
from plackett.metrics import metric, per_list

pytestmark = pytest.mark.kernels

ANY = settings(deadline=None, max_examples=60)  # the first example may compile
IN_UNIT = [
    "ndcg",
    "ndcg@3",
    "ndcg@3:gain=identity",
    "ndcg@5:discount=letor",
    "err@3",
    "err:grade=4",
    "map",
    "map@3:denominator=cutoff",
    "map@3:denominator=found",
    "mrr@2",
    "precision@4",
    "recall@4",
    "auc",
    "auc:pairs=graded",
    "rbp",
]
SPELLINGS = [*IN_UNIT, "dcg@5", "ndcg@40"]
EXPECTED = [f"{s}:ties=expected" for s in SPELLINGS if "found" not in s]


@st.composite
def ragged(draw, *, tied=True, min_lists=1):
    """Scores, labels and offsets of a few lists; empty lists among them."""
    sizes = draw(st.lists(st.integers(0, 12), min_size=min_lists, max_size=6))
    n_docs = sum(sizes)
    values = st.integers(-3, 3) if tied else st.integers(-1000, 1000)
    scores = draw(st.lists(values, min_size=n_docs, max_size=n_docs, unique=not tied))
    labels = draw(st.lists(st.integers(0, 4), min_size=n_docs, max_size=n_docs))
    return np.array(scores, float), np.array(labels, np.float32), offsets_from_sizes(sizes)


def same(left, right):
    return np.array_equal(left, right, equal_nan=True)


@ANY
@given(ragged(), st.sampled_from([*IN_UNIT, *(s for s in EXPECTED if s[:3] != "dcg")]))
def test_values_lie_between_0_and_1(data, spelling):
    values = metric(spelling)(*data)
    counted = values[~np.isnan(values)]
    assert ((counted >= 0) & (counted <= 1)).all()


@ANY
@given(ragged(), st.sampled_from(["", ":ties=expected", ":grade=4"]))
def test_err_does_not_fall_as_the_cutoff_grows(data, options):
    values = np.array([metric(f"err@{k}{options}")(*data) for k in (1, 2, 3, 5, 8, 40)])
    counted = values[:, ~np.isnan(values[0])]
    assert (np.diff(counted, axis=0) >= -1e-15).all()


@ANY
@given(ragged(), st.sampled_from(["ndcg", "ndcg@3", "ndcg@3:ties=expected", "ndcg:gain=identity"]))
def test_the_perfect_order_has_ndcg_1(data, spelling):
    _, labels, offsets = data
    values = metric(spelling)(labels.astype(float), labels, offsets)
    assert (values[~np.isnan(values)] == 1.0).all()


@ANY
@given(ragged(min_lists=2), st.sampled_from([*SPELLINGS, *EXPECTED]), st.randoms())
def test_permuting_lists_permutes_values(data, spelling, random):
    scores, labels, offsets = data
    order = list(range(len(offsets) - 1))
    random.shuffle(order)
    rows = np.concatenate([np.arange(offsets[q], offsets[q + 1]) for q in order]).astype(int)
    moved = metric(spelling)(scores[rows], labels[rows], offsets_from_sizes(np.diff(offsets)[order]))
    assert same(moved, metric(spelling)(scores, labels, offsets)[order])


@ANY
@given(ragged(min_lists=2), st.sampled_from([*SPELLINGS, *EXPECTED]))
def test_lists_do_not_see_each_other(data, spelling):
    scores, labels, offsets = data
    values = metric(spelling)(scores, labels, offsets)
    for q in range(len(offsets) - 1):
        ours = slice(offsets[q], offsets[q + 1])
        alone = metric(spelling)(scores[ours], labels[ours], [0, offsets[q + 1] - offsets[q]])
        assert same(alone, values[q : q + 1])


def shuffled_within_lists(offsets, seed):
    rng = np.random.default_rng(seed)
    parts = [rng.permutation(np.arange(a, b)) for a, b in pairwise(offsets)]
    return np.concatenate([*parts, np.empty(0)]).astype(int)


@ANY
@given(ragged(tied=False), st.sampled_from([*SPELLINGS, *EXPECTED]), st.integers(0, 99))
def test_the_order_of_documents_does_not_matter_without_ties(data, spelling, seed):
    scores, labels, offsets = data
    rows = shuffled_within_lists(offsets, seed)
    moved = metric(spelling)(scores[rows], labels[rows], offsets)
    assert same(moved, metric(spelling)(scores, labels, offsets))


@ANY
@given(ragged(), st.sampled_from(EXPECTED), st.integers(0, 99))
def test_the_order_of_documents_does_not_matter_to_the_expectation(data, spelling, seed):
    scores, labels, offsets = data
    rows = shuffled_within_lists(offsets, seed)
    moved = metric(spelling)(scores[rows], labels[rows], offsets)
    assert moved == pytest.approx(metric(spelling)(*data), rel=1e-13, abs=1e-15, nan_ok=True)


@ANY
@given(ragged(), st.sampled_from([*SPELLINGS, *EXPECTED]), st.integers(-1000, 1000))
def test_adding_a_constant_to_the_scores_changes_nothing(data, spelling, constant):
    scores, labels, offsets = data  # small integers: the sum is exact
    assert same(metric(spelling)(scores + constant, labels, offsets), metric(spelling)(*data))


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one thread only")
def test_one_thread_and_two_give_the_same_bits(lists):
    spellings = [*SPELLINGS, *EXPECTED, "ndcg@3:ties=random", "map:ties=random:seed=5"]
    before = numba.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            results.append(per_list(lists.scores, lists, spellings))
    finally:
        numba.set_num_threads(before)
    assert all(same(values, results[1][s]) for s, values in results[0].items())


@pytest.mark.parametrize("cutoff", [10, 32, 33, 1000])
def test_selecting_the_top_and_sorting_all_agree_on_long_lists(cutoff):
    rng = np.random.default_rng(2)
    offsets = offsets_from_sizes(rng.integers(1, 700, 150))
    labels = rng.integers(0, 5, offsets[-1])
    for scores in (rng.normal(size=offsets[-1]), rng.integers(0, 40, offsets[-1]).astype(float)):
        order = np.concatenate([a + np.argsort(-scores[a:b], kind="stable") for a, b in pairwise(offsets)])
        # In falling order already, so that ranks are positions.
        ranks = -np.arange(offsets[-1], dtype=float)
        values = metric(f"ndcg@{cutoff}")(scores, labels, offsets)
        assert same(values, metric(f"ndcg@{cutoff}")(ranks, labels[order], offsets))
