"""Trees and a net on a set nearly twice as large as the memory they may have.

    python benchmarks/out_of_core.py [--gigabytes 3.0] [--limit 1.6] [--trees 10] [--folder DIR]

Parquet files are made whose features are so many GB as float32. Each job runs in a process of its
own that may allocate so many GB (``RLIMIT_DATA``: what is its own; pages of mapped files, which the
system can drop at any time, are not counted). "own" is the peak of memory that is the process's own
(RssAnon, sampled), "with pages" the peak with pages of files that were mapped in at the time
(VmHWM). "whole" reads the set into memory first, and must fail. The files, at most three times the
size of the features, are removed at the end.

Two runs with the same options print the same NDCG and the same digest of the model, whatever the
number of threads; other bins (SAMPLE, LightGBM's seeds, another size of the set) are another model,
whose NDCG@10 differs in the fourth decimal.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

FEATURES, LIST, SHARD = 272, 100, 250_000
LEVELS = 1000  # values that a feature takes
SAMPLE = 50_000  # documents by which LightGBM finds its bins; it holds them in memory several times
JOBS = ("whole", "trees", "net")


def make_shards(folder: Path, n_docs: int) -> None:
    """Files of whole lists; labels follow from a few of the features."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    weights = rng.normal(size=10)
    for number, first in enumerate(range(0, n_docs, SHARD)):
        n = min(SHARD, n_docs - first)
        columns: dict[str, Any] = {"query_id": (first + np.arange(n)) // LIST}
        drawn = [rng.integers(0, LEVELS, n, dtype=np.int16) for _ in range(FEATURES)]
        level = sum(w * x for w, x in zip(weights, drawn, strict=False)) / LEVELS
        noisy = level + rng.normal(scale=0.5, size=n)
        columns["label"] = np.digitize(noisy, np.quantile(noisy, [0.6, 0.8, 0.9, 0.97]))
        columns |= {f"f{j + 1}": x for j, x in enumerate(drawn)}
        pq.write_table(pa.table(columns), folder / f"part-{number:03}.parquet", row_group_size=65536)


def status(field: str) -> int:
    """Bytes of a field of this process's status."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.split(f"{field}:")[1].split()[0])


class Peak:
    """The largest of what is seen in a thread of its own."""

    def __init__(self) -> None:
        self.own, self.over = 0, False
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def _look(self) -> None:
        while not self.over:
            self.own = max(self.own, status("RssAnon"))
            time.sleep(0.02)


def job(kind: str, folder: Path, trees: int) -> None:
    """One job in this process; prints what it found as JSON."""
    import plackett as pk

    peak, times = Peak(), {}
    begin = time.perf_counter()
    try:
        data = pk.read(folder) if kind == "whole" else pk.stream(folder)
        times["open"] = time.perf_counter() - begin
        ranker = (
            pk.NeuralRanker(objective="xendcg", layers=(64,), epochs=1, batch_lists=256)
            if kind == "net"
            else pk.TreeRanker(
                objective="xendcg", trees=trees, leaves=31, lightgbm={"bin_construct_sample_cnt": SAMPLE}
            )
        )
        ranker.fit(data)
        times["fit"] = time.perf_counter() - begin - times["open"]
        scores = ranker.predict(data)
        times["score"] = time.perf_counter() - begin - times["open"] - times["fit"]
        found = {"ndcg": pk.evaluate(scores, data, "ndcg@10")["ndcg@10"], "digest": digest(ranker)}
    except (MemoryError, pk.DataError) as error:
        found = {"error": str(error).splitlines()[0]}
    peak.over = True
    found |= {"own": peak.own, "with_pages": status("VmHWM"), "times": times}
    print(json.dumps(found))


def digest(ranker: Any) -> str:
    """The same for the same weights or trees."""
    found = hashlib.sha256()
    if hasattr(ranker, "model_"):
        found.update(ranker.model_.encode())
    else:
        for value in ranker.networks_[0].state_dict().values():
            found.update(value.numpy().tobytes())
    return found.hexdigest()[:12]


def run(kind: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    limit = int(options.limit * 1e9)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    # Arrow's usual allocator reserves 1 GiB of addresses without memory behind them, which the
    # limit would count.
    environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"}
    command = [sys.executable, __file__, "--job", kind, "--folder", str(folder)]
    command += ["--trees", str(options.trees)]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limited, env=environment, check=False)
    if done.returncode:
        # A library that does not check what it is given ends with a signal.
        last = done.stderr.strip().splitlines()[-1:] or [f"ended with code {done.returncode}"]
        return {"error": last[0]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def report(kind: str, found: dict[str, Any]) -> None:
    if "error" in found:
        print(f"{kind:6} FAILS under the limit: {found['error']}")
        return
    times = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in found["times"].items())
    print(
        f"{kind:6} own {found['own'] / 1e9:.2f} GB, with pages {found['with_pages'] / 1e9:.2f} GB; "
        f"{times}; NDCG@10 {found['ndcg']:.4f}, model {found['digest']}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=3.0)
    parser.add_argument("--limit", type=float, default=1.6)
    parser.add_argument("--trees", type=int, default=10)
    parser.add_argument("--folder", type=Path, help="where the files go")
    parser.add_argument("--jobs", nargs="+", default=JOBS, choices=JOBS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        job(options.job, options.folder, options.trees)
        return
    n_docs = int(options.gigabytes * 1e9 / (4 * FEATURES))
    place = Path(tempfile.mkdtemp(dir=options.folder, prefix="out-of-core-"))
    try:
        make_shards(place, n_docs)
        files = list(place.iterdir())
        size = sum(file.stat().st_size for file in files)
        print(
            f"{n_docs:,} documents, {FEATURES} features: {4e-9 * n_docs * FEATURES:.2f} GB as "
            f"float32, {size / 1e9:.2f} GB in {len(files)} Parquet files; limit "
            f"{options.limit:g} GB",
            flush=True,
        )
        for kind in options.jobs:
            report(kind, run(kind, place, options))
            sys.stdout.flush()
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
