"""``plackett quickstart``: the purpose of plackett, shown on a small generated data set in a minute.

Labeled lists are usually few in a first project. So a fifth of the lists are for training, a tenth for validation, and
the rest for testing. LightGBM's ranker is the baseline; the cross-fit uses training and validation lists for both
purposes. Data sets with further seeds show how often the cross-fit is better.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from plackett.base.ragged import Scores
from plackett.data import Dataset, Description, Fold, describe, split
from plackett.data.synthetic import synthetic
from plackett.experiments.compare import compare
from plackett.experiments.protocols import DataSource
from plackett.experiments.report.write import write_files
from plackett.experiments.results import Leaderboard, leaderboard
from plackett.metrics import evaluate
from plackett.models import CrossFit, FitContext, Progress, Ranker, recipe

METRICS = ("ndcg@1", "ndcg@5", "ndcg@10", "err@10", "map")
PRIMARY = "ndcg@10"
BASELINE = "lightgbm-lambdarank"
SYSTEMS = ("listnet-linear", BASELINE, "lambdamart", "xendcg-mart", "e-lambdaloss-mart")
CROSS_FIT = "cross-fitted"  # five models of the recipe e-lambdaloss-mart on rotating parts, averaged
SEEDS = 5  # number of data sets on which the cross-fit is compared with the baseline
_SHARES = (0.2, 0.1, 0.7)
_TREES = {"trees": 150, "leaves": 15, "learning_rate": 0.1, "patience": 25}


@dataclass(frozen=True)
class Quickstart:
    """The comparison, and where its files are."""

    board: Leaderboard
    gains: list[float]  # for each seed, how far the cross-fit is above the baseline
    description: Description
    report: Path
    results: Path


def quickstart(folder: Path, *, n_lists: int = 1200, seed: int = 0, progress: Progress = lambda *_: None) -> Quickstart:
    """Train one system of each family on synthetic lists and compare them.

    Parameters
    ----------
    folder
        Where the report, the tables and results.json go.
    n_lists
        Size of the synthetic set.
    seed
        Random seed of the data, the split and the models.
    progress
        Called before each step.
    """
    progress("generating the data set", 0, len(SYSTEMS) + 2)
    dataset, fold = _generate(n_lists, seed)
    models: dict[str, Ranker] = {"best single feature": SingleFeatureRanker()}
    models |= {name: _model(name) for name in SYSTEMS}
    for model in models.values():
        # Train on a few lists, so that the measured times do not include compilation.
        first = model.clone()
        if "trees" in first.get_params():
            first.set_params(trees=1)
        first.fit(dataset.lists(0, min(20, n_lists)))
    models[CROSS_FIT] = CrossFit(_model("e-lambdaloss-mart"), folds=5)
    compared = compare(
        DataSource("synthetic lists", folds=(fold,)),
        models,
        metrics=METRICS,
        baseline=BASELINE,
        metric=PRIMARY,
        seed=seed,
        progress=progress,
    )
    results = compared.results
    board = leaderboard(results.values, baseline=BASELINE, primary=PRIMARY, seconds=results.seconds, seed=seed)
    means = results.trial_means
    gains = [float(means[CROSS_FIT][PRIMARY][0] - means[BASELINE][PRIMARY][0])]
    for further in range(seed + 1, seed + SEEDS):
        progress(f"counting over {SEEDS} data sets", further - seed, SEEDS)
        gains.append(_gain(_generate(n_lists, further)[1], models))
    command = f"plackett quickstart --lists {n_lists} --seed {seed}"
    files = write_files(replace(compared, board=board), folder, command=command)
    return Quickstart(board, gains, describe(dataset), files.report, files.results)


def _generate(n_lists: int, seed: int) -> tuple[Dataset, Fold]:
    dataset = synthetic("letor", n_lists=n_lists, seed=seed)
    return dataset, Fold("synthetic", *split(dataset, _SHARES, seed=seed))


def _gain(fold: Fold, models: dict[str, Ranker]) -> float:
    """How far the cross-fit is above the baseline on other data."""
    means = []
    for name in (CROSS_FIT, BASELINE):
        ranker = models[name].clone().fit(fold.train, fold.validation, PRIMARY, verbose=False)
        means.append(evaluate(ranker.predict(fold.test), fold.test, PRIMARY)[PRIMARY])
    return means[0] - means[1]


def _model(name: str) -> Ranker:
    ranker = recipe(name)
    return ranker.set_params(**_TREES) if "trees" in ranker.get_params() else ranker


@dataclass
class SingleFeatureRanker(Ranker):
    """Ranks by one feature, up or down: the one that ranks the training lists best by NDCG@10."""

    transforms: tuple[str, ...] = ()
    seed: int = 0

    def _fit(self, train: Dataset, validation: Dataset | None, context: FitContext) -> None:  # noqa: ARG002
        features = np.asarray(train.features, dtype=np.float64)
        candidates = [(j, sign) for j in range(train.n_features) for sign in (1.0, -1.0)]
        means = [evaluate(sign * features[:, j], train, [PRIMARY])[PRIMARY] for j, sign in candidates]
        self.feature_, self.sign_ = candidates[int(np.argmax(means))]

    def _predict(self, data: Dataset) -> Scores:
        return self.sign_ * np.asarray(data.features[:, self.feature_], dtype=np.float64)

    def _write(self, folder: Path) -> None:
        raise NotImplementedError

    def _read(self, folder: Path) -> None:
        raise NotImplementedError
