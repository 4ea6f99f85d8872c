"""Time and memory of converting LETOR text, streamed and not, and of opening the result.

    python benchmarks/convert.py [--docs 150000] [--features 136] [FILE]

Each conversion runs in its own process. "private" is the sampled peak of the process's private
memory, without pages of mapped files, which the system can drop at any time. The ratio is against
the size of the features as float32.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

_CHILD = """
import json, sys, threading, time
from pathlib import Path
from plackett.data.writer import convert
from plackett.data.reader import read
from plackett.data.writer import write

def private():
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon"):
            return 1024 * int(line.split()[1])

how, warm, source, target, block = sys.argv[1:]
def job(source, target):
    if how == "stream":
        convert(source, target, block_bytes=int(block))
    elif how == "whole":
        write(read(source), target)
    else:
        read(source)
job(warm, target)  # compile before measuring
start, peak, over = private(), 0, False
def sample():
    global peak
    while not over:
        peak = max(peak, private())
        time.sleep(0.002)
watch = threading.Thread(target=sample)
watch.start()
begin = time.perf_counter()
job(source, target)
seconds = time.perf_counter() - begin
over = True
watch.join()
print(json.dumps({"seconds": seconds, "private": peak - start}))
"""


def make_text(path: Path, n_docs: int, n_features: int) -> None:
    rng = np.random.default_rng(0)
    pool = [f"{x:.6f}" for x in rng.random(1000)]
    with path.open("w", encoding="ascii") as file:
        for row in range(n_docs):
            values = rng.integers(0, len(pool), n_features).tolist()
            pairs = " ".join(f"{j}:{pool[v]}" for j, v in enumerate(values, start=1))
            file.write(f"{row % 5} qid:{row // 120} {pairs}\n")


def run(how: str, warm: Path, source: Path, target: Path, block: int) -> dict[str, float]:
    command = [sys.executable, "-c", _CHILD, how, warm, source, target, block]
    done = subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=int, default=150_000)
    parser.add_argument("--features", type=int, default=136)
    parser.add_argument("file", nargs="?", type=Path, help="LETOR text to use instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        warm, source = folder / "warm.txt", options.file or folder / "text.txt"
        make_text(warm, 200, 5)
        if options.file is None:
            make_text(source, options.docs, options.features)
        measure(folder, warm, source)


def measure(folder: Path, warm: Path, source: Path) -> None:
    text = source.stat().st_size
    jobs = [("whole", ".pkdata", 0), ("stream", ".pkdata", 64), ("stream", ".pkdata", 8)]
    jobs += [("whole", ".parquet", 0), ("stream", ".parquet", 8)]
    results = {job: run(job[0], warm, source, folder / f"out{job[1]}", job[2] << 20) for job in jobs}
    features = (folder / "out.pkdata" / "features.npy").stat().st_size
    print(f"text {text / 1e6:.0f} MB, features {features / 1e6:.0f} MB")
    for (how, suffix, block), found in results.items():
        blocks = f"blocks of {block} MiB" if block else "at once"
        seconds, private = found["seconds"], found["private"]
        print(
            f"{how:7} {suffix:9} {blocks:17} {seconds:6.2f} s {text / 1e6 / seconds:5.0f} MB/s"
            f"  private {private / 1e6:5.0f} MB = {private / features:.2f} of the features"
        )
    for suffix in (".pkdata", ".parquet"):
        best = min(run("read", folder / f"out{suffix}", folder / f"out{suffix}", warm, 0)["seconds"] for _ in range(3))
        print(f"read    {suffix:9} {1000 * best:8.1f} ms")


if __name__ == "__main__":
    begin = time.perf_counter()
    main()
    print(f"{time.perf_counter() - begin:.0f} s in all")
