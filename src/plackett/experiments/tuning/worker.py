"""A process that works on a search beside others.

It ends when its input ends, also in the midst of a trial: the process that started it is gone
then. ``python -m plackett.experiments.tuning.worker`` is started by
:mod:`plackett.experiments.tuning.parallel`, not by people.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
import warnings

from plackett.experiments.running.messages import Failure, receive, send
from plackett.experiments.tuning.opening import need_optuna
from plackett.experiments.tuning.parallel import Order


def main() -> None:
    """Work until all trials are finished."""
    # Libraries that print must not print into the answer.
    answer = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")
    order = receive(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _work(order)
    except Exception as error:
        send(answer, Failure(type(error).__name__, str(error), traceback.format_exc()))
        sys.exit(1)


def _work(order: Order) -> None:
    need_optuna()
    from plackett.experiments.tuning.looks import SHARES
    from plackett.experiments.tuning.study import Study
    from plackett.experiments.tuning.working import Work

    source = order.source.open()
    plan = order.plan
    n_looks = len(SHARES) * plan.divisions.count(source)
    with Study(order.place, plan, plan.identity(source), n_looks) as study:
        Work(study, source, order.trials, order.threads, lambda *_: None).finish()


def _end_with_parent() -> None:
    # Not through sys.stdin, whose lock this thread would hold when the interpreter ends.
    while os.read(0, 1):
        continue
    os._exit(0)


if __name__ == "__main__":
    main()
