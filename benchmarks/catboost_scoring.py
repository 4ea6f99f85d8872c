"""Time to score CatBoost's symmetric trees: our scorer against CatBoost, scores compared.

python benchmarks/catboost_scoring.py
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import catboost
import numpy as np

import plackett as pk
from plackett.models.ensembles import read_catboost


def main() -> None:
    data = pk.synthetic("web", n_lists=150, seed=0)
    features = np.asarray(data.features)
    settings = {"loss_function": "QueryRMSE", "iterations": 500, "depth": 6, "verbose": False}
    model = catboost.CatBoost(settings | {"allow_writing_files": False})
    queries = np.repeat(np.arange(data.n_lists), data.list_sizes)
    model.fit(catboost.Pool(features, data.labels, group_id=queries))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.cbm"
        model.save_model(str(path))
        ensemble = read_catboost(path)
    many = np.tile(features, (10, 1))
    for name, rows, threads in (("one list of 120", features[:120], 1), ("many", many, 2)):
        theirs = _best(lambda r=rows, t=threads: model.predict(r, thread_count=t))
        ours = _best(lambda r=rows, t=threads: ensemble.predict(r, n_threads=t))
        expected = model.predict(rows)
        difference = float(np.abs(ensemble.predict(rows) - expected).max())
        print(
            f"{name} ({len(rows):,} documents, {threads} threads): CatBoost {1e3 * theirs:.3f} ms, "
            f"ours {1e3 * ours:.3f} ms, ratio {ours / theirs:.3f}; largest difference {difference}"
        )


def _best(call: Callable[[], Any]) -> float:
    call()
    times = []
    for _ in range(15):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


if __name__ == "__main__":
    main()
