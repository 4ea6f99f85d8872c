"""A ranker with something to tune that takes as long, and goes as wrong, as a test wants.

``python turning.py STORE TRIALS CLUSTER`` searches on a cluster, saying each step of it.
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


@dataclass
class TurningRanker(Ranker):
    """Ranks by a direction between two features, which it turns to in steps."""

    angle: float = 0.1
    rate: float = 0.1
    steps: int = 8
    pause: float = 0.0
    limit: float = 10.0
    """Angles above it go wrong."""
    fault: str = "refuses"
    seed: int = 0
    transforms: tuple[str, ...] = ()

    def _fit(self, train, validation, run) -> None:  # noqa: ARG002
        if self.angle > self.limit:
            self._go_wrong()
        for step in range(self.steps):
            self.turned_ = self.angle * (1 - (1 - self.rate) ** (step + 1))
            time.sleep(self.pause)
            run.progress("steps", step + 1, self.steps)
            if validation is not None:
                name = run.metric_names[0]
                mean = evaluate(self._predict(validation), validation, [name])[name]
                run.watch(step + 1, self.steps, mean)

    def _go_wrong(self) -> None:
        if self.fault == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "hangs":
            time.sleep(600)
        raise UsageError(f"the angle {self.angle} is too much.")

    def _predict(self, data):
        a, b = (np.asarray(data.features[:, j], dtype=np.float64) for j in (0, 3))
        return np.cos(self.turned_) * a + np.sin(self.turned_) * b

    def _write(self, folder) -> None:
        raise NotImplementedError

    def _read(self, folder) -> None:
        raise NotImplementedError


def search(store, trials: int, **options):
    """A search over a small data set."""
    data = pk.synthetic("letor", n_lists=40, seed=1)
    options = {"space": SPACE, "store": store, "refit": False, **options}
    return tune(data, options.pop("ranker", TurningRanker()), trials=trials, **options)


def main(store: str, trials: int, cluster: str) -> None:
    def say(text: str, done: int, total: int) -> None:
        sys.stdout.write(f"{done}/{total} {text}\n")
        sys.stdout.flush()

    options = {"ranker": TurningRanker(pause=PAUSE), "pruner": "none", "folds": 2}
    search(store, trials, cluster=cluster, progress=say, **options)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
