from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from plackett.base import threads
from plackett.base.threads import kernel_threads, run_parallel


@pytest.fixture(autouse=True)
def four_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads.numba, "get_num_threads", lambda: 4)


@pytest.mark.parametrize("n", [0, 1, 3, 4, 17, 1000])
@pytest.mark.parametrize("least", [1, 5, 400])
def test_every_item_is_worked_on_once(n: int, least: int) -> None:
    counts = np.zeros(n, np.int64)

    def kernel(first: int, last: int, out: np.ndarray, step: int) -> None:
        assert last - first >= min(least, n)
        out[first:last] += step

    run_parallel(kernel, n, counts, 2, least=least)
    assert np.all(counts == 2)


def test_small_work_stays_on_the_calling_thread() -> None:
    names = set()
    run_parallel(lambda *_: names.add(threading.current_thread().name), 7, least=4)
    assert names == {threading.current_thread().name}


def test_an_error_in_a_part_reaches_the_caller_and_the_threads_live_on() -> None:
    def kernel(first: int, _last: int) -> None:
        if first == 0:
            raise ValueError("broken")

    for _ in range(3):
        with pytest.raises(ValueError, match="broken"):
            run_parallel(kernel, 100)
    test_every_item_is_worked_on_once(100, 1)


def test_several_threads_may_call_at_the_same_time() -> None:
    results = [np.zeros(500, np.int64) for _ in range(6)]

    def add(first: int, last: int, out: np.ndarray) -> None:
        out[first:last] += 1

    callers = [
        threading.Thread(target=lambda out=out: [run_parallel(add, 500, out) for _ in range(50)]) for out in results
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all(np.all(out == 50) for out in results)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, where another test has imported it
def test_a_forked_process_starts_threads_of_its_own() -> None:
    run_parallel(lambda *_: None, 100)
    child = os.fork()
    if child == 0:
        counts = np.zeros(100, np.int64)
        run_parallel(lambda first, last: counts.__setitem__(slice(first, last), 1), 100)
        os._exit(0 if counts.all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


AFTER_THE_MAIN_THREAD = """
import atexit, sys, threading, time
import numpy as np
from plackett.base import threads

threads.numba.get_num_threads = lambda: 4

def count():
    counts = np.zeros(100, np.int64)
    threads.run_parallel(lambda first, last: counts.__setitem__(slice(first, last), 1), 100)
    return counts.sum()

def work():
    threading.main_thread().join()
    time.sleep(0.2)  # until the interpreter waits for this thread
    print(count())

if "first" in sys.argv:
    count()  # starts helpers
atexit.register(lambda: print(count()))
threading.Thread(target=work).start()
"""


@pytest.mark.parametrize("when", ["first", "later"])
def test_a_thread_that_outlives_the_main_thread_works_on_alone(when: str) -> None:
    command = [sys.executable, "-c", AFTER_THE_MAIN_THREAD, when]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("100\n100\n", "")


def test_the_number_of_threads_can_be_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    names = set()
    with kernel_threads(1):
        run_parallel(lambda *_: names.add(threading.current_thread().name), 1000)
    assert names == {threading.current_thread().name}
