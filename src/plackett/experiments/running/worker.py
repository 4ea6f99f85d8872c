"""A worker process: takes trials from its standard input, gives results to its standard output.

It ends when its input ends, also in the midst of a trial: the process that wanted the result is
gone then. ``python -m plackett.experiments.running.worker`` is started by
:mod:`plackett.experiments.running.workers`, not by people.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import traceback
import warnings
from typing import Any, BinaryIO

from plackett.base.errors import ConvergenceWarning
from plackett.experiments.protocols import Source
from plackett.experiments.running.messages import Answer, Failure, Order, Start, receive, send
from plackett.experiments.running.runners import Setup
from plackett.experiments.running.trial import run_trial


def main() -> None:
    """Work until there is no more."""
    # Libraries that print must not print into the results.
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")
    orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, orders), daemon=True).start()
    start: Start = orders.get()
    source = start.source.open()
    while True:
        send(results, _answer(orders.get(), source, start.setup))


def _listen(stream: BinaryIO, orders: queue.SimpleQueue[Any]) -> None:
    while True:
        try:
            orders.put(receive(stream))
        except EOFError:
            os._exit(0)


def _answer(order: Order, source: Source, setup: Setup) -> Answer | Failure:
    try:
        trial = setup.protocol.trial(source, order.part)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always", ConvergenceWarning)
            found = run_trial(order.ranker, trial, metrics=setup.metrics, select=setup.select)
        cautions = (str(w.message) for w in seen if issubclass(w.category, ConvergenceWarning))
        return Answer(found, tuple(cautions))
    except Exception as error:
        return Failure(type(error).__name__, str(error), traceback.format_exc())


if __name__ == "__main__":
    main()
