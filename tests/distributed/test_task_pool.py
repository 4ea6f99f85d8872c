"""Events of a task pool: messages, results, errors and canceled tasks."""

from __future__ import annotations

import sys
import time

import pytest

from plackett.base.errors import UsageError
from plackett.distributed import TaskEvent, TaskPool, as_cluster

pytestmark = pytest.mark.timeout(200)


@pytest.fixture(autouse=True, scope="module")
def _sent_by_value():
    cloudpickle = pytest.importorskip("ray.cloudpickle", reason="needs the extra distributed")
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def work(common, item, context):
    if item == "wrong":
        raise UsageError("that is wrong.")
    if item == "broken":
        raise ZeroDivisionError
    for number in range(3):
        context.send((item, number))
    if item == "long":
        for _ in range(1200):
            time.sleep(0.1)
            context()
    return common + item


def _next_event(pool: TaskPool) -> TaskEvent:
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        event = pool.next_event()
        if event is not None:
            return event
    raise AssertionError("no event came")


def test_messages_precede_results_and_canceled_tasks_end(ray_head) -> None:
    with TaskPool(as_cluster(ray_head.cluster()), work, "common ") as pool:
        assert pool.slots == 2
        pool.submit(5, "own")
        assert [_next_event(pool) for _ in range(3)] == [(5, "message", ("own", i)) for i in range(3)]
        assert _next_event(pool) == (5, "done", "common own")
        pool.submit(6, "wrong")
        number, kind, error = _next_event(pool)
        assert (number, kind, str(error)) == (6, "failed", "that is wrong.")
        assert isinstance(error, UsageError)
        pool.submit(7, "broken")
        error = _next_event(pool).content
        assert isinstance(error, RuntimeError)
        assert "ZeroDivisionError" in str(error)
        pool.submit(8, "long")
        assert [_next_event(pool).kind for _ in range(3)] == ["message"] * 3
        pool.cancel(8)
        assert _next_event(pool) == (8, "canceled", None)
