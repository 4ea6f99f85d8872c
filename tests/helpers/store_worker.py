"""A process that runs trials of a store, for tests that kill it: STORE COUNT PAUSE [LEASE].

A trial's result is a function of its seed; the trial counts as run when ``PAUSE`` seconds are over.
Each seed that was run is printed.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from plackett.experiments.store import Heartbeat, Identity, Outcome, RunStore


def identity(seed: int) -> Identity:
    return Identity("data", "system", {"kind": "X"}, seed, "part", "ndcg@5", "1")


def outcome(seed: int) -> Outcome:
    rng = np.random.default_rng(seed)
    return Outcome({"ndcg@5": rng.random(50), "map": rng.random(50)}, rng.normal(size=500), 1.5)


def wait_for(condition, seconds: float = 60.0) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def main(place: str, count: int, pause: float, lease: float) -> None:
    with RunStore(place, lease=lease) as store, Heartbeat(store) as heartbeat:
        while len(store.finished(map(identity, range(count)))) < count:
            for seed in range(count):
                if store.claim(identity(seed)):
                    heartbeat.add(identity(seed).digest)
                    time.sleep(pause)
                    store.finish(identity(seed), outcome(seed))
                    heartbeat.drop(identity(seed).digest)
                    sys.stdout.write(f"{seed}\n")
                    sys.stdout.flush()
            time.sleep(0.01)


if __name__ == "__main__":
    given = sys.argv[1:]
    main(given[0], int(given[1]), float(given[2]), float(given[3]) if len(given) > 3 else 60.0)
