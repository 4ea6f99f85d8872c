"""Single pieces of work on a cluster: what they say, how they end, and how to end them."""

from __future__ import annotations

import sys
import time

import pytest

from plackett.base.errors import UsageError
from plackett.distributed import as_cluster
from plackett.distributed.task_pool import TaskEvent, TaskPool

pytestmark = pytest.mark.timeout(200)


@pytest.fixture(autouse=True, scope="module")
def _sent_by_value():
    cloudpickle = pytest.importorskip("ray.cloudpickle", reason="needs the extra distributed")
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def work(common, own, sign):
    if own == "wrong":
        raise UsageError("that is wrong.")
    if own == "broken":
        raise ZeroDivisionError
    for number in range(3):
        sign.tell((own, number))
    if own == "long":
        for _ in range(1200):
            time.sleep(0.1)
            sign()
    return common + own


def _news(errands: TaskPool) -> TaskEvent:
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        found = errands.receive()
        if found is not None:
            return found
    raise AssertionError("waited in vain")


def test_messages_come_before_answers_and_work_that_is_not_wanted_ends(ray_head) -> None:
    with TaskPool(as_cluster(ray_head.cluster()), work, "common ") as errands:
        assert errands.slots == 2
        errands.send(5, "own")
        assert [_news(errands) for _ in range(3)] == [(5, "told", ("own", i)) for i in range(3)]
        assert _news(errands) == (5, "done", "common own")
        errands.send(6, "wrong")
        number, kind, error = _news(errands)
        assert (number, kind, str(error)) == (6, "failed", "that is wrong.")
        assert isinstance(error, UsageError)
        errands.send(7, "broken")
        error = _news(errands).content
        assert isinstance(error, RuntimeError)
        assert "ZeroDivisionError" in str(error)
        errands.send(8, "long")
        assert [_news(errands).kind for _ in range(3)] == ["told"] * 3
        errands.stop(8)
        assert _news(errands) == (8, "unwanted", None)
