"""Calls in worker processes: results, errors, warnings, and data that are shared."""

from __future__ import annotations

import os
import threading
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

import plackett as pk
from plackett.base.errors import ConvergenceWarning, FeatureMismatch, PlackettError, StoreError, UsageError
from plackett.distributed.local_pool import LocalPool
from plackett.distributed.training_job import find_mapped_folder
from plackett.experiments.protocols import as_source
from plackett.experiments.runners import open_source, share


def _fail(kind):
    raise kind("no luck.") if kind is not StoreError else StoreError("here", "no luck.")


def _warn():
    warnings.warn("not converged", ConvergenceWarning, stacklevel=1)
    return os.environ["OMP_NUM_THREADS"]


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    with LocalPool(1, threads=3, folder=tmp_path_factory.mktemp("pool")) as pool:
        yield pool


def test_results_and_warnings_come_back(pool) -> None:
    with pytest.warns(ConvergenceWarning, match="title: not converged"):
        assert pool.submit("title", _warn).result() == "3"


@pytest.mark.parametrize(
    ("kind", "raised", "text"),
    [
        (UsageError, UsageError, r"^no luck\.$"),
        (ZeroDivisionError, RuntimeError, r"ZeroDivisionError: no luck\."),
        (StoreError, PlackettError, r"^here: no luck\.$"),
        (FeatureMismatch, FeatureMismatch, r"^no luck\.$"),
    ],
)
def test_errors_come_back_and_the_worker_lives_on(pool, kind, raised, text) -> None:
    with pytest.raises(raised, match=text):
        pool.submit("title", _fail, kind).result()
    assert pool.submit("title", abs, -1).result() == 1


def test_what_cannot_be_sent_is_told_and_the_worker_lives_on(pool) -> None:
    with pytest.raises(UsageError, match="define functions and modules in a file"):
        pool.submit("title", abs, threading.Lock()).result()
    assert pool.submit("title", abs, -1).result() == 1


def test_shared_data_are_the_same_and_written_once(tmp_path) -> None:
    data = pk.synthetic("letor", n_lists=12, seed=0)
    sparse = data.with_features(csr_array(np.asarray(data.features)))
    folds = [pk.Fold("a", data, None, sparse), pk.Fold("b", sparse, data, data)]
    opened = open_source(share(as_source(folds), tmp_path))
    assert len(list(tmp_path.glob("data-*"))) == 2
    assert [fold.name for fold in opened.folds] == ["a", "b"]
    assert opened.folds[0].validation is None
    assert opened.folds[1].test is opened.folds[0].train
    train = opened.folds[0].train
    assert find_mapped_folder(train) is not None
    assert np.array_equal(train.features, data.features)
    assert np.array_equal(train.labels, data.labels)
    assert np.array_equal(train.keys, data.keys)


def test_other_data_replace_those_that_were_shared_before(tmp_path) -> None:
    data = pk.synthetic("letor", n_lists=12, seed=0)
    sparse = data.with_features(csr_array(np.asarray(data.features)))
    with LocalPool(1, threads=1, folder=tmp_path) as pool:
        paths = [pool.share(part) for part in (data, data, sparse, data)]
        assert paths[0] == paths[1]
        assert len(set(paths)) == 3
        assert [path for path in pool.folder.iterdir() if path.name.startswith("data-")] == paths[3:]
