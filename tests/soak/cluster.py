"""Kill each process of a distributed fit in each of its phases: the same model, or a true message, and in time.

    python tests/soak/cluster.py [--models trees,net] [VICTIM ...]

Victims are a worker, the controller of the workers, the raylet of the machine and the head. After a worker or the
controller is killed, the fit must end in the model of an undisturbed fit. After the raylet or the head is killed no
attempt can succeed: the fit must end with a message that names Ray's address and, where a state was saved, a fit
without the cluster must go on from it. All on loopback.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import plackett as pk
from plackett.distributed import Cluster, ClusterError
from plackett.models.checkpoint import Checkpoint
from ray_processes import QUIET, Head, head

VICTIMS = {"worker": "ray::RayTrainWorker", "controller": "ray::TrainController", "raylet": "", "head": ""}
PHASES = ("start", "data", "first step", "between", "saving", "end")
STEPS = 8
SECONDS = 300.0  # for one fit, however it ends


def make_model(kind: str) -> pk.models.Ranker:
    """A model that takes long enough for something to happen between two steps."""
    if kind == "net":
        return pk.NeuralRanker(objective="lambdarank", layers=(16,), epochs=STEPS, threads=1)
    objective = pk.Stochastic(pk.objective("lambdarank"), samples=2000, seed=5)
    exact = {"min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 1.0}  # limits that do not depend on the partition
    return pk.TreeRanker(objective=objective, trees=STEPS, leaves=5, threads=1, lightgbm=exact)


def find(started: Head, victim: str) -> list[int]:
    """Process ids of a victim."""
    if VICTIMS[victim]:
        return started.running(VICTIMS[victim])
    program = {"raylet": "raylet", "head": "gcs_server"}[victim]
    return [pid for pid in started.running("/") if Path(os.readlink(f"/proc/{pid}/exe")).name == program]


class Kill:
    """Kills the victim once, when its phase is reached."""

    def __init__(self, started: Head, victim: str, phase: str, checkpoint: Path) -> None:
        self.started, self.victim, self.phase, self.checkpoint = started, victim, phase, checkpoint
        self.at: float | None = None
        self.is_over = threading.Event()

    def watch(self) -> None:
        """Phases that no report of progress tells: the start, and the first saved state."""
        while self.at is None and not self.is_over.wait(0.02):
            if self.phase == "start" or (self.phase == "saving" and any(self.checkpoint.glob("step-*"))):
                self()

    def report(self, text: str, done: int, _: int) -> None:
        """Called with the progress of the fit."""
        is_training = not text.startswith("training on")
        reached = {
            "data": True,
            "first step": is_training and done >= 1,
            "between": is_training and done >= STEPS // 2,
            "end": is_training and done >= STEPS,
        }
        if reached.get(self.phase, False):
            self()

    def __call__(self) -> None:
        if self.at is None:
            for process in find(self.started, self.victim)[-1:]:
                os.kill(process, signal.SIGKILL)
                self.at = time.monotonic()


def disturb(kind: str, victim: str, phase: str, data: pk.Dataset, expected: np.ndarray) -> str:
    """One fit; what became of it. Raises if that is wrong."""
    with tempfile.TemporaryDirectory(prefix="cluster-") as base, head() as started:
        checkpoint = Path(base) / "fit"
        where = Cluster(2, f"127.0.0.1:{started.port}", answer_seconds=5, step_seconds=30, start_seconds=120)
        kill = Kill(started, victim, phase, checkpoint)
        thread = threading.Thread(target=kill.watch)
        thread.start()
        begin = time.monotonic()
        try:
            ranker = make_model(kind).fit(data, checkpoint=checkpoint, cluster=where, progress=kill.report)
            outcome = f"the same model after {time.monotonic() - begin:.0f} s"
            np.testing.assert_allclose(ranker.predict(data), expected, rtol=0, atol=1e-4)
        except ClusterError as error:
            outcome = f"after {time.monotonic() - begin:.0f} s: {' '.join(str(error).split())}"
            assert victim in ("raylet", "head"), f"not retried: {outcome}"
            assert f"127.0.0.1:{started.port}" in outcome, f"no address: {outcome}"
        finally:
            kill.is_over.set()
            thread.join()
        assert kill.at is not None, "nothing was killed"
        assert time.monotonic() - begin < SECONDS, "it took too long"
        if any(checkpoint.glob("step-*")):
            ranker = make_model(kind).fit(data, checkpoint=checkpoint)
            np.testing.assert_allclose(ranker.predict(data), expected, rtol=0, atol=1e-4)
            outcome += "; goes on from the checkpoint"
        return outcome


def main() -> int:
    """Every victim in every phase; 1 if something went wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("victims", nargs="*", metavar="VICTIM", help=", ".join(VICTIMS))
    parser.add_argument("--models", default="trees,net")
    options = parser.parse_args()
    os.environ |= QUIET
    Checkpoint.seconds = 0.0  # type: ignore[misc]
    data = pk.synthetic("letor", n_lists=40, seed=1)
    attempts: list[tuple[str, str, str]] = [
        (kind, victim, phase)
        for kind in options.models.split(",")
        for victim in options.victims or VICTIMS
        for phase in PHASES
    ]
    expected = {kind: make_model(kind).fit(data).predict(data) for kind in options.models.split(",")}
    failed = 0
    for kind, victim, phase in attempts:
        outcome = _try(lambda k=kind, v=victim, p=phase: disturb(k, v, p, data, expected[k]))  # type: ignore[misc]
        failed += outcome.startswith("FAILED")
        print(f"{kind:6s}{victim:11s}{phase:11s} {outcome}", flush=True)
    print(f"{len(attempts)} faults, {failed} failed")
    return 1 if failed else 0


def _try(attempt: Callable[[], str]) -> str:
    try:
        return attempt()
    except Exception as error:
        return f"FAILED: {type(error).__name__}: {' '.join(str(error).split())[:500]}"


if __name__ == "__main__":
    sys.exit(main())
