"""Systems that train in no time, and a script that compares them, for tests that kill it."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import plackett as pk
from plackett.base.errors import DataError
from plackett.experiments.compare import run_plan
from plackett.experiments.plan import plan_comparison
from plackett.experiments.store import RunStore
from plackett.models.ranker import Ranker

PROTOCOL = "splits:4"
FITS: list[str] = []
"""The feature and seed of each fit in this process."""


@dataclass
class FeatureRanker(Ranker):
    """Ranks by one feature, with some noise of its seed."""

    feature: int = 0
    noise: float = 0.0
    seed: int = 0
    transforms: tuple[str, ...] = ()

    def _fit(self, train, validation, run) -> None:  # noqa: ARG002
        FITS.append(f"{self.feature}/{self.seed}")
        if self.feature >= train.n_features:
            raise DataError(f"there is no feature {self.feature}.")

    def _predict(self, data):
        rng = np.random.default_rng(self.seed)
        column = np.asarray(data.features[:, self.feature], dtype=np.float64)
        return column + self.noise * rng.normal(size=data.n_docs)

    def _write(self, folder) -> None:
        raise NotImplementedError

    def _read(self, folder) -> None:
        raise NotImplementedError


def small_data(n_lists: int = 40):
    return pk.synthetic("letor", n_lists=n_lists, seed=1)


def linear_systems() -> dict[str, Ranker]:
    return {f"C={c:g}": pk.LinearRanker("listnet", C=c) for c in (0.01, 1.0, 100.0)}


def main(store: str, jobs: int, lease: float) -> None:
    """Compare, and print how many trials were run here; each start of a trial is a line, too."""
    plan = plan_comparison(small_data(), linear_systems(), protocol=PROTOCOL)

    def say(text: str, done: int, total: int) -> None:
        sys.stdout.write(f"{done}/{total} {text}\n")
        sys.stdout.flush()

    with RunStore(store, lease=lease) as kept, tempfile.TemporaryDirectory() as other:
        scratch = Path(other) if "://" in store else Path(store).parent
        result = run_plan(plan, store=kept, scratch=scratch, jobs=jobs, progress=say)
    sys.stdout.write(f"ran {result.ran}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
