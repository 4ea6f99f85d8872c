"""Permuting the documents of a list permutes what an objective gives; random ones by ``draws``."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from plackett.objectives import OBJECTIVES, Stochastic

pytestmark = pytest.mark.kernels

N = 9


def _draws(loss, labels, rng):
    """Explicit values for whatever the objective draws, and how to permute them."""
    kind = loss.draw
    if kind is None:
        return {}
    if kind in ("gamma", "noise"):
        return {kind: rng.random(N)}
    if kind == "order":
        noise = rng.random(N)
        return {"order": np.lexsort((noise, -labels))}
    if kind == "permutations":
        return {"permutations": [np.array([rng.permutation(N) for _ in range(6)])]}
    goods, bads = int((labels > 0).sum()), int((labels == 0).sum())
    places = np.array([rng.permutation(goods + bads) for _ in range(6)])
    places[0] = np.arange(goods + bads)  # the ideal ranking: all goods first
    above = places[:, :goods, None] < places[:, None, goods:]
    return {"rankings": [np.where(above, 1, -1)]}


def _permuted(draws, labels, order):
    """The same draws when document order[k] stands at place k."""
    inverse = np.argsort(order)
    result = {}
    for kind, value in draws.items():
        if kind in ("gamma", "noise"):
            result[kind] = value[order]
        elif kind == "uniform":
            result[kind] = value[:, order]
        elif kind == "order":
            result[kind] = inverse[value]
        elif kind == "permutations":
            result[kind] = [inverse[value[0]]]
        else:
            goods, bads = np.flatnonzero(labels > 0), np.flatnonzero(labels == 0)
            rows = np.argsort(inverse[goods])
            columns = np.argsort(inverse[bads])
            result[kind] = [value[0][:, rows][:, :, columns]]
    return result


@pytest.mark.parametrize("stochastic", [False, True], ids=["plain", "stochastic"])
@pytest.mark.parametrize("kind", OBJECTIVES, ids=lambda kind: kind.name)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=8, deadline=None)
def test_permuting_documents_permutes_the_derivatives(kind, stochastic: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.permutation([0, 0, 0, 1, 1, 2, 3, 0, 1]).astype(np.float32)
    scores = rng.normal(size=N)  # without ties, which are broken by position
    loss = kind()
    draws = _draws(loss, labels, rng)
    if stochastic:
        loss = Stochastic(loss, samples=3, beta=0.5)
        draws["uniform"] = rng.uniform(0.01, 0.99, size=(3, N))
    order = rng.permutation(N)
    here = loss.evaluate(scores, labels, [0, N], draws=draws or None)
    there = loss.evaluate(scores[order], labels[order], [0, N], draws=_permuted(draws, labels, order) or None)
    size = np.abs(here.gradient).max() + 1e-5  # what is left of terms of 1 that cancel is noise
    np.testing.assert_allclose(there.values, here.values, rtol=1e-9)
    np.testing.assert_allclose(there.gradient, here.gradient[order], rtol=1e-7, atol=1e-10 * size)
    bend = here.curvature.max() + 1e-9
    np.testing.assert_allclose(there.curvature, here.curvature[order], rtol=1e-6, atol=1e-9 * bend)
