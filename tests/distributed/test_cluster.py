"""What can be said of clusters without one."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

import plackett as pk
from plackett.base.errors import UsageError
from plackett.base.ragged import offsets_from_sizes
from plackett.distributed import Cluster, as_cluster
from plackett.distributed.coordinator import reduce_arrays
from plackett.distributed.training_job import Partition, find_mapped_folder, split_lists
from plackett.models.trees.lightgbm_data import dataset_from_bins, find_bins


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("local:2", Cluster(workers=2)),
        ("local", Cluster()),
        ("auto", Cluster(address="auto")),
        ("local:3?threads=2", Cluster(workers=3, threads=2)),
        ("head:6379?workers=8&shared=1", Cluster(address="head:6379", workers=8, shared=True)),
        ("auto?step_seconds=5", Cluster(address="auto", step_seconds=5.0)),
    ],
)
def test_a_cluster_is_known_by_its_spelling(text: str, meant: Cluster) -> None:
    assert as_cluster(text) == meant
    assert as_cluster(meant) is meant


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("locl", "invalid cluster 'locl'; expected"),
        ("local:two", "workers must be a number, got 'two'"),
        ("local:0", "workers must be an integer >= 1, got 0"),
        ("auto?speed=9", "unknown setting 'speed'; a cluster has answer_seconds"),
        ("auto?shared=yes", "shared must be 0 or 1"),
        ("auto?start_seconds=-1", "start_seconds must be above 0"),
        ("ray://head:10001", "cannot be started through Ray's client"),
    ],
)
def test_a_wrong_spelling_is_answered_with_the_right_ones(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        as_cluster(text)


def test_without_ray_the_command_to_install_it_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    data = pk.synthetic("letor", n_lists=5)
    with pytest.raises(ImportError, match="the extra 'distributed'"):
        pk.TreeRanker().fit(data, cluster="local:2")


def test_models_of_one_process_say_so() -> None:
    data = pk.synthetic("letor", n_lists=5)
    with pytest.raises(UsageError, match="LinearRanker does not support cluster="):
        pk.LinearRanker().fit(data, cluster="local:2")


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(1, 8))
def test_every_list_goes_to_one_worker_and_every_worker_has_one(sizes, workers) -> None:
    offsets = offsets_from_sizes(sizes)
    if len(sizes) < workers:
        with pytest.raises(UsageError, match="cannot be divided among"):
            split_lists(offsets, workers)
        return
    bounds = split_lists(offsets, workers)
    assert bounds[0][0] == 0
    assert bounds[-1][1] == len(sizes)
    assert all(start < stop for start, stop in bounds)
    assert all(a[1] == b[0] for a, b in pairwise(bounds))
    shares = [offsets[stop] - offsets[start] for start, stop in bounds]
    assert max(shares) <= offsets[-1] / workers + 2 * max(sizes)


@given(st.data())
def test_a_mean_over_workers_is_that_of_one_process_to_the_bit(data) -> None:
    n_lists = data.draw(st.integers(2, 30))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    values = np.where(rng.random(n_lists) < 0.2, np.nan, rng.random(n_lists))
    weights = rng.random(n_lists)
    place = data.draw(st.integers(1, n_lists - 1))
    parts = [[weights[:place], values[:place]], [weights[place:], values[place:]]]
    counts = ~np.isnan(values)
    whole = (values[counts] * weights[counts]).sum() / weights[counts].sum() if counts.any() else np.nan
    np.testing.assert_array_equal(reduce_arrays(parts, "mean")[0], whole)


def test_a_worker_finds_its_own_lists_in_a_batch() -> None:
    partition = Partition(np.arange(6, dtype=np.uint64), np.ones(6, np.int64), 2, 4)
    assert partition.to_local(np.array([5, 3, 0, 2])).tolist() == [1, 0]


def test_a_mapped_data_set_is_opened_where_it_is(tmp_path) -> None:
    data = pk.synthetic("letor", n_lists=5)
    pk.write(data, tmp_path / "d.pkdata")
    mapped = pk.read(tmp_path / "d.pkdata")
    assert find_mapped_folder(mapped) == (tmp_path / "d.pkdata").resolve()
    assert find_mapped_folder(data) is None
    assert find_mapped_folder(mapped.lists(0, 3)) is None


@pytest.mark.parametrize("sparse", [False, True])
def test_bins_sent_to_workers_are_those_of_one_process(sparse: bool) -> None:
    import lightgbm
    from scipy.sparse import csr_array

    rng = np.random.default_rng(0)
    x = np.where(rng.random((3000, 5)) < 0.5, 0, rng.normal(size=(3000, 5))).astype(np.float32)
    x[::7, 2] = np.nan
    x[:, 4] = rng.integers(0, 9, 3000)  # categories
    y = np.nan_to_num(x).sum(axis=1) + rng.normal(size=3000)
    data = pk.Dataset.from_arrays(x, None, np.arange(3000) // 30, missing="nan")
    if sparse:
        data = data.with_features(csr_array(np.asarray(data.features)))
    # Fewer than there are documents, so that the sample is drawn.
    settings = {"bin_construct_sample_cnt": 1000, "verbosity": -1, "num_threads": 1, "max_bin": 63}
    settings |= {"seed": 5}  # which is not a parameter of the data, but decides what is drawn
    reference = dataset_from_bins(find_bins(data, settings, [4]), settings, [4])
    models = []
    for given_reference in (None, reference):
        actual = lightgbm.Dataset(data.features, y, reference=given_reference, categorical_feature=[4], params=settings)
        models.append(lightgbm.train(settings, actual, 5).model_to_string())
    assert models[0] == models[1]
