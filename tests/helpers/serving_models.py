"""Small fitted models of every kind, and documents at their thresholds."""

from __future__ import annotations

from functools import cache

import numpy as np

from plackett import BoostedNeuralRanker, CrossFit, Dataset, LinearRanker, NeuralRanker, StumpRanker, TreeRanker
from plackett.models.ensembles import read_lightgbm

N_FEATURES = 6
NAMES = ("bm25", "clicks", "rare", "length", "share", "always_one")


@cache
def documents(n_docs=400, seed=0):
    """Features as search engines have them: scores, counts, rare ones, long tails, a constant."""
    rng = np.random.default_rng(seed)
    columns = [
        rng.normal(2.0, 1.5, n_docs),
        rng.poisson(2.0, n_docs),
        np.where(rng.random(n_docs) < 0.8, 0.0, rng.normal(size=n_docs)),
        np.exp(rng.normal(4.0, 1.0, n_docs)),
        rng.random(n_docs),
        np.ones(n_docs),
    ]
    X = np.stack(columns, axis=1).astype(np.float32)
    X.flags.writeable = False
    return X


@cache
def data(missing=False, categories=False):
    X = documents().copy()
    rng = np.random.default_rng(1)
    labels = np.clip(X[:, 0] + (X[:, 1] % 2) + np.sign(X[:, 2]) + rng.normal(size=len(X)), 0, 4)
    if categories:
        X[:, 1] = rng.integers(0, 40, len(X))
        labels = np.clip(labels + (X[:, 1] % 3), 0, 4)
    if missing:
        X[rng.random(X.shape) < 0.15] = np.nan
    return Dataset.from_arrays(
        X,
        labels.astype(np.int64),
        np.repeat(np.arange(20), 20),
        missing="nan" if missing else None,
        feature_names=NAMES,
    )


SMALL = {"trees": 12, "leaves": 8, "min_documents": 5, "threads": 1}
NET = {"objective": "listnet", "layers": (5, 4), "epochs": 3, "threads": 1, "device": "cpu"}
LINEAR = {"objective": "listnet", "threads": 1}

MAKERS = {
    "trees": lambda: TreeRanker(**SMALL),
    "trees-missing": lambda: TreeRanker(**SMALL),
    "trees-categories": lambda: TreeRanker(
        **SMALL, categorical=("clicks",), lightgbm={"min_data_per_group": 1, "cat_smooth": 1.0}
    ),
    "trees-standard": lambda: TreeRanker(**SMALL, transforms=("log1p", "standard")),
    "trees-quantile-missing": lambda: TreeRanker(**SMALL, transforms=("quantile",)),
    "trees-impute-missing": lambda: TreeRanker(**SMALL, transforms=("impute",)),
    "trees-crossfit": lambda: CrossFit(TreeRanker(**SMALL | {"trees": 4}), folds=3),
    "stumps": lambda: StumpRanker(rounds=20, threads=1),
    "stumps-missing": lambda: StumpRanker(rounds=20, threads=1),
    "linear": lambda: LinearRanker(**LINEAR),
    "linear-plain": lambda: LinearRanker(**LINEAR, transforms=()),
    "linear-log1p": lambda: LinearRanker(**LINEAR, transforms=("log1p", "standard")),
    "linear-quantile": lambda: LinearRanker(**LINEAR, transforms=("quantile",)),
    "linear-minmax": lambda: LinearRanker(**LINEAR, transforms=("query-minmax",)),
    "linear-impute-missing": lambda: LinearRanker(**LINEAR, transforms=("impute", "standard")),
    "linear-crossfit": lambda: CrossFit(LinearRanker(**LINEAR), folds=3),
    "linear-crossfit-list": lambda: CrossFit(LinearRanker(**LINEAR), folds=3, combine="list"),
    "net": lambda: NeuralRanker(**NET),
    "net-tanh-norm": lambda: NeuralRanker(**NET, activation="tanh", batch_norm=0.9),
    "net-sigmoid-dropout": lambda: NeuralRanker(**NET, activation="sigmoid", dropout=0.2),
    "net-elu": lambda: NeuralRanker(**NET, activation="elu"),
    "net-gelu": lambda: NeuralRanker(**NET, activation="gelu"),
    "net-silu": lambda: NeuralRanker(**NET, activation="silu"),
    "net-flat-norm": lambda: NeuralRanker(**NET | {"layers": ()}, batch_norm=0.9),
    "net-impute-missing": lambda: NeuralRanker(**NET, transforms=("impute", "log1p", "standard")),
    "net-crossfit": lambda: CrossFit(NeuralRanker(**NET), folds=2),
    "net-boosted": lambda: BoostedNeuralRanker(**NET, learners=3, shrinkage=0.5),
    "net-rnn": lambda: NeuralRanker(**NET, recurrent="rnn"),
    "net-lstm": lambda: NeuralRanker(**NET, recurrent="lstm", score_from="state"),
    "net-gru": lambda: NeuralRanker(**NET, recurrent="gru"),
    "net-attention": lambda: NeuralRanker(**NET, attention=1),
    "net-groups": lambda: NeuralRanker(**NET, group_size=2),
}

TREES = (
    "trees",
    "trees-missing",
    "trees-standard",
    "trees-quantile-missing",
    "trees-impute-missing",
    "trees-crossfit",
    "stumps",
    "stumps-missing",
)
"""Trees that every form of trees holds, with missing values or without."""


@cache
def fitted(name):
    train = data(missing=name.endswith("missing"), categories=name.endswith("categories"))
    return MAKERS[name]().fit(train)


def probes(ranker_name, *, missing=False, seed=5, n_docs=150):
    """Documents like those of train, a third of their values at thresholds or next to them."""
    rng = np.random.default_rng(seed)
    X = documents(n_docs, seed).copy()
    for j, values in _thresholds(ranker_name).items():
        at = rng.choice(values, n_docs)
        side = rng.integers(-1, 2, n_docs)
        near = np.where(side == 0, at, np.nextafter(at, np.float32(np.inf) * np.sign(side + 0.5)))
        X[:, j] = np.where(rng.random(n_docs) < 0.35, near, X[:, j]).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = 0.0
    if missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    return X


def _thresholds(ranker_name):
    """Thresholds of a single tree model on raw features, rounded to float32."""
    ranker = fitted(ranker_name)
    members = ranker.members_ if isinstance(ranker, CrossFit) else (ranker,)
    result = {}
    for member in members:
        if isinstance(member, StumpRanker):
            pairs = zip(member.stump_features_, member.stump_thresholds_, strict=True)
        elif isinstance(member, TreeRanker) and member.transform_ is None:
            ensemble = read_lightgbm(member.model_)
            keep = ensemble.category_set < 0
            pairs = zip(ensemble.feature[keep], ensemble.threshold[keep], strict=True)
        else:
            continue
        for j, threshold in pairs:
            result.setdefault(int(j), []).append(np.float32(threshold))
    return {j: np.array(values, np.float32) for j, values in result.items()}


def scores(ranker_name, features):
    return fitted(ranker_name).predict(features)
