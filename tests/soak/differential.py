"""Random data until the time is up: readers, metrics, scorers and exports agree with other programs.

    python tests/soak/differential.py [--minutes 5] [--seed N]

LETOR text against a slow reader, metrics against trec_eval, scikit-learn and LightGBM, scorers against the library
that trained the model, exports against readers of their formats. The first difference is an error that names its seed.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import catboost
import lightgbm
import numpy as np
import pytrec_eval
import xgboost
from sklearn.metrics import ndcg_score

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import plackett as pk
from fuzz_targets import TARGETS, mutants, run
from plackett.models.ensembles.ranker import READERS
from serving_models import NAMES
from target_readers import READ, SINGLE, suffixed

CUTOFFS = (1, 3, 5, 10, 30)


def check_letor(seed: int, _: Path) -> None:
    """Mutated LETOR files are read or refused as by the slow reader."""
    target = TARGETS["letor"]
    for data in mutants(target.seeds(), target.tokens, 200, seed):
        run(target, data)


def check_metrics(seed: int, _: Path) -> None:
    """Values per list, with ties, against three other programs."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 60, 30)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    labels = rng.integers(0, rng.integers(2, 6), offsets[-1]).astype(np.float64)
    scores = np.round(rng.normal(size=offsets[-1]), rng.integers(0, 8))
    ids = [f"d{i:06d}" for i in rng.permutation(offsets[-1])]
    lists = [range(begin, end) for begin, end in pairwise(offsets)]
    qrels = {str(q): {ids[i]: int(labels[i]) for i in rows} for q, rows in enumerate(lists)}
    runs = {str(q): {ids[i]: float(scores[i]) for i in rows} for q, rows in enumerate(lists)}
    wanted = {f"ndcg_cut.{','.join(map(str, CUTOFFS))}", "map", "recip_rank"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, wanted).evaluate(runs)
    named = {"map": "map", "mrr": "recip_rank"} | {f"ndcg@{k}": f"ndcg_cut_{k}" for k in CUTOFFS}
    for ours, name in named.items():
        values = pk.metric(f"{ours}:trec_eval")(scores, labels, offsets, ids)
        np.testing.assert_allclose(values, [theirs[str(q)][name] for q in range(len(lists))], atol=1e-12, rtol=0)
    values = pk.metric("ndcg@10:sklearn")(scores, labels, offsets)
    expected = [ndcg_score([labels[rows]], [scores[rows]], k=10) for rows in map(list, lists)]
    np.testing.assert_allclose(values, expected, atol=1e-12, rtol=0)
    _check_lightgbm_metrics(scores, labels, sizes, offsets)


def _check_lightgbm_metrics(scores: Any, labels: Any, sizes: Any, offsets: Any) -> None:
    parameters = {"min_data_in_leaf": 1, "verbose": -1, "feature_pre_filter": False}
    data = lightgbm.Dataset(np.zeros((len(labels), 1)), labels, group=sizes, init_score=scores, params=parameters)
    options = {"objective": "lambdarank", "metric": "ndcg,map", "eval_at": CUTOFFS, "verbose": -1}
    for _, name, value, _ in lightgbm.Booster(options, data).eval_train():
        ours = pk.metric(f"{name}:lightgbm")(scores, labels, offsets)
        np.testing.assert_allclose(np.nanmean(ours), value, atol=1e-12, rtol=0)


def _features(rng: np.random.Generator, rows: int, width: int) -> Any:
    X = rng.normal(size=(rows, width)).astype(np.float32)
    X[rng.random(X.shape) < 0.2] = 0.0
    X[:, 0] = rng.integers(0, 5, rows)
    return X


def check_scorers(seed: int, folder: Path) -> None:
    """Models of three libraries, read by plackett, score as in their own library."""
    rng = np.random.default_rng(seed)
    X, width = _features(rng, 500, 6), 6
    y = X[:, 0] + np.sin(3 * X[:, 1]) + rng.normal(size=len(X))
    probes = _features(rng, 300, width)
    if rng.random() < 0.5:
        probes[rng.random(probes.shape) < 0.2] = np.nan
        X[rng.random(X.shape) < 0.2] = np.nan
    leaves, trees = int(rng.integers(2, 300)), int(rng.integers(1, 20))
    options = {"num_leaves": leaves, "min_data_in_leaf": 1, "verbose": -1, "seed": seed % 1000}
    booster = lightgbm.train(options, lightgbm.Dataset(X, y), trees)
    ours = READERS["lightgbm"](booster.model_to_string().encode()).predict(probes)
    assert np.array_equal(ours, booster.predict(probes, raw_score=True))
    forest = xgboost.train(
        {"max_depth": int(rng.integers(1, 9)), "verbosity": 0}, xgboost.DMatrix(X, y), num_boost_round=trees
    )
    ours = READERS["xgboost"](bytes(forest.save_raw("ubj"))).predict(probes)
    expected = forest.predict(xgboost.DMatrix(probes), output_margin=True)
    np.testing.assert_allclose(ours, expected, atol=1e-4, rtol=1e-5)
    model = catboost.CatBoostRegressor(
        iterations=trees,
        depth=int(rng.integers(1, 9)),
        verbose=False,
        allow_writing_files=False,
        random_seed=seed % 1000,
    ).fit(X, y)
    model.save_model(str(folder / "model.cbm"))
    ours = READERS["catboost"]((folder / "model.cbm").read_bytes()).predict(probes)
    np.testing.assert_allclose(ours, model.predict(probes), atol=1e-9, rtol=1e-12)


def check_exports(seed: int, folder: Path) -> None:
    """A tree model in every export format scores as before."""
    rng = np.random.default_rng(seed)
    X = _features(rng, 400, len(NAMES))
    labels = np.clip(np.round(X[:, 0] / 2 + X[:, 1] + rng.normal(size=len(X))), 0, 4)
    data = pk.Dataset.from_arrays(X, labels, np.repeat(np.arange(20), 20), feature_names=NAMES)
    settings = {"trees": int(rng.integers(1, 20)), "leaves": int(rng.integers(2, 40)), "min_documents": 3}
    ranker = pk.TreeRanker(**settings, threads=1, seed=seed % 1000).fit(data)
    probes = _features(rng, 200, len(NAMES))
    expected = ranker.predict(probes)
    for form, read in READ.items():
        path = folder / "export"
        pk.export(ranker, path, form, missing="never")
        tolerance = 1e-12 if form in ("lightgbm-text", "lightgbm-json") else SINGLE * settings["trees"]
        found = read(suffixed(path, form), probes)
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance, err_msg=form)
        for left in folder.glob("export*"):
            left.unlink()


CHECKS = {"letor": check_letor, "metrics": check_metrics, "scorers": check_scorers, "exports": check_exports}


def main() -> int:
    """Check until the time is up."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, help="check this seed only")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    end = time.monotonic() + 60 * options.minutes
    while True:
        seed = secrets.randbits(32) if options.seed is None else options.seed
        for name, check in CHECKS.items():
            with tempfile.TemporaryDirectory() as folder:
                try:
                    check(seed, Path(folder))
                except Exception:
                    print(f"{name} differs: python {sys.argv[0]} --seed {seed}", file=sys.stderr)
                    raise
            counts[name] += 1
        if options.seed is not None or time.monotonic() > end:
            break
    print(", ".join(f"{name} {count:,}" for name, count in counts.items()), "rounds without a difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
