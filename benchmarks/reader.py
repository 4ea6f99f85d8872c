"""How fast LETOR text is read, against XGBoost's and scikit-learn's readers in the same run.

    python benchmarks/reader.py --megabytes 300

The file is made up: 136 features, about half of them zero, whole numbers and decimals of six places
mixed as in MSLR-WEB30K. Every reader finds it in the page cache. Times are minima over the
rounds, in which the readers take turns; scikit-learn, which takes long, has one turn.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from plackett.data.letor import read_table

N_FEATURES = 136
POOL = 20_000  # distinct rows: far more text than any cache or branch predictor remembers


def spelled(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")


def column(kind: int, rng: np.random.Generator) -> list[str]:
    """One feature of all rows: a count, a score, a log-probability or a large number."""
    if kind < 9:
        values = rng.geometric(0.4, POOL) - 1.0
    elif kind < 16:
        values = np.round(rng.gamma(1.0, 8.0, POOL), 6) * (rng.random(POOL) < 0.6)
    elif kind < 19:
        values = np.round(-rng.gamma(9.0, 2.0, POOL), 6)
    else:
        values = np.floor(rng.pareto(0.7, POOL) * 50).clip(max=1e8)
    return [spelled(value) for value in values.tolist()]


def make(path: Path, megabytes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = [column(int(kind), rng) for kind in rng.permutation(np.arange(N_FEATURES) % 20)]
    bodies = [" ".join(f"{i}:{value}" for i, value in enumerate(row, start=1)) for row in zip(*columns, strict=True)]
    size, row = 0, 0
    with open(path, "w", encoding="ascii") as file:
        while size < megabytes * 1_000_000:
            picks = rng.integers(0, POOL, 1000).tolist()
            labels = rng.choice(5, 1000, p=[0.52, 0.32, 0.13, 0.02, 0.01]).tolist()
            lines = [
                f"{label} qid:{1 + (row + i) // 120} {bodies[pick]} \n"
                for i, (label, pick) in enumerate(zip(labels, picks, strict=True))
            ]
            row += len(lines)
            size += file.write("".join(lines))


def xgboost_reader(path: Path) -> object:
    import xgboost

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # text files are deprecated there
        return xgboost.DMatrix(f"{path}?format=libsvm")


def sklearn_reader(path: Path) -> object:
    from sklearn.datasets import load_svmlight_file

    return load_svmlight_file(str(path), query_id=True, dtype=np.float32)


def readers() -> dict[str, Callable[[Path], object]]:
    found: dict[str, Callable[[Path], object]] = {"read_table": read_table}
    try:
        from plackett import read
    except ImportError:
        pass
    else:
        found["plackett.read"] = read
    return {**found, "xgboost": xgboost_reader}


def seconds(reader: Callable[[Path], object], path: Path) -> float:
    gc.collect()
    time.sleep(0.5)  # OpenMP threads of the reader before go on spinning for a while
    start = time.perf_counter()
    result = reader(path)
    elapsed = time.perf_counter() - start
    del result
    return elapsed


def check(path: Path) -> None:
    """Compare the values of the three readers on the first rows."""
    small = path.with_name("small.txt")
    with open(path, "rb") as file:
        small.write_bytes(b"".join(file.readline() for _ in range(2000)))
    ours = read_table(small)
    features, labels, queries = sklearn_reader(small)  # type: ignore[misc]
    np.testing.assert_array_equal(ours.features, features.toarray())
    np.testing.assert_array_equal(ours.labels, labels)
    np.testing.assert_array_equal(ours.query_ids, queries)
    theirs = xgboost_reader(small).get_data().toarray()[:, 1:]  # type: ignore[attr-defined]
    # XGBoost counts columns from 0, and its reader does not round to the nearest float32.
    np.testing.assert_allclose(ours.features, theirs, rtol=1e-6)
    for reader in readers().values():
        reader(small)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mslr.txt"
        make(path, arguments.megabytes, arguments.seed)
        check(path)
        times: dict[str, list[float]] = {name: [] for name in readers()}
        for _ in range(arguments.rounds):
            for name, reader in readers().items():
                times[name].append(seconds(reader, path))
        times["scikit-learn"] = [seconds(sklearn_reader, path)]
        size = path.stat().st_size / 1e6
    best = {name: min(values) for name, values in times.items()}
    print(f"{size:.0f} MB, {N_FEATURES} features; values agree")
    print(f"{'reader':14} {'seconds':>8} {'MB/s':>7} {'times read_table':>17}")
    for name, value in best.items():
        ratio = value / best["read_table"]
        print(f"{name:14} {value:8.3f} {size / value:7.0f} {ratio:17.2f}")


if __name__ == "__main__":
    main()
