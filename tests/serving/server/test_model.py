"""Requests for models that are not plain trees are scored in batches, each with its own result."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

pytest.importorskip("starlette", reason="pip install 'plackett[serve]'")

from plackett.serving.server import model as served
from server_harness import app_of, call
from serving_models import documents, fitted

X = documents(30, seed=3)


def rank_during_first(app, bodies, n_docs):
    """Responses to requests of which all but the first arrive while the first is scored.

    Also returns the number of documents of each call of the model.
    """
    model = app.registry.catalog.find(None, None)
    predict, gate, sizes = model.scorer, threading.Event(), []

    def scorer(features, offsets):
        sizes.append(len(features))
        gate.wait(10)
        return predict(features, offsets)

    object.__setattr__(model, "scorer", scorer)

    async def run():
        first, *rest = (json.dumps(body).encode() for body in bodies)
        tasks = [asyncio.create_task(call(app, "POST", "/rank", first))]
        while not sizes:
            await asyncio.sleep(0.01)
        tasks += [asyncio.create_task(call(app, "POST", "/rank", body)) for body in rest]
        while sum(lists.n_docs for lists, _ in app._batcher._queues[model]) < n_docs:
            await asyncio.sleep(0.01)
        gate.set()
        return await asyncio.gather(*tasks)

    return asyncio.run(run()), sizes


@pytest.mark.parametrize("name", ["linear", "linear-minmax", "trees-standard", "trees-crossfit"])
def test_requests_that_wait_are_scored_together_with_the_same_scores(name, saved) -> None:
    parts = [X[:7], X[7:12], X[12:13], X[13:]]
    bodies = [{"documents": part.tolist()} for part in parts]
    with app_of({"m": saved(name)}) as app:
        responses, sizes = rank_during_first(app, bodies, n_docs=23)
    assert sizes == [7, 23]
    for part, response in zip(parts, responses, strict=True):
        assert response.json["scores"] == fitted(name).predict(part).tolist()


def test_a_request_that_fails_does_not_affect_others_of_its_batch(saved) -> None:
    broken = [[None, *X[1, 1:].tolist()]]
    bodies = [{"documents": rows} for rows in (X[:2].tolist(), broken, X[2:5].tolist())]
    with app_of({"m": saved("linear")}) as app:
        responses, _ = rank_during_first(app, bodies, n_docs=4)
    assert [response.status for response in responses] == [200, 422, 200]
    assert "document 0" in responses[1].detail
    assert responses[2].json["scores"] == fitted("linear").predict(X[2:5]).tolist()


def test_large_requests_are_not_put_into_one_batch(saved, monkeypatch) -> None:
    monkeypatch.setattr(served, "_BATCH_DOCUMENTS", 10)
    bodies = [{"documents": X[:n].tolist()} for n in (1, 6, 4, 3, 20)]
    with app_of({"m": saved("linear")}) as app:
        responses, sizes = rank_during_first(app, bodies, n_docs=33)
    assert sizes == [1, 10, 3, 20]
    for n, response in zip((1, 6, 4, 3, 20), responses, strict=True):
        assert response.json["scores"] == fitted("linear").predict(X[:n]).tolist()


def test_plain_trees_are_scored_at_once(saved) -> None:
    for name, is_batched in (("trees", False), ("stumps", True), ("trees-standard", True)):
        with app_of({"m": saved(name)}) as app:
            assert app.registry.catalog.find(None, None).is_batched is is_batched


@pytest.mark.parametrize(("layer", "is_locked"), [("omp", False), ("tbb", False), ("workqueue", True), (None, True)])
def test_parallel_loops_are_locked_where_numba_needs_it(monkeypatch, layer, is_locked) -> None:
    def threading_layer():
        if layer is None:
            raise ValueError("Threading layer is not initialized.")
        return layer

    monkeypatch.setattr(served.numba, "threading_layer", threading_layer)
    with served.parallel_loops() as held:
        assert (held is not None) is is_locked
