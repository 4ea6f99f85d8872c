"""Time of the randomization test beside a block-vectorised NumPy version and ranx's.

Run ``python benchmarks/significance.py``; ``--help`` lists the options. The NumPy version hashes
the same random words, unpacks their bits and multiplies blocks of sign patterns with the
differences by BLAS; its p-value must be the same. ranx's is its ``fisher`` test (compiled with
Numba, all threads) with the same number of permutations, and is left out where ranx is missing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial

import numba
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from plackett.base.random import GOLDEN
from plackett.experiments.significance import randomization_test
from turns import fastest

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ADDED = np.uint64(GOLDEN)
_BLOCK = 256  # permutations; 60 MB of signs at 30,000 lists
_ROUNDING = 1e-12

Words = NDArray[np.uint64]


def _mix(word: Words) -> Words:
    word = (word ^ (word >> np.uint64(30))) * _FIRST
    word = (word ^ (word >> np.uint64(27))) * _SECOND
    return word ^ (word >> np.uint64(31))


def _combine(state: Words, word: Words) -> Words:
    return _mix((state ^ _mix(word + _ADDED)) * _FIRST + _ADDED)


def block_vectorised(differences: NDArray[np.float64], permutations: int) -> float:
    """The test in NumPy, on the same random bits."""
    n = len(differences)
    words = np.arange(0, n, 64, dtype=np.uint64)
    threshold = abs(differences.sum()) - _ROUNDING * np.abs(differences).sum()
    extreme = 0
    for low in range(0, permutations, _BLOCK):
        drawn = np.arange(low, min(low + _BLOCK, permutations), dtype=np.uint64)
        states = _combine(np.zeros(1, np.uint64), drawn)
        bits = _combine(states[:, None], words[None, :])
        signs = np.unpackbits(bits.astype("<u8").view(np.uint8), axis=1, bitorder="little")
        sums = differences.sum() - 2.0 * (signs[:, :n].astype(np.float64) @ differences)
        extreme += int(np.sum(np.abs(sums) >= threshold))
    return (extreme + 1) / (permutations + 1)


def ranx_test(values: NDArray[np.float64], baseline: NDArray[np.float64], n: int) -> float | None:
    try:
        from ranx.statistical_tests.fisher_randomization_test import fisher_randomization_test
    except ImportError:
        return None
    return float(fisher_randomization_test(values, baseline, n_permutations=n, max_p=0.05, random_seed=0)[0])


def works(arguments: argparse.Namespace) -> dict[str, Callable[[], float | None]]:
    rng = np.random.default_rng(0)
    baseline = rng.random(arguments.lists)
    values = np.clip(baseline + rng.normal(0.0005, 0.1, arguments.lists), 0, 1)
    d = values - baseline
    count = arguments.permutations
    found = {
        "plackett": lambda: randomization_test(d, permutations=count),
        "NumPy, in blocks": lambda: block_vectorised(d, count),
        "ranx": lambda: ranx_test(values, baseline, count),
    }
    if arguments.no_ranx or ranx_test(values[:9], baseline[:9], 9) is None:
        del found["ranx"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lists", type=int, default=30_000)
    parser.add_argument("--permutations", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--no-ranx", action="store_true", help="leave out the slowest")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    tests = works(arguments)
    p_values: dict[str, float | None] = {}

    def noted(name: str) -> None:
        p_values[name] = tests[name]()

    seconds = fastest({name: partial(noted, name) for name in tests}, arguments.rounds)
    if p_values["plackett"] != p_values["NumPy, in blocks"]:
        raise SystemExit(f"the p-values differ: {p_values}")
    if arguments.json:
        print(json.dumps({"seconds": seconds, "p": p_values, "threads": numba.get_num_threads()}))
        return
    title = f"{arguments.lists:,} lists, {arguments.permutations:,} permutations"
    table = Table("test", "seconds", "times plackett", "p", title=title)
    for name, taken in seconds.items():
        ratio = taken / seconds["plackett"]
        table.add_row(name, f"{taken:.3f}", f"{ratio:.1f}", f"{p_values[name]:.5f}")
    Console().print(table)


if __name__ == "__main__":
    main()
