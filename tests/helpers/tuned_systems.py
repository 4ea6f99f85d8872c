"""A ranker with something to tune that takes as long, and fails in the way, that a test wants.

``python tuned_systems.py STORE TRIALS PAUSE [CLUSTER]`` searches and prints each step, for tests that kill it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass

import numpy as np

import plackett as pk
from plackett.base.errors import UsageError
from plackett.experiments.tuning import Real, tune
from plackett.metrics import evaluate
from plackett.models.ranker import Ranker

SPACE = {"angle": Real(0.0, 3.0), "rate": Real(0.01, 1.0, log=True)}
PAUSE = 0.05
FITS: list[tuple[float, float]] = []
"""Angle and rate of each fit in this process."""


@dataclass
class AngleRanker(Ranker):
    """Ranks by a direction between two features, which it turns to in steps."""

    angle: float = 0.1
    rate: float = 0.1
    steps: int = 8
    pause: float = 0.0
    limit: float = 10.0
    """Larger angles fail."""
    fault: str = "refuses"
    """How they fail: the ranker ``refuses``, ``dies`` with its process, or ``hangs``."""
    seed: int = 0
    transforms: tuple[str, ...] = ()

    def _fit(self, train, validation, run) -> None:  # noqa: ARG002
        FITS.append((self.angle, self.rate))
        if self.angle > self.limit:
            self._fail()
        for step in range(self.steps):
            self.turned_ = self.angle * (1 - (1 - self.rate) ** (step + 1))
            time.sleep(self.pause)
            run.progress("steps", step + 1, self.steps)
            if validation is not None:
                name = run.metric_names[0]
                mean = evaluate(self._predict(validation), validation, [name])[name]
                run.watch(step + 1, self.steps, mean)

    def _fail(self) -> None:
        if self.fault == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "hangs":
            time.sleep(600)
        raise UsageError(f"the angle {self.angle} is too large.")

    def _predict(self, data):
        a, b = (np.asarray(data.features[:, j], dtype=np.float64) for j in (0, 3))
        return np.cos(self.turned_) * a + np.sin(self.turned_) * b

    def _write(self, folder) -> None:
        raise NotImplementedError

    def _read(self, folder) -> None:
        raise NotImplementedError


def small_data(n_lists: int = 40):
    return pk.synthetic("letor", n_lists=n_lists, seed=1)


def search(store, trials: int, **options):
    options = {"space": SPACE, "store": store, "refit": False, **options}
    ranker = options.pop("ranker", AngleRanker())
    return tune(small_data(), ranker, trials=trials, **options)


def main(store: str, trials: str, pause: str, cluster: str | None = None) -> None:
    """Search with two folds and print each step."""

    def say(text: str, done: int, total: int) -> None:
        sys.stdout.write(f"{done}/{total} {text}\n")
        sys.stdout.flush()

    options = {} if cluster is None else {"cluster": cluster, "pruner": "none"}
    result = search(store, int(trials), ranker=AngleRanker(pause=float(pause)), progress=say, folds=2, **options)
    sys.stdout.write(f"ran {result.ran}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
