"""How the cost of each objective grows with the length of a list.

Run ``python benchmarks/cost.py --plot docs/_static/cost.svg``; ``--help`` lists the options. Each
objective, with its default parameters, is evaluated (value, gradient and curvature in double
precision, one thread) on lists of 8, 16, ... 1,024 documents: as many lists of a length as it takes
for an evaluation to last some milliseconds. What depends on labels alone is prepared before. The
exponent is the slope of a straight line through the logarithms of the times at the four longest
lengths; the next column is the slope of the claimed growth over the same lengths.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numba
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from cost_chart import Curve, write_chart
from plackett.objectives import OBJECTIVES, Objective
from plackett.objectives.objective import BoundObjective
from turns import fastest

LENGTHS = tuple(2**k for k in range(3, 11))
LONGEST = {"softrank": 128}  # where the longest would take seconds
FITTED = 4  # lengths, the longest ones
LABEL_SHARES = (0.53, 0.32, 0.12, 0.02, 0.01)
PROBED = 16  # lists, to find out how many are needed
MOST_DOCUMENTS = 2**18
GROWTHS: dict[str, Callable[[float], float]] = {
    "n": lambda n: n,
    "n log n": lambda n: n * math.log(n),
    "n²": lambda n: n**2,
    "n³": lambda n: n**3,
}
_SAMPLED = tuple(f"{loss}-{gain}" for loss in ("expgain", "convexloss", "l2", "l3") for gain in ("map", "ndcg"))
CLAIMS = {
    "n": (
        *("crossentropy", "listnet", "xendcg", "listmle", "plistmle", "rankboost", "boltzrank", *_SAMPLED),
        *("squared", "logistic", "ordinal", "calibrated-softmax", "circle"),
    ),
    "n log n": ("mdprank", "urank", "ranksvm", "pairhinge", "pairsquared", "yetirank"),
    "n²": (
        *("approxndcg", "approxmrr", "lambdarank", "lambdaloss", "ranknet", "umart", "svmmap"),
        *("mle", "expgain-auc", "convexloss-auc", "l2-auc", "l3-auc", "lambdagap", "approxmap", "approxerr"),
        *("softsort", "neuralndcg", "pirank", "fastsoftrank", "stochasticrank"),
    ),
    "n³": ("softrank",),
}
"""What the docstrings of the objectives say, for a fixed share of relevant documents."""


@dataclass(frozen=True)
class Work:
    """One objective on lists of one length."""

    lists: BoundObjective
    scores: NDArray[np.float64]

    def __call__(self) -> object:
        return self.lists.evaluate(self.scores)


def work(objective: Objective, length: int, n_lists: int) -> Work:
    rng = np.random.default_rng(length)
    labels = rng.choice(len(LABEL_SHARES), length * n_lists, p=LABEL_SHARES)
    scores = 0.5 * labels + rng.normal(size=len(labels))
    return Work(objective.bind(labels, length * np.arange(n_lists + 1)), scores)


def enough_lists(objective: Objective, length: int, seconds: float) -> int:
    """Number of lists of this length that take about so long."""
    probe = work(objective, length, PROBED)
    probe()  # compiles
    start = time.perf_counter()
    probe()
    taken = time.perf_counter() - start
    return max(PROBED, min(int(PROBED * seconds / taken), MOST_DOCUMENTS // length))


def slope(lengths: list[int], seconds: list[float]) -> float:
    x, y = np.log(lengths[-FITTED:]), np.log(seconds[-FITTED:])
    return float(np.polyfit(x, y, 1)[0])


def measure(objective: Objective, claim: str, seconds: float, rounds: int) -> Curve:
    lengths = [n for n in LENGTHS if n <= LONGEST.get(objective.name, LENGTHS[-1])]
    counts = [enough_lists(objective, n, seconds) for n in lengths]
    works = {str(n): work(objective, n, count) for n, count in zip(lengths, counts, strict=True)}
    best = fastest(works, rounds)
    each = [best[str(n)] / count for n, count in zip(lengths, counts, strict=True)]
    growth = GROWTHS[claim]
    return Curve(
        objective.name,
        claim,
        lengths,
        [1e6 * t for t in each],
        [1e6 * each[-1] * growth(n) / growth(lengths[-1]) for n in lengths],
        slope(lengths, each),
        slope(lengths, [growth(n) for n in lengths]),
    )


def claims(names: list[str]) -> dict[str, str]:
    """What each objective claims, by growth."""
    claimed = {name: growth for growth, group in CLAIMS.items() for name in group}
    missing = sorted({each.name for each in OBJECTIVES} - set(claimed))
    if missing:
        raise SystemExit(f"CLAIMS in benchmarks/cost.py lacks {', '.join(missing)}")
    return {name: growth for name, growth in claimed.items() if not names or name in names}


def show(curves: list[Curve]) -> None:
    shown = (8, 128, 1024)
    headings = [f"n = {n}" for n in shown]
    title = "microseconds of one list of n documents, one thread"
    table = Table("objective", *headings, "claimed", "its slope", "measured", title=title)
    for curve in curves:
        times = dict(zip(curve.lengths, curve.microseconds, strict=True))
        cells = [f"{times[n]:.1f}" if n in times else "" for n in shown]
        slopes = (f"{curve.claimed_slope:.2f}", f"{curve.slope:.2f}")
        table.add_row(curve.name, *cells, curve.claim, *slopes)
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--milliseconds", type=float, default=5.0, help="of one evaluation")
    parser.add_argument("--objectives", nargs="*", default=[], help="names; all by default")
    parser.add_argument("--plot", type=Path, help="write a chart (SVG) to this file")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    numba.set_num_threads(1)
    by_name = {each.name: each for each in OBJECTIVES}
    chosen = claims(options.objectives)
    curve = partial(measure, seconds=1e-3 * options.milliseconds, rounds=options.rounds)
    progress = track(chosen.items(), console=Console(stderr=True), transient=True)
    curves = [curve(by_name[name](), claim) for name, claim in progress]
    if options.plot:
        options.plot.parent.mkdir(parents=True, exist_ok=True)
        write_chart(curves, options.plot)
    if options.json:
        Console().print_json(json.dumps([asdict(curve) for curve in curves]))
    else:
        show(curves)


if __name__ == "__main__":
    main()
