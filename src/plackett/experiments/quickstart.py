"""The main job in one function: data, models, an honest comparison, a report."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plackett.base.files import write_json
from plackett.base.ragged import Scores
from plackett.data.dataset import Dataset
from plackett.data.description import Description, describe
from plackett.data.folds import split
from plackett.data.synthetic import synthetic
from plackett.experiments.protocols import Split, SplitData
from plackett.experiments.report import Report, write_report
from plackett.experiments.report.query_browser import look_at
from plackett.experiments.results import Leaderboard, TrialDetails, leaderboard
from plackett.experiments.systems import System, environment
from plackett.metrics import evaluate, per_list
from plackett.models import recipe
from plackett.models.ranker import Ranker
from plackett.models.trees import TreeRanker

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
_SINGLE = "best single feature"
_SETTINGS = {"trees": 300, "leaves": 31, "learning_rate": 0.1, "patience": 30}
_STOP_ON = "ndcg@5"

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many steps are done, and how many there are."""


@dataclass(frozen=True)
class Quickstart:
    """What the main job found, and where its files are."""

    board: Leaderboard
    description: Description
    report: Path
    results: Path


def quickstart(
    folder: Path, *, n_lists: int = 1500, seed: int = 0, progress: Progress = lambda *_: None
) -> Quickstart:
    """Train one system of each family on the embedded data set and compare them.

    Parameters
    ----------
    folder
        Where report.html and results.json go.
    n_lists
        Size of the synthetic web-search set.
    seed
        Of the data, the split and the models.
    progress
        Called before each step.
    """
    steps = len(SYSTEMS) + 3
    progress("making the synthetic web-search set", 0, steps)
    dataset = synthetic("web", n_lists=n_lists, seed=seed)
    train, validation, test = split(dataset, (0.6, 0.2, 0.2), seed=seed)
    progress("choosing the best single feature", 1, steps)
    scores = {_SINGLE: _best_feature(train, test)}
    seconds, curves = {}, {}
    for i, name in enumerate(SYSTEMS):
        progress(f"training {name}", i + 2, steps)
        ranker = _configured(name, seed)
        _warm_up(name, train)
        start = time.perf_counter()
        ranker.fit(train, validation, metric=_STOP_ON)
        seconds[name] = time.perf_counter() - start
        scores[name] = ranker.predict(test)
        if isinstance(ranker, TreeRanker):
            curves[name] = ranker.curves_["validation"][_STOP_ON]
    progress("testing significance and writing the report", steps - 1, steps)
    values = {name: per_list(each, test, METRICS) for name, each in scores.items()}
    board = leaderboard(values, baseline=BASELINE, primary=PRIMARY, seconds=seconds, seed=seed)
    result = Quickstart(board, describe(dataset), folder / "report.html", folder / "results.json")
    trial = SplitData("test", train, validation, test, seed)
    _write(result, curves, TrialDetails(_part(seed), trial, scores, values))
    progress("done", steps, steps)
    return result


def _configured(name: str, seed: int) -> Ranker:
    ranker = recipe(name, seed=seed)
    return ranker.set_params(**_SETTINGS) if isinstance(ranker, TreeRanker) else ranker


def _warm_up(name: str, train: Dataset) -> None:
    """Train on a few lists first, so that times do not count what is compiled only once."""
    ranker = recipe(name)
    if isinstance(ranker, TreeRanker):
        ranker.set_params(trees=1)
    ranker.fit(train.lists(0, min(20, train.n_lists)))


def _best_feature(train: Dataset, test: Dataset) -> Scores:
    """Scores of the test documents by the feature, up or down, that ranks the train lists best."""
    features = np.asarray(train.features, dtype=np.float64)
    best, column, sign = -1.0, 0, 1.0
    for j in range(train.n_features):
        for direction in (1.0, -1.0):
            found = evaluate(direction * features[:, j], train, [PRIMARY])[PRIMARY]
            if found > best:
                best, column, sign = found, j, direction
    return sign * np.asarray(test.features[:, column], dtype=np.float64)


def _part(seed: int) -> Split:
    return Split("test", data="synthetic", division="split 60/20/20", seed=seed, index=0)


def _write(result: Quickstart, curves: dict[str, list[float]], shown: TrialDetails) -> None:
    trial, seed = shown.trial, shown.part.seed
    sizes = " / ".join(f"{d.n_lists:,}" for d in (trial.train, trial.validation, trial.test))
    systems = [System(name, _configured(name, seed)) for name in SYSTEMS]
    payload = {"leaderboard": result.board.to_dict(), "data": result.description.to_dict()}
    write_json(result.results, payload)
    report = Report(
        title="plackett quickstart",
        lead=f"Synthetic web-search lists, {sizes} for training / validation / test.",
        board=result.board,
        description=result.description,
        curves=curves,
        curve_metric=_STOP_ON,
        notes=(
            f"Data: plackett.synthetic('web', n_lists={result.description.n_lists}, seed={seed}); "
            "split 60/20/20 by list.",
            f"Trees: {_SETTINGS['leaves']} leaves, learning rate {_SETTINGS['learning_rate']}, at "
            f"most {_SETTINGS['trees']}, stopped on validation {_STOP_ON}; the test lists were "
            "looked at once.",
            "The best single feature was chosen on the training lists by NDCG@10.",
            "Metrics: gain 2^label - 1, discount 1/log2(1 + rank), lists without a relevant "
            "document left out, ERR with the top label of each list.",
        ),
        look=look_at(
            [shown],
            systems=[entry.name for entry in result.board.entries],
            metric=PRIMARY,
            baseline=BASELINE,
            note="All test queries.",
        ),
        settings={system.name: system.settings(seed) for system in systems},
        environment=environment({name for s in systems for name in s.libraries()}),
    )
    write_report(report, result.report)
