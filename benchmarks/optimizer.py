"""One optimizer step on flat weights: torch.optim's fused functions against two other ways.

    python benchmarks/optimizer.py

"vector" is the same rule written as operations on whole vectors, "class" is ``step()`` of the
fused ``torch.optim`` class. Times are microseconds, the fastest of interleaved rounds; ratios
below 1 mean that the functions, which plackett uses, are faster.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch
from torch import nn

import plackett as pk
from plackett.models.neural.training import Optimizer

SIZES = (100, 1_000, 15_000, 100_000, 800_000)
ROUNDS, RATE = 15, 1e-3


def vector_step(name: str, size: int) -> Callable[[], None]:
    """The rule as operations on whole vectors."""
    weights, gradient, moments = torch.randn(size), torch.randn(size), torch.zeros(size)
    squares = torch.full((size,), 0.1)
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        if name == "adagrad":
            squares.addcmul_(gradient, gradient)
            weights.addcdiv_(gradient, squares.sqrt().add_(1e-10), value=-RATE)
            return
        moments.lerp_(gradient, 0.1)
        squares.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        second = math.sqrt(1.0 - 0.999**count)
        scale = squares.sqrt().div_(second).add_(1e-8)
        weights.addcdiv_(moments, scale, value=-RATE / (1.0 - 0.9**count))

    return step


def class_step(name: str, size: int) -> Callable[[], None]:
    weights = nn.Parameter(torch.randn(size))
    weights.grad = torch.randn(size)
    kind = torch.optim.Adagrad if name == "adagrad" else torch.optim.Adam
    return kind([weights], lr=RATE, fused=True).step


def function_step(name: str, size: int) -> Callable[[], None]:
    net = nn.Module()
    net.weights = nn.Parameter(torch.randn(size))
    optimizer = Optimizer(net, pk.NeuralRanker(optimizer=name))
    return lambda: optimizer._update(RATE)


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'optimizer':10} {'weights':>8} {'fused':>8} {'vs vector':>10} {'vs class':>9}")
    for name in ("adam", "adagrad"):
        for size in SIZES:
            steps = [make(name, size) for make in (function_step, vector_step, class_step)]
            repeats = max(3, 200_000 // max(size, 1_000))
            best = [math.inf] * len(steps)
            with torch.no_grad():
                for _ in range(ROUNDS):
                    for side, step in enumerate(steps):
                        start = time.perf_counter()
                        for _ in range(repeats):
                            step()
                        seconds = (time.perf_counter() - start) / repeats
                        best[side] = min(best[side], seconds)
            fused, vector, of_class = best
            print(f"{name:10} {size:8,} {fused * 1e6:8.1f} {fused / vector:10.2f} {fused / of_class:9.2f}")


if __name__ == "__main__":
    main()
