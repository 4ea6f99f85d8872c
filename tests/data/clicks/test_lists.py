from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import plackett as pk
from plackett.base.errors import DataError, UsageError
from plackett.data.clicks import simulate

LOG = {
    "impression": [1, 1, 1, 2, 2, 2, 3, 3, 4, 4],
    "query": ["tea"] * 6 + ["pot"] * 4,
    "document": ["a", "b", "c", "b", "a", "c", "a", "z", "a", "z"],
    "position": [1, 2, 3, 1, 2, 3, 1, 2, 1, 2],
    "click": [0, 1, 0, 1, 0, 1, 0, 0, 1, 1],
}
PROPENSITIES = [1.0, 0.5, 0.25]


@pytest.fixture
def documents():
    ids = ["a", "b", "c", "d", "a", "z"]
    return pk.Dataset.from_arrays(np.arange(6.0)[:, None], None, ["tea"] * 4 + ["pot"] * 2, document_ids=ids)


def _rows(ds):
    """(list, document) to (label, weight of the document), and lists to their weights."""
    actual = {}
    for d, query in enumerate(ds.query_ids.tolist()):
        item = 1.0 if ds.document_weights is None else ds.document_weights[d]
        actual[query, ds.document_ids[d].item()] = (ds.labels[d].item(), item)
    lists = {} if ds.weights is None else dict(zip(ds.list_ids.tolist(), ds.weights, strict=True))
    return actual, lists


def test_clicks_alone_are_labels(documents) -> None:
    ds = pk.Dataset.from_clicks(LOG, documents)
    actual, _ = _rows(ds)
    # Impression 3 has no click, and of impression 4 everything was clicked.
    assert {key: label for key, (label, _) in actual.items()} == {
        (1, "a"): 0,
        (1, "b"): 1,
        (1, "c"): 0,
        (2, "b"): 1,
        (2, "a"): 0,
        (2, "c"): 1,
    }
    assert ds.weights is None
    assert ds.document_weights is None
    for d in range(ds.n_docs):  # a, b and c of tea have the features 0, 1 and 2
        assert ds.features[d, 0] == "abc".index(ds.document_ids[d].item())


def test_a_click_counts_one_over_its_propensity_by_impression(documents) -> None:
    ds = pk.Dataset.from_clicks(LOG, documents, propensities=PROPENSITIES)
    actual, lists = _rows(ds)
    assert lists == {1: 2.0, 2: 5.0}
    # What an objective that divides by the gains of a list makes of them.
    clicks = {1: 1, 2: 2}
    counts = {key: lists[key[0]] * item / clicks[key[0]] for key, (label, item) in actual.items() if label}
    assert counts == {(1, "b"): 2.0, (2, "b"): 1.0, (2, "c"): pytest.approx(4.0)}
    assert all(item == 1.0 for label, item in actual.values() if not label)


def test_clicks_add_up_by_query(documents) -> None:
    ds = pk.Dataset.from_clicks(LOG, documents, by="query", propensities=PROPENSITIES)
    actual, lists = _rows(ds)
    # tea: b once at 2 and once at 1, c once at 3; pot: a once at 1, z once at 2.
    assert {key: lists[key[0]] * item for key, (label, item) in actual.items() if label} == {
        ("tea", "b"): pytest.approx(3.0),
        ("tea", "c"): pytest.approx(4.0),
        ("pot", "a"): pytest.approx(1.0),
        ("pot", "z"): pytest.approx(2.0),
    }
    assert actual["tea", "a"] == (0.0, 1.0)
    assert ("tea", "d") not in actual  # never shown


def test_clipping_limits_what_a_click_counts(documents) -> None:
    ds = pk.Dataset.from_clicks(LOG, documents, propensities=PROPENSITIES, clip=0.5)
    _, lists = _rows(ds)
    assert lists == {1: 2.0, 2: 3.0}
    with pytest.raises(UsageError, match="clip limits propensities"):
        pk.Dataset.from_clicks(LOG, documents, clip=0.5)


def test_order_of_rows_and_of_documents_does_not_matter(documents) -> None:
    once = pk.Dataset.from_clicks(LOG, documents, propensities=PROPENSITIES).canonical()
    order = np.random.default_rng(0).permutation(10)
    shuffled = {name: [values[i] for i in order] for name, values in LOG.items()}
    again = pk.Dataset.from_clicks(shuffled, documents, propensities=PROPENSITIES).canonical()
    for name in ("features", "labels", "offsets", "weights", "document_weights", "keys"):
        assert np.array_equal(getattr(once, name), getattr(again, name))


def test_a_log_without_queries_goes_by_documents() -> None:
    documents = pk.Dataset.from_arrays([[1.0], [2.0]], None, ["q", "q"], document_ids=["a", "b"])
    log = {k: [v[i] for i in (0, 1)] for k, v in LOG.items() if k != "query"}
    ds = pk.Dataset.from_clicks(log, documents)
    assert ds.n_lists == 1
    by_query = pk.Dataset.from_clicks(log, documents, by="query")
    assert by_query.list_ids.tolist() == ["q"]


def test_ids_of_numbers_match_ids_of_text() -> None:
    documents = pk.Dataset.from_arrays([[1.0], [2.0]], None, [5, 5], document_ids=[1, 2])
    log = {"impression": [0, 0], "query": ["5", "5"], "document": ["1", "2"], "position": [1, 2], "click": [0, 1]}
    assert pk.Dataset.from_clicks(log, documents).n_docs == 2


def test_sparse_features_stay_sparse(documents) -> None:
    sparse = documents.with_features(csr_array(documents.features))
    assert isinstance(pk.Dataset.from_clicks(LOG, sparse).features, csr_array)


def test_what_does_not_fit_is_named(documents) -> None:
    with pytest.raises(DataError, match=r"row 7 .*document 'y' of query 'pot' has no features"):
        pk.Dataset.from_clicks({**LOG, "document": [*"abcbaca", "y", "a", "z"]}, documents)
    with pytest.raises(DataError, match="no document ids"):
        pk.Dataset.from_clicks(LOG, pk.Dataset.from_arrays([[1.0]], None, [1]))
    log = {k: v for k, v in LOG.items() if k != "query"}
    with pytest.raises(DataError, match=r"document 'a' is 2 times .* needs a column of queries"):
        pk.Dataset.from_clicks(log, documents)
    with pytest.raises(DataError, match=r"row 5 .*click at position 3, whose .* not known"):
        pk.Dataset.from_clicks(LOG, documents, propensities=[1.0, 0.5])
    with pytest.raises(DataError, match="nothing to learn"):
        pk.Dataset.from_clicks({**LOG, "click": [0] * 10}, documents)
    with pytest.raises(UsageError, match="by must be"):
        pk.Dataset.from_clicks(LOG, documents, by="session")


def test_simulated_logs_fit_the_data_they_were_made_on() -> None:
    web = pk.synthetic("web", n_lists=20, seed=1)
    assert web.document_ids is None
    log = simulate(web, impressions=5, top=5)
    train = pk.Dataset.from_clicks(log, web.lists(0, 20))
    rows = {row.tobytes() for row in web.features}
    assert all(row.tobytes() in rows for row in train.features)
    part = web.lists(0, 10)
    with pytest.raises(DataError, match="has no features"):
        pk.Dataset.from_clicks(log, part)
    half = pk.Dataset.from_clicks(log.of_queries(part.query_ids), part, by="query")
    assert half.n_lists <= 10


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".pkdata"])
def test_weights_of_documents_come_back_from_files(tmp_path, documents, suffix) -> None:
    ds = pk.Dataset.from_clicks(LOG, documents, propensities=PROPENSITIES)
    path = tmp_path / f"train{suffix}"
    pk.write(ds, path)
    back = pk.read(path)
    assert np.array_equal(back.document_weights, ds.document_weights)
    assert np.array_equal(back.weights, ds.weights)
    assert back.feature_names == ds.feature_names


def test_lists_by_impression_are_clipped_unless_told_otherwise(documents) -> None:
    inputs = [1.0, 0.5, 0.01]

    def heaviest(**options) -> float:
        data = pk.Dataset.from_clicks(LOG, documents, propensities=inputs, **options)
        return float(data.weights.max())

    assert heaviest() == 1.0 + 1 / 0.2
    assert heaviest(clip=0) == 101.0
    assert heaviest(clip=0.5) == 3.0
    assert heaviest(by="query") == pytest.approx((100.0 + 3.0) / 2)
    with pytest.raises(UsageError, match="between 0 and 1"):
        heaviest(clip=-0.1)
