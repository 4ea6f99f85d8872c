"""How long a new process takes to its first derivative, with machine code cached on disk.

Run ``python benchmarks/cold_start.py``; ``--help`` lists the options. Every figure is the fastest
of a few new processes, measured inside the process from its first line; a process before them fills
the cache, and anything still to be compiled is not counted. Imports of other libraries are shown
for scale. A process takes about a second, so the table takes half a minute; more objectives or
rounds take longer in proportion.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys

from rich.console import Console
from rich.table import Table

OBJECTIVES = ("xendcg", "listmle", "convexloss-ndcg")
BOOSTED = ("xendcg", "lambdarank")
OTHERS = ("numpy", "numba", "lightgbm", "torch")
WANTED_IMPORT = 0.7  # seconds at most
WANTED = 1.0  # seconds at most from the first line to the first derivative
TOO_LONG = 120.0  # seconds after which a process is given up; the first one may have to compile

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
derivatives = plackett.objective({name!r}).bind([0, 2, 1], [0, 3]).float32_gradient
derivatives(numpy.array([0.5, 0.1, -0.2]), 0)
print(time.perf_counter() - start)
"""


def programs(objectives: list[str], boosted: list[str]) -> dict[str, str]:
    chosen = {"import plackett": IMPORT.format(module="plackett")}
    for name in objectives:
        chosen[f"import plackett, evaluate {name}"] = EVALUATE.format(name=name)
    for name in boosted:
        chosen[f"import plackett, boosting of {name}"] = BOOST.format(name=name)
    for module in OTHERS:
        chosen[f"import {module}"] = IMPORT.format(module=module)
    return chosen


def seconds(program: str) -> float:
    """What one process prints; infinite if it fails, as where a library is not installed."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=TOO_LONG
    )
    return float(done.stdout) if done.returncode == 0 else math.inf


def measure(chosen: dict[str, str], processes: int) -> dict[str, float]:
    """Seconds of the fastest process of each, taken in turns."""
    best = dict.fromkeys(chosen, math.inf)
    for turn in range(processes + 1):
        for what, program in chosen.items():
            if turn:
                best[what] = min(best[what], seconds(program))
            elif "plackett" in what:
                seconds(program)  # compiles
    return {what: taken for what, taken in best.items() if taken < math.inf}


def wanted(what: str) -> str:
    if what == "import plackett":
        return f"{WANTED_IMPORT:.1f}"
    return f"{WANTED:.1f}" if "plackett" in what else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objectives", nargs="*", default=list(OBJECTIVES), help="to evaluate")
    parser.add_argument("--boosted", nargs="*", default=list(BOOSTED), help="as trees call them")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each kind")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(programs(options.objectives, options.boosted), options.rounds)
    if options.json:
        limits = {"import plackett": WANTED_IMPORT, "first derivative": WANTED}
        Console().print_json(json.dumps({"seconds": found, "wanted": limits}))
        return
    table = Table("new process", "seconds", "wanted at most")
    for what, taken in found.items():
        table.add_row(what, f"{taken:.2f}", wanted(what))
    Console().print(table)


if __name__ == "__main__":
    main()
