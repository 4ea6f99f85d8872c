"""How long a new process takes to its first derivative, with machine code cached on disk.

Run ``python benchmarks/cold_start.py``; ``--help`` lists the options. Every figure is the fastest
of several new processes, measured inside the process from its first line; a process before them
fills the cache. Imports of other libraries stand beside it for scale.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys

from rich.console import Console
from rich.table import Table

OBJECTIVES = ("xendcg", "lambdarank", "approxndcg", "listmle", "softrank", "convexloss-ndcg")
OTHERS = ("numpy", "numba", "lightgbm", "torch")
WANTED = 1.0  # seconds at most from the first line to the first derivative

IMPORT = """
import time
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""
EVALUATE = """
import time
start = time.perf_counter()
import plackett
plackett.objective({name!r}).evaluate([0.5, 0.1, -0.2], [0, 2, 1], [0, 3])
print(time.perf_counter() - start)
"""
BOOST = """
import time
start = time.perf_counter()
import numpy, plackett
derivatives = plackett.objective({name!r}).boosting([0, 2, 1], [0, 3])
derivatives(numpy.array([0.5, 0.1, -0.2]), 0)
print(time.perf_counter() - start)
"""


def programs(objectives: list[str]) -> dict[str, str]:
    chosen = {"import plackett": IMPORT.format(module="plackett")}
    for name in objectives:
        chosen[f"import plackett, evaluate {name}"] = EVALUATE.format(name=name)
        chosen[f"import plackett, boosting of {name}"] = BOOST.format(name=name)
    for module in OTHERS:
        chosen[f"import {module}"] = IMPORT.format(module=module)
    return chosen


def seconds(program: str) -> float:
    """What one process prints; infinite if it fails, as where a library is not installed."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return float(done.stdout) if done.returncode == 0 else math.inf


def measure(chosen: dict[str, str], processes: int) -> dict[str, float]:
    """Seconds of the fastest process of each, taken in turns."""
    best = dict.fromkeys(chosen, math.inf)
    for turn in range(processes + 1):
        for what, program in chosen.items():
            taken = seconds(program)
            if turn:
                best[what] = min(best[what], taken)
    return {what: taken for what, taken in best.items() if taken < math.inf}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objectives", nargs="+", default=list(OBJECTIVES))
    parser.add_argument("--rounds", type=int, default=7, help="processes of each kind")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(programs(options.objectives), options.rounds)
    if options.json:
        Console().print_json(json.dumps({"seconds": found, "wanted": WANTED}))
        return
    table = Table("new process", "seconds", title=f"wanted: at most {WANTED:.1f} s")
    for what, taken in found.items():
        table.add_row(what, f"{taken:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
