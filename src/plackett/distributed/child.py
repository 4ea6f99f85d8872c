"""The process that speaks with Ray: connects, does the work it is sent, and ends.

``python -m plackett.distributed.child`` is started by :mod:`plackett.distributed.conductor`, not by
people. It ends, and Ray's workers with it, when the process that started it does.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
import warnings

from plackett.distributed.cluster import Cluster
from plackett.distributed.line import Line
from plackett.distributed.sessions import connected, disconnect

_PATIENCE = 600.0  # seconds for the work to arrive; it may be large
_ENDING = 8.0  # seconds for Ray to end in good order


def main() -> None:
    """Do one piece of work."""
    # Libraries that print must not print into the messages.
    outgoing = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")
    line = Line(sys.stdin.buffer, outgoing)
    threading.Thread(target=_leave_with, args=(line,), daemon=True).start()
    try:
        cluster, work, arguments = line.receive(_PATIENCE)
        assert isinstance(cluster, Cluster)
        with connected(cluster):
            work(line, *arguments)
            line.send(("over", None))
    except Exception as error:
        line.send(("failed", (type(error).__name__, str(error), traceback.format_exc())))
    line.closed.wait()


def _leave_with(line: Line) -> None:
    """End when the other side does, in good order if that is quick."""
    line.closed.wait()
    ending = threading.Thread(target=disconnect, daemon=True)
    ending.start()
    ending.join(_ENDING)
    os._exit(0)


if __name__ == "__main__":
    main()
