"""Paper B: its protocol, its claims counted over cells, and diagnostics of its sampler."""

from __future__ import annotations

import numpy as np
import pytest

from plackett.base.errors import UsageError
from plackett.data.dataset import Dataset
from plackett.data.folds import Fold, read_folds, split
from plackett.data.synthetic import synthetic
from plackett.experiments.compare import compare
from plackett.experiments.papers.conditional import CellResults, clean_fold, clean_source, count_claims
from plackett.experiments.papers.sampler import dynamics, smear
from plackett.experiments.protocols import DataSource
from plackett.experiments.systems import as_systems


def _folds(n_lists: int, seed: int) -> list[Fold]:
    train, validation, test = split(synthetic("letor", n_lists=n_lists, seed=seed), (0.5, 0.2, 0.3))
    return [Fold("Fold1", train, validation, test)]


def _results(values: dict[str, dict[str, list[float]]]) -> CellResults:
    """Results with one metric, by data set and system."""
    return CellResults(
        {
            data: {system: {"map": np.array(ours)} for system, ours in by_system.items()}
            for data, by_system in values.items()
        }
    )


def test_cleaning_removes_conflicts_then_blank_lists_and_makes_labels_binary() -> None:
    X = [[1.0], [1.0], [2.0], [3.0], [4.0], [5.0], [6.0]]
    data = Dataset.from_arrays(X, [2, 0, 1, 0, 0, 2, 2], [1, 1, 1, 1, 2, 3, 3])
    fold = clean_fold(Fold("f", data, None, data))
    assert sorted(fold.test.list_ids.tolist()) == [1, 3]
    assert sorted(fold.test.labels.tolist()) == [0.0, 1.0, 1.0, 1.0]
    # A training list without an irrelevant document holds no pair.
    assert fold.train.list_ids.tolist() == [1]


def test_the_mean_over_all_data_is_weighted_by_their_lists() -> None:
    results = _results({"small": {"ranksvm": [1.0]}, "large": {"ranksvm": [0.0, 0.0, 0.0]}})
    assert results.columns == ("small", "large", "all")
    assert results.mean("ranksvm", "all", "map") == pytest.approx(0.25)
    with pytest.raises(UsageError, match="no result of 'svmmap'"):
        results.mean("svmmap", "small", "map")


def test_a_claim_counts_the_cells_in_which_the_best_of_one_family_wins() -> None:
    values = (("auc", 0.1), ("map", 0.6), ("ndcg", 0.2))
    systems = {f"logrank-convex-{gain}": [value] * 20 for gain, value in values}
    results = _results({"a": {**systems, "logrank-mle": [0.5] * 20, "svmmap": [0.7] * 20}})
    claims = {claim.text: claim for claim in count_claims(results)}
    better, worse = claims["ConvexLoss (its best) beats MLE"], claims["ConvexLoss-MAP beats SVM-MAP"]
    assert better.holds
    assert better.here.startswith("1 of 1 cells (paper: 29 of 32); logrank-convex-map − logrank-mle: MAP +0.1")
    assert better.p < 0.05
    assert worse.holds is False
    # Systems that were not run are named, and nothing is said of them.
    missing = claims["MLE beats all baselines"]
    assert missing.verdict == "not tested"
    assert missing.here.startswith("not run: ranksvm, rankboost, listnet-linear, boltzrank")


def test_the_smear_around_the_ideal_ranking_is_wider_than_around_the_worst() -> None:
    near, far = smear(3, 60, above=0), smear(3, 60, above=60)
    assert near.shape == (100, 11)
    assert np.all(near[:, 0] == 0.0)
    assert near.std() > 10 * far.std()
    with pytest.raises(UsageError, match="between 0 and n_bads=60"):
        smear(3, 60, above=61)


def test_compatibilities_start_at_zero_and_come_to_outweigh_losses() -> None:
    train = clean_fold(_folds(60, 3)[0]).train
    result = dynamics(train, name="convexloss-auc", C=1.0, iterations=6)
    assert np.all(result.compatibilities[0] == 0.0)
    assert np.abs(result.compatibilities[-1]).mean() > result.losses.mean()
    assert result.exact is not None
    # Both objectives fall as the weights evolve.
    assert result.sampled[-1] < result.sampled[0]
    assert result.exact[-1] < result.exact[0]
    assert dynamics(train, name="convexloss-map", iterations=1).exact is None


def test_pairwise_systems_reach_what_is_known_of_two_folds_of_ohsumed(real_data) -> None:
    source = clean_source(DataSource("OHSUMED", folds=tuple(read_folds(real_data / "OHSUMED")[:2])))
    systems = as_systems(("logrank-mle", "ranksvm"), settings={"C": (1e-6, 1e-4)})
    compared = compare(source, {s.name: s.ranker for s in systems}, protocol="folds", metrics=("map",), metric="map")
    for values in compared.results.values.values():
        assert np.nanmean(values["map"]) > 0.38
