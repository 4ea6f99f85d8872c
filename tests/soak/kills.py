"""Kill -9 at random moments: what was there before stays whole, and the same command goes on to the same result.

    python tests/soak/kills.py [--kills 200] [--seed 0] [JOB ...]

Each job is a command of plackett that writes over something older. It is run once undisturbed, then again and again,
each time killed at a random moment; after each kill the files are checked, and every few kills (and at the end) the
command is run to its end and its result compared. Commands run in forks of this process, which has imported plackett
and started no threads.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import plackett as pk
import plackett.cli.app
from plackett.cli import main as plackett_main

KILLS_PER_ROUND = 8  # how often a command is killed before it may end


@dataclass(frozen=True)
class Job:
    """A command, what it leaves, and which of its results must be equal after kills."""

    command: Callable[[Path, Path], list[str]]
    """Arguments, from the data and the folder to work in."""
    read: Callable[[Path], Any]
    """The result in a folder; raises if it is not whole."""
    older: Callable[[Path, Path], list[str]] | None = None
    """A command that leaves what the job writes over."""


def in_fork(work: Callable[[], None], log: Path) -> int:
    """Start work in a fork whose output goes to a file; its process id."""
    process = os.fork()
    if process:
        return process
    try:
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(output, stream)
        work()
        os._exit(0)
    except SystemExit as stop:
        os._exit(int(stop.code or 0))
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        os._exit(70)


def run(arguments: list[str]) -> None:
    """The command line, as a user would call it."""
    sys.argv = ["plackett", *arguments]
    plackett_main()


def wait(process: int, log: Path) -> None:
    """Wait for a fork that must end well."""
    _, status = os.waitpid(process, 0)
    if status:
        raise AssertionError(f"ended with {os.waitstatus_to_exitcode(status)}:\n{log.read_text()[-3000:]}")


def read_in_fork(job: Job, folder: Path) -> Any:
    """The result in a folder, read in a fork because reading may start threads."""
    answer = folder.parent / "answer.json"
    log = folder.parent / "read.log"
    wait(in_fork(lambda: answer.write_text(json.dumps(job.read(folder))) and None, log), log)  # type: ignore[func-returns-value]
    return json.loads(answer.read_text())


def torture(name: str, job: Job, data: Path, kills: int, draw: random.Random) -> dict[str, Any]:
    """Kill a job so many times; counts of what was seen."""
    with tempfile.TemporaryDirectory(prefix="kills-") as base:
        log, folder = Path(base) / "log", Path(base) / "work"

        def begin() -> Any:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            if job.older is None:
                return None
            wait(in_fork(lambda: run(job.older(data, folder)), log), log)  # type: ignore[misc]
            return read_in_fork(job, folder)

        begin()
        started = time.monotonic()
        wait(in_fork(lambda: run(job.command(data, folder)), log), log)
        duration = time.monotonic() - started
        expected = read_in_fork(job, folder)
        killed = finished = resumed = 0
        while killed < kills:
            old = begin()
            for _ in range(min(KILLS_PER_ROUND, kills - killed)):
                process = in_fork(lambda: run(job.command(data, folder)), log)
                time.sleep(draw.uniform(0, duration))
                if os.waitpid(process, os.WNOHANG) != (0, 0):
                    finished += 1
                    break
                os.killpg(process, signal.SIGKILL)
                os.waitpid(process, 0)
                killed += 1
                if old is not None:
                    now = read_in_fork(job, folder)
                    assert now in (old, expected), f"{name}: neither the old nor the new result after a kill"
            wait(in_fork(lambda: run(job.command(data, folder)), log), log)
            assert read_in_fork(job, folder) == expected, f"{name}: another result after kills"
            resumed += 1
        return {"kills": killed, "ended before the kill": finished, "run to the end": resumed, "seconds": duration}


# ---- Jobs ----------------------------------------------------------------------------------------


def _scores(folder: Path) -> list[float]:
    """Scores of the saved model, which also checks all its checksums."""
    features = np.random.default_rng(0).normal(size=(20, 46)).astype(np.float32)
    return [float(score) for score in pk.load(folder / "model").predict(features)]


def _served(folder: Path) -> list[float]:
    """Scores of the model as a server that reloads it would give them."""
    from plackett.serving.server.registry import load_model

    features = np.random.default_rng(0).normal(size=(20, 46)).astype(np.float32)
    return [float(score) for score in load_model("model", folder / "model").ranker.predict(features)]


def _train(model: str, *settings: str, read: Callable[[Path], Any] = _scores) -> Job:
    def command(data: Path, folder: Path) -> list[str]:
        sets = [part for setting in settings for part in ("--set", setting)]
        paths = ["--checkpoint", str(folder / "checkpoint"), "--out", str(folder / "model")]
        return ["train", str(data), "--model", model, *sets, *paths]

    def older(data: Path, folder: Path) -> list[str]:
        return ["train", str(data), "--model", "listnet-linear", "--seed", "7", "--out", str(folder / "model")]

    return Job(command, read, older)


def _tables(folder: Path) -> Any:
    results = json.loads((folder / "comparison" / "results.json").read_text())
    return {row["name"]: row["means"] for row in results["leaderboard"]["entries"]}


def _converted(folder: Path) -> list[float]:
    data = pk.read(folder / "data.pkdata")
    return [float(data.features.sum()), float(data.labels.sum()), float(len(data.labels))]


def _loads(folder: Path) -> bool:
    return len(_scores(folder)) == 20


def _tuned(folder: Path) -> int:
    import sqlite3

    assert _loads(folder)
    with sqlite3.connect(folder / "trials.db") as store:
        return int(store.execute("pragma integrity_check").fetchone()[0] == "ok")


JOBS = {
    "train trees": _train("lambdamart", "trees=40", "leaves=8"),
    "train net": _train("listnet-net", "epochs=4"),
    "train linear": _train("logrank-l3-ndcg"),
    "reload": _train("lambdamart", "trees=5", read=_served),
    "compare": Job(
        lambda data, folder: [
            *("compare", str(data), "--models", "lambdamart,listnet-linear", "--set", "trees=10"),
            *("--protocol", "splits:3", "--out", str(folder / "comparison")),
        ],
        _tables,
    ),
    "tune": Job(
        lambda data, folder: [
            *("tune", str(data), "--model", "lambdamart", "--trials", "4", "--set", "trees=8"),
            *("--store", str(folder / "trials.db"), "--out", str(folder / "model")),
        ],
        _tuned,
    ),
    "auto": Job(
        lambda data, folder: [
            *("auto", str(data), "--minutes", "0.1", "--preset", "fast"),
            *("--work", str(folder / "auto"), "--out", str(folder / "model")),
        ],
        _loads,
    ),
    "convert": Job(
        lambda data, folder: ["convert", str(data), str(folder / "data.pkdata")],
        _converted,
        lambda data, folder: ["convert", str(data), str(folder / "data.pkdata")],
    ),
}


def main() -> int:
    """Kill every job; 1 if something was lost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="jobs; all by default")
    parser.add_argument("--kills", type=int, default=200, help="in all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    names = options.jobs or list(JOBS)
    draw, total = random.Random(options.seed), 0
    with tempfile.TemporaryDirectory(prefix="kills-data-") as base:
        data = Path(base) / "data.parquet"
        process = in_fork(lambda: pk.write(pk.synthetic("letor", n_lists=60, seed=0), data), Path(base) / "log")
        wait(process, Path(base) / "log")
        for name in names:
            counts = torture(name, JOBS[name], data, -(-options.kills // len(names)), draw)
            total += counts["kills"]
            print(f"{name:14s}", *(f"{key} {value:.3g}" for key, value in counts.items()), sep="  ", flush=True)
    print(f"{total} kills, nothing lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
