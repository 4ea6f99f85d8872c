"""Time alternatives in turns, so that a busy moment of the machine does not count against one."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping


def fastest(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds of the fastest turn of each; one turn more, the first, compiles and warms up."""
    best = dict.fromkeys(works, math.inf)
    collected = gc.isenabled()
    gc.disable()  # as timeit does
    try:
        for turn in range(rounds + 1):
            for name, work in works.items():
                start = time.perf_counter()
                work()
                taken = time.perf_counter() - start
                if turn:
                    best[name] = min(best[name], taken)
    finally:
        if collected:
            gc.enable()
    return best
