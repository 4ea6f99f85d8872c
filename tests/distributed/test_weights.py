"""Weights of lists and of documents reach the workers: the model of one process."""

from __future__ import annotations

import numpy as np
import pytest

import plackett as pk

pytestmark = pytest.mark.timeout(300)


def _weighted(data: pk.Dataset) -> pk.Dataset:
    rng = np.random.default_rng(7)
    item = np.where(data.labels > 0, rng.choice([0.2, 1.0, 5.0], data.n_docs), 1.0)
    return data._replace(weights=rng.choice([0.25, 1.0, 4.0], data.n_lists), document_weights=item)


@pytest.fixture(scope="module")
def parts():
    return [_weighted(part) for part in pk.split(pk.synthetic("letor", n_lists=60, seed=1), (0.7, 0.3), seed=0)]


def _trees():
    # Leaves are limited by their curvature alone. LightGBM estimates numbers of documents from it,
    # and with weights as uneven as these an estimate of less than one is common.
    limits = {"min_data_in_leaf": 0, "min_sum_hessian_in_leaf": 1.0}
    return pk.TreeRanker("lambdarank", trees=10, leaves=7, seed=3, threads=1, lightgbm=limits)


def _without(parts, name: str):
    return [part._replace(**{name: None}) for part in parts]


def test_workers_weigh_lists_and_documents_as_one_process_does(ray_head, parts) -> None:
    alone = _trees().fit(*parts)
    together = _trees().fit(*parts, cluster=ray_head.cluster())
    ours = alone.predict(parts[1])
    np.testing.assert_allclose(together.predict(parts[1]), ours, rtol=0, atol=1e-9)
    for part, curves in alone.curves_.items():
        for name, curve in curves.items():
            np.testing.assert_allclose(together.curves_[part][name], curve, rtol=1e-5)
    for name in ("weights", "document_weights"):  # both of them count
        less = _trees().fit(*_without(parts, name)).predict(parts[1])
        assert np.abs(less - ours).max() > 1e-6
