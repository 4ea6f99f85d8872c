"""The simulated sets: frozen, independent of their number, and in the shape of the real ones."""

from __future__ import annotations

import hashlib
from functools import cache
from itertools import pairwise

import lightgbm
import numpy as np
import pytest
from numba import get_num_threads, set_num_threads

from plackett.base.errors import UsageError
from plackett.data import synthetic as module
from plackett.data.synthetic import FAMILIES, synthetic
from plackett.data.transforms import Log1p, Standard, chain

NAMES = tuple(FAMILIES)
GOLDEN = {
    "web": "0d09c4ab4a8363dfbc210065ca4bb4ab5022bd2b6a9b216d23aea7f187315cdc",
    "yahoo": "df24cbe65b451ffc658253410967f99d1f27f1c457fe9b7256bdb79e88ae543c",
    "letor": "dab8613c0473709d328138378c54ac263deae0ca28bf700f1c6ac7d6a8ee596b",
    "binary": "f416991d9a876ada332b7c49fb4c78cf93bf32b8197fb721e924dc495186ab53",
}


@cache
def made(name, n_lists=600, seed=0):
    return synthetic(name, n_lists=n_lists, seed=seed)


def in_rows(ds):
    """Features, labels and query ids."""
    return ds.features, ds.labels, ds.query_ids


def digest(ds):
    text = hashlib.sha256()
    for array in in_rows(ds):
        text.update(array.tobytes())
    return text.hexdigest()


@pytest.mark.parametrize("name", NAMES)
def test_the_output_of_this_version_is_frozen(name):
    assert module.VERSION == 1
    assert digest(synthetic(name, n_lists=20, seed=3)) == GOLDEN[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_list_does_not_depend_on_how_many_there_are(name):
    few, many = in_rows(made(name, 30)), in_rows(made(name, 90))
    n = len(few[1])
    for first, second in zip(few, many, strict=True):
        np.testing.assert_array_equal(first, second[:n])
    assert many[2][n] == 30


@pytest.mark.parametrize("name", NAMES)
def test_threads_do_not_change_a_bit(name):
    threads = get_num_threads()
    set_num_threads(1)
    try:
        one = digest(synthetic(name, n_lists=30))
    finally:
        set_num_threads(threads)
    assert one == digest(made(name, 30))


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_gives_other_lists_of_the_same_world(name):
    first, second = made(name), made(name, seed=1)
    assert first.feature_names == second.feature_names
    assert not set(first.keys.tolist()) & set(second.keys.tolist())
    constant = [ds.features.min(axis=0) == ds.features.max(axis=0) for ds in (first, second)]
    np.testing.assert_array_equal(*constant)


@pytest.mark.parametrize("name", NAMES)
def test_query_ids_are_integers_from_zero_and_names_are_one_per_feature(name):
    ds = made(name)
    assert ds.list_ids.tolist() == list(range(600))
    assert len(set(ds.feature_names)) == ds.n_features


def test_names_out_of_range_are_answered_with_what_there_is():
    with pytest.raises(UsageError, match="web, yahoo, letor, binary"):
        synthetic("mslr")
    with pytest.raises(UsageError, match="n_lists"):
        synthetic(n_lists=0)
    with pytest.raises(UsageError, match="seed"):
        synthetic(n_lists=1, seed=-1)
    with pytest.raises(UsageError, match=r"n_lists must be an integer, got 5\.5"):
        synthetic(n_lists=5.5)
    with pytest.raises(UsageError, match=r"seed must be an integer, got None"):
        synthetic(n_lists=1, seed=None)


def shares(ds, n_labels):
    return np.bincount(ds.labels.astype(int), minlength=n_labels) / ds.n_docs


def blank_share(ds):
    return float(np.mean(np.maximum.reduceat(ds.labels, ds.offsets[:-1]) == 0))


def constant_in_lists(ds):
    """For each feature, whether it is constant in every list."""
    low = np.minimum.reduceat(ds.features, ds.offsets[:-1], axis=0)
    high = np.maximum.reduceat(ds.features, ds.offsets[:-1], axis=0)
    return (low == high).all(axis=0)


def test_web_has_long_tailed_lists():
    sizes = np.diff(made("web", 2000).offsets)
    assert sizes.min() == 1
    assert 110 < sizes.mean() < 130
    assert np.median(sizes) < 0.9 * sizes.mean()
    assert 400 < np.quantile(sizes, 0.995) < 1000
    assert sizes.max() == 1000


def test_web_labels_have_the_shares_of_mslr():
    ds = made("web", 2000)
    np.testing.assert_allclose(shares(ds, 5), [0.52, 0.32, 0.13, 0.02, 0.01], rtol=0.25, atol=0.005)
    assert 0.02 < blank_share(ds) < 0.045


def test_web_features_are_sparse_heavy_tailed_and_partly_constant_in_a_list():
    ds = made("web")
    column = dict(zip(ds.feature_names, ds.features.T, strict=True))
    assert ds.n_features == 136
    assert 0.3 < np.mean(ds.features == 0) < 0.45
    assert np.mean(column["query_url_clicks"] == 0) > 0.9
    assert np.mean(column["bm25_anchor"] == 0) > 0.7
    assert column["inlinks"].max() > 1e4 * max(1.0, np.median(column["inlinks"]))
    fixed = {n for n, c in zip(ds.feature_names, constant_in_lists(ds), strict=True) if c}
    assert fixed == {f"idf_{s}" for s in ("body", "anchor", "title", "url", "page")}
    ratio = column["covered_ratio_title"]
    assert (ratio.min(), ratio.max()) == (0, 1)


def test_web_has_near_duplicate_features_and_features_of_pure_noise():
    ds = made("web")
    column = dict(zip(ds.feature_names, ds.features.T.astype(float), strict=True))
    assert np.corrcoef(np.log1p(column["tf_sum_body"]), np.log1p(column["tf_sum_page"]))[0, 1] > 0.9
    for name in ("outlinks", "site_rank", "url_slashes"):
        assert abs(np.corrcoef(np.log1p(column[name]), ds.labels)[0, 1]) < 0.02


def test_yahoo_features_lie_in_the_unit_interval_and_many_say_nothing():
    ds = made("yahoo")
    assert ds.n_features == 519
    assert ds.features.min() == 0
    assert ds.features.max() == 1
    assert 0.4 < np.mean(ds.features == 0) < 0.65
    everywhere = ds.features.min(axis=0) == ds.features.max(axis=0)
    assert 30 < everywhere.sum() < 100
    assert constant_in_lists(ds).sum() > everywhere.sum() + 30
    assert 20 < np.diff(ds.offsets).mean() < 28
    np.testing.assert_allclose(shares(ds, 5), [0.22, 0.50, 0.22, 0.04, 0.017], rtol=0.3, atol=0.01)
    assert 0.01 < blank_share(ds) < 0.06


def test_letor_is_scaled_within_lists_and_has_many_blank_ones():
    ds = made("letor")
    assert ds.n_features == 46
    assert 35 < np.diff(ds.offsets).mean() < 45
    assert 0.1 < blank_share(ds) < 0.2
    np.testing.assert_allclose(shares(ds, 3), [0.74, 0.20, 0.055], rtol=0.25)
    low = np.minimum.reduceat(ds.features, ds.offsets[:-1], axis=0)
    high = np.maximum.reduceat(ds.features, ds.offsets[:-1], axis=0)
    assert (low == 0).all()
    assert np.isin(high, (0, 1)).all()


def test_binary_has_one_relevant_document_in_most_lists_and_at_most_three():
    ds = made("binary")
    assert ds.n_features == 64
    relevant = np.add.reduceat(ds.labels, ds.offsets[:-1])
    assert set(relevant.tolist()) == {1, 2, 3}
    assert 0.8 < np.mean(relevant == 1) < 0.9
    assert set(ds.labels.tolist()) == {0, 1}


def ndcg(scores, ds, k=10):
    """Mean NDCG@k with gain 2^y - 1 over lists with a relevant document; scores without ties."""
    gain = np.exp2(ds.labels.astype(float)) - 1
    values = []
    for a, b in pairwise(ds.offsets):
        if gain[a:b].max() > 0:
            discount = 1 / np.log2(np.arange(2, min(k, b - a) + 2))
            order = np.argsort(-scores[a:b], kind="stable")[:k]
            values.append(gain[a:b][order] @ discount / (np.sort(gain[a:b])[::-1][:k] @ discount))
    return np.mean(values)


def linear_scores(train, test):
    """Ridge regression of labels on standardised log features, both centred within lists."""
    fitted = chain(Log1p(), Standard()).fit(train)
    x, y = (fitted.apply(train.features, train.offsets).astype(float), train.labels.astype(float))
    sizes = np.diff(train.offsets)
    x -= np.repeat(np.add.reduceat(x, train.offsets[:-1]) / sizes[:, None], sizes, axis=0)
    w = np.linalg.solve(x.T @ x + 1e-3 * len(x) * np.eye(x.shape[1]), x.T @ y)
    return fitted.apply(test.features, test.offsets) @ w


def test_web_relevance_can_be_learned_best_by_trees_but_never_fully():
    train, test = made("web", 400), made("web", 300, seed=1)
    data = lightgbm.Dataset(train.features, train.labels, group=np.diff(train.offsets))
    options = {"objective": "lambdarank", "verbose": -1, "seed": 0, "num_threads": 1}
    trees = ndcg(lightgbm.train(options, data, 40).predict(test.features), test)
    linear = ndcg(linear_scores(train, test), test)
    promising = ("query_url_clicks", "bm25_page", "tfidf_mean_page", "page_rank", "inlinks")
    columns = [test.feature_names.index(name) for name in promising]
    single = max(ndcg(test.features[:, j], test) for j in columns)
    random = ndcg(np.random.default_rng(0).random(test.n_docs), test)
    assert 0.15 < random < 0.3
    assert single > random + 0.05
    assert linear > single + 0.05
    assert trees > linear + 0.01
    assert trees < 0.65
