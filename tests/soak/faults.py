"""A file system that fails at every call in turn: what was there before is whole, or the new is.

    python tests/soak/faults.py [JOB ...]

Each job writes over something older. Every system call that it makes on its files (open, write, fsync, truncate,
rename, mkdir, chmod) fails once, alone and with all calls after it; after each failure the files are read and checked.
The calls are those of all libraries, SQLite and Arrow among them: a shim is compiled with cc and loaded before libc.
"""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import numpy as np

import plackett as pk
from plackett.experiments.store import RunStore
from plackett.serving.server.registry import ModelRegistry, ModelSource
from store_worker import identity, outcome

SHIM = Path(__file__).parents[1] / "helpers" / "failing_calls.c"
LIBC: Any = ctypes.CDLL(None)
DATA, OTHER = (pk.synthetic("letor", n_lists=n, seed=n) for n in (8, 6))


@dataclass(frozen=True)
class Job:
    """A writer, and a check of what it leaves."""

    begin: Callable[[Path], Any]
    """Leave the older in a folder; what is returned goes to the others."""
    write: Callable[[Path, Any], Any]
    check: Callable[[Path, Any], bool]
    """Whether the new is there; raises if neither the old nor the new is."""
    reads: bool = False
    """Reading fails instead of writing."""


def torture(job: Job, *, error: int, stays: bool) -> tuple[int, int]:
    """Let each call fail in turn; how many failures there were, and how often the job ended well all the same."""
    survived = 0
    for number in range(100_000):
        with tempfile.TemporaryDirectory(prefix="faults-") as base:
            folder = Path(base)
            state = job.begin(folder)
            LIBC.fail_calls(base.encode(), ctypes.c_long(number), error, int(stays), int(job.reads))
            try:
                job.write(folder, state)
                went_well = True
            except (OSError, pk.PlackettError):
                went_well = False
            finally:
                calls = LIBC.count_calls()
            is_new = job.check(folder, state)
            assert is_new or not went_well, "reported as written, but it is not there"
            if calls <= number:
                return number, survived
            survived += went_well
    raise AssertionError("the job never ends")


# ---- Jobs ----------------------------------------------------------------------------------------


def _save(make: Callable[[], Any]) -> Job:
    old, new = make().fit(DATA), make().fit(OTHER)
    expected = [ranker.predict(DATA) for ranker in (old, new)]

    def check(folder: Path, _: Any) -> bool:
        scores = pk.load(folder / "model").predict(DATA)
        is_new = np.array_equal(scores, expected[1])
        assert is_new or np.array_equal(scores, expected[0])
        return is_new

    return Job(lambda folder: old.save(folder / "model"), lambda folder, _: new.save(folder / "model"), check)


def _checkpoint() -> Job:
    def fit(folder: Path) -> Any:
        return pk.CrossFit(pk.LinearRanker(C=1.0), folds=2).fit(DATA, checkpoint=folder / "checkpoint").predict(DATA)

    with tempfile.TemporaryDirectory() as base:
        expected = fit(Path(base))

    def check(folder: Path, _: Any) -> bool:
        assert np.array_equal(fit(folder), expected)  # goes on from what is left
        return True

    return Job(lambda _: None, lambda folder, _: fit(folder), check)


def _convert(suffix: str) -> Job:
    def begin(folder: Path) -> None:
        pk.write(DATA, folder / f"data{suffix}")
        pk.write(OTHER, folder / "source.txt")

    def check(folder: Path, _: Any) -> bool:
        data = pk.read(folder / f"data{suffix}")
        whole = OTHER if data.n_lists == OTHER.n_lists else DATA
        assert np.array_equal(data.features, whole.features)
        assert np.array_equal(data.labels, whole.labels)
        return whole is OTHER

    return Job(begin, lambda folder, _: pk.convert(folder / "source.txt", folder / f"data{suffix}"), check)


def _store() -> Job:
    def begin(folder: Path) -> None:
        with RunStore(str(folder / "runs.db")) as store:
            store.finish(identity(0), outcome(0))

    def write(folder: Path, _: Any) -> None:
        with RunStore(str(folder / "runs.db")) as store:
            store.finish(identity(1), outcome(1))

    def check(folder: Path, _: Any) -> bool:
        with RunStore(str(folder / "runs.db")) as store:
            found = [store.get(identity(seed)) for seed in (0, 1)]
        assert found[0] is not None
        for seed, result in enumerate(found):
            assert result is None or np.array_equal(result.scores, outcome(seed).scores)
        return found[1] is not None

    return Job(begin, write, check)


def _serve(*, reads: bool) -> Job:
    """The served model is saved again and reloaded; the registry serves the old or the new."""
    old, new = (pk.TreeRanker(trees=2, min_documents=2).fit(data) for data in (DATA, OTHER))
    expected = [ranker.predict(DATA) for ranker in (old, new)]

    def begin(folder: Path) -> ModelRegistry:
        old.save(folder / "model")
        registry = ModelRegistry([ModelSource("model", folder / "model")])
        if reads:
            new.save(folder / "model")
        return registry

    def write(folder: Path, registry: ModelRegistry) -> None:
        if not reads:
            new.save(folder / "model")
        if registry.reload().problems:
            raise OSError("not reloaded")

    def check(folder: Path, registry: ModelRegistry) -> bool:
        assert any(np.array_equal(served(registry), scores) for scores in expected)
        registry.reload()
        is_new = np.array_equal(served(registry), expected[1])
        assert is_new or np.array_equal(pk.load(folder / "model").predict(DATA), expected[0])
        return is_new

    def served(registry: ModelRegistry) -> Any:
        return registry.catalog.find("model", None).ranker.predict(DATA)

    return Job(begin, write, check, reads=reads)


JOBS: dict[str, Callable[[], Job]] = {
    "save linear": lambda: _save(lambda: pk.LinearRanker(C=1.0, transforms=("standard",))),
    "save trees": lambda: _save(lambda: pk.TreeRanker(trees=2, min_documents=2)),
    "save net": lambda: _save(lambda: pk.NeuralRanker(epochs=1, layers=(4,))),
    "checkpoint": _checkpoint,
    "store": _store,
    **{f"convert {suffix}": lambda suffix=suffix: _convert(suffix) for suffix in (".pkdata", ".parquet", ".txt.gz")},
    "serve": lambda: _serve(reads=False),
    "reload": lambda: _serve(reads=True),
}


def main() -> int:
    """Run all jobs, or those named."""
    if "failing_calls" not in os.environ.get("LD_PRELOAD", ""):
        library = Path(tempfile.mkdtemp(prefix="faults-")) / "failing_calls.so"
        subprocess.run(["cc", "-w", "-shared", "-fPIC", "-o", library, SHIM, "-ldl"], check=True)
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "LD_PRELOAD": str(library)})
    total = 0
    for name in sys.argv[1:] or JOBS:
        job = JOBS[name]()
        for error, stays in ((errno.EIO, False), (errno.ENOSPC, True)):
            failures, survived = torture(job, error=error, stays=stays)
            total += failures
            kind = f"{errno.errorcode[error]}, {'all later calls too' if stays else 'one call'}"
            print(f"{name:18s}{failures:5d} failures ({kind}), {survived} without effect", flush=True)
    print(f"{total} failures, nothing lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
