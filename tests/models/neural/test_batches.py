from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_array

torch = pytest.importorskip("torch")

from plackett.base.ragged import offsets_from_sizes  # noqa: E402
from plackett.models.neural.batches import FeatureRows, cut, epoch_order, learnable, make_batch, scoring_batches  # noqa: E402

CPU = torch.device("cpu")
SIZES = st.lists(st.integers(1, 20), min_size=1, max_size=30)


@given(SIZES, st.none() | st.integers(1, 7), st.none() | st.integers(1, 40))
def test_batches_cover_the_order_and_keep_to_their_limits(sizes, lists, documents) -> None:
    if lists is None and documents is None:
        lists = 3
    order = np.random.default_rng(len(sizes)).permutation(len(sizes))
    bounds = cut(order, np.array(sizes), lists=lists, documents=documents)
    assert [a for a, _ in bounds] == [0, *(b for _, b in bounds[:-1])]
    assert bounds[-1][1] == len(order)
    for start, stop in bounds:
        n_docs = sum(sizes[q] for q in order[start:stop])
        assert lists is None or stop - start <= lists
        assert documents is None or n_docs <= documents or stop - start == 1


@given(SIZES, st.data())
def test_a_batch_holds_the_documents_of_its_lists_in_their_order(sizes, data) -> None:
    offsets = offsets_from_sizes(sizes)
    chosen = data.draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, unique=True))
    batch = make_batch(offsets, np.array(chosen))
    documents = np.arange(offsets[-1])[batch.documents]
    expected = np.concatenate([np.arange(offsets[q], offsets[q + 1]) for q in chosen])
    assert np.array_equal(documents, expected)
    assert np.array_equal(np.diff(batch.offsets), np.array(sizes)[chosen])


@given(SIZES, st.integers(1, 50))
def test_scoring_batches_cover_all_documents_in_order(sizes, documents) -> None:
    offsets = offsets_from_sizes(sizes)
    actual = [np.arange(offsets[-1])[batch.documents] for batch in scoring_batches(offsets, documents)]
    assert np.array_equal(np.concatenate(actual), np.arange(offsets[-1]))


def test_lists_of_one_level_have_nothing_to_learn_from() -> None:
    labels = np.array([1, 1, 0, 2, 3, 0, 0, 0, 1], np.float32)
    assert learnable(labels, offsets_from_sizes([2, 2, 1, 0, 3, 1])).tolist() == [1]


def test_the_order_of_an_epoch_follows_the_keys_not_the_places() -> None:
    keys = np.random.default_rng(0).integers(0, 2**63, 20).astype(np.uint64)
    shuffle = np.random.default_rng(1).permutation(20)
    first = epoch_order(np.arange(20), keys, seed=4, epoch=2)
    second = epoch_order(np.arange(20), keys[shuffle], seed=4, epoch=2)
    assert np.array_equal(keys[first], keys[shuffle][second])
    assert sorted(first) == list(range(20))


def test_each_seed_and_epoch_has_an_order_of_its_own() -> None:
    keys = np.arange(50, dtype=np.uint64)
    orders = {
        tuple(epoch_order(np.arange(50), keys, seed=seed, epoch=epoch)) for seed in range(3) for epoch in range(3)
    }
    assert len(orders) == 9


@pytest.mark.parametrize("documents", [slice(2, 5), np.array([4, 0, 4])])
def test_sparse_features_come_as_dense_ones_do(documents) -> None:
    X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    X[X < 0] = 0
    dense = FeatureRows(X, CPU)[documents]
    assert torch.equal(FeatureRows(csr_array(X), CPU)[documents], dense)
    assert np.array_equal(dense.numpy(), X[documents])


def test_features_that_may_not_be_written_are_taken_without_a_warning() -> None:
    X = np.ones((4, 2), np.float32)
    X.flags.writeable = False
    assert FeatureRows(X, CPU)[slice(0, 2)].shape == (2, 2)


@pytest.mark.parametrize("documents", [slice(1, 4), np.array([2, 0])])
def test_batches_lie_in_memory_as_pytorch_aligns_it_wherever_features_lie(documents) -> None:
    """Last bits of products depend on alignment; batches must not differ between processes."""
    X = np.ones(5 * 3 + 1, np.float32)[1:].reshape(5, 3)
    assert FeatureRows(X, CPU)[documents].data_ptr() % 64 == 0
