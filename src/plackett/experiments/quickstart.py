"""``plackett quickstart``: compare one system of each family on the built-in synthetic data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from plackett.base.ragged import Scores
from plackett.data.dataset import Dataset
from plackett.data.description import Description, describe
from plackett.data.synthetic import synthetic
from plackett.experiments.compare import compare
from plackett.experiments.protocols import DataSource
from plackett.experiments.report.write import write_files
from plackett.experiments.results import Leaderboard, leaderboard
from plackett.metrics import evaluate
from plackett.models import recipe
from plackett.models.fit_context import FitContext
from plackett.models.ranker import Ranker

METRICS = ("ndcg@1", "ndcg@5", "ndcg@10", "err@10", "map")
PRIMARY = "ndcg@10"
BASELINE = "lightgbm-lambdarank"
SYSTEMS = (
    "listnet-linear",
    BASELINE,
    "lambdamart",
    "e-lambdamart",
    "e-lambdaloss-mart",
    "xendcg-mart",
)
_TREES = {"trees": 300, "leaves": 31, "learning_rate": 0.1, "patience": 30}

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many steps are done, and how many there are."""


@dataclass(frozen=True)
class Quickstart:
    """The comparison, and where its files are."""

    board: Leaderboard
    description: Description
    report: Path
    results: Path


def quickstart(
    folder: Path, *, n_lists: int = 1500, seed: int = 0, progress: Progress = lambda *_: None
) -> Quickstart:
    """Train one system of each family on synthetic lists and compare them.

    Parameters
    ----------
    folder
        Where the report, the tables and results.json go.
    n_lists
        Size of the synthetic web-search set.
    seed
        Random seed of the data, the split and the models.
    progress
        Called before each step.
    """
    progress("generating the data set", 0, len(SYSTEMS) + 1)
    dataset = synthetic("web", n_lists=n_lists, seed=seed)
    models: dict[str, Ranker] = {"best single feature": SingleFeatureRanker()}
    models |= {name: _model(name) for name in SYSTEMS}
    for model in models.values():
        _warm_up(model.clone(), dataset)
    compared = compare(
        DataSource("synthetic web-search lists", whole=dataset),
        models,
        metrics=METRICS,
        baseline=BASELINE,
        metric="ndcg@5",
        seed=seed,
        progress=progress,
    )
    found = compared.results
    board = leaderboard(
        found.values, baseline=BASELINE, primary=PRIMARY, seconds=found.seconds, seed=seed
    )
    command = f"plackett quickstart --lists {n_lists} --seed {seed}"
    files = write_files(replace(compared, board=board), folder, command=command)
    return Quickstart(board, describe(dataset), files.report, files.results)


def _model(name: str) -> Ranker:
    ranker = recipe(name)
    return ranker.set_params(**_TREES) if "trees" in ranker.get_params() else ranker


def _warm_up(ranker: Ranker, dataset: Dataset) -> None:
    """Train on a few lists, so that the measured times do not include compilation."""
    if "trees" in ranker.get_params():
        ranker.set_params(trees=1)
    ranker.fit(dataset.lists(0, min(20, dataset.n_lists)))


@dataclass
class SingleFeatureRanker(Ranker):
    """Ranks by one feature, up or down: the one that ranks the training lists best by NDCG@10."""

    transforms: tuple[str, ...] = ()
    seed: int = 0

    def _fit(self, train: Dataset, validation: Dataset | None, context: FitContext) -> None:  # noqa: ARG002
        features = np.asarray(train.features, dtype=np.float64)
        candidates = [(j, sign) for j in range(train.n_features) for sign in (1.0, -1.0)]
        means = [
            evaluate(sign * features[:, j], train, [PRIMARY])[PRIMARY] for j, sign in candidates
        ]
        self.feature_, self.sign_ = candidates[int(np.argmax(means))]

    def _predict(self, data: Dataset) -> Scores:
        return self.sign_ * np.asarray(data.features[:, self.feature_], dtype=np.float64)

    def _write(self, folder: Path) -> None:
        raise NotImplementedError

    def _read(self, folder: Path) -> None:
        raise NotImplementedError
