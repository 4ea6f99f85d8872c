"""One library that scores documents, in a process of its own; ``scoring.py`` starts it.

Each line on standard input asks for one round; the answer is a line of JSON with the seconds it
took: of every single list, of every single document, and of all documents at once. The first answer
comes unasked: the seconds from the model file to the first scores.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

LIST = 120  # documents, the mean of web search data
LISTS, SINGLES = 200, 200  # timed one by one in a round
COMPARED = 2000  # documents whose scores are kept, so that the starter can compare them

Clock = Callable[[], float]
Score = Callable[[Any, int], Any]
"""Features and a number of threads to scores."""


def plackett_lightgbm(folder: Path, leaves: int) -> Score:
    from plackett.models.ensembles import read_lightgbm

    ensemble = read_lightgbm(folder / f"lightgbm-{leaves}.txt")
    return lambda features, threads: ensemble.predict(features, n_threads=threads)


def plackett_xgboost(folder: Path, leaves: int) -> Score:
    from plackett.models.ensembles import read_xgboost

    ensemble = read_xgboost(folder / f"xgboost-{leaves}.ubj")
    return lambda features, threads: ensemble.predict(features, n_threads=threads)


def lightgbm(folder: Path, leaves: int) -> Score:
    from lightgbm import Booster

    booster = Booster(model_file=folder / f"lightgbm-{leaves}.txt")
    return lambda features, threads: booster.predict(features, raw_score=True, num_threads=threads)


def xgboost(folder: Path, leaves: int) -> Score:
    from xgboost import Booster

    booster = Booster(model_file=folder / f"xgboost-{leaves}.ubj")

    def score(features: Any, threads: int) -> Any:
        booster.set_param({"nthread": threads})
        return booster.inplace_predict(features, predict_type="margin")

    return score


LIBRARIES = {
    "plackett, LightGBM's model": plackett_lightgbm,
    "LightGBM": lightgbm,
    "plackett, XGBoost's model": plackett_xgboost,
    "XGBoost": xgboost,
}


def seconds(score: Score, features: Any, threads: int, clock: Clock = time.perf_counter) -> float:
    start = clock()
    score(features, threads)
    return clock() - start


def one_round(score: Score, features: Any, threads: int, clock: Clock) -> dict[str, Any]:
    lists = [features[i * LIST : (i + 1) * LIST] for i in range(LISTS)]
    for few in lists[:3]:  # the caches are the other process's when a turn begins
        score(few, 1)
    return {
        "list": [seconds(score, each, 1, clock) for each in lists],
        "document": [seconds(score, features[i : i + 1], 1, clock) for i in range(SINGLES)],
        "all": seconds(score, features, threads),
    }


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    leaves, threads, n_docs = (int(word) for word in sys.argv[3:6])
    clock = time.process_time if sys.argv[6:] == ["processor"] else time.perf_counter
    features = np.load(folder / f"features-{n_docs}.npy")
    start = time.perf_counter()
    score = LIBRARIES[name](folder, leaves)
    scores = score(features[:COMPARED], 1)
    print(json.dumps({"start": time.perf_counter() - start}), flush=True)
    np.save(folder / f"{name}.npy", scores)
    score(features[:LIST], 1)
    score(features[:1], 1)
    for _ in sys.stdin:
        print(json.dumps(one_round(score, features, threads, clock)), flush=True)


if __name__ == "__main__":
    main()
