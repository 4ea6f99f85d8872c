from __future__ import annotations

import numpy as np
import pytest

from plackett.base.errors import UsageError
from plackett.data.dataset import Dataset
from plackett.data.folds import Fold, read_folds, split
from plackett.data.synthetic import synthetic
from plackett.experiments.figures import draw_lines, draw_scatter
from plackett.experiments.papers.conditional import (
    Outcome,
    Results,
    accuracy_of_samplers,
    as_markdown,
    claims,
    cleaned_fold,
    dynamics,
    run_protocol,
    smear,
)


def _folds(n_lists: int, seed: int) -> list[Fold]:
    train, validation, test = split(synthetic("letor", n_lists=n_lists, seed=seed), (0.5, 0.2, 0.3))
    return [Fold("Fold1", train, validation, test)]


def _results(values: dict[str, dict[str, list[float]]]) -> Results:
    """Outcomes with one metric, by system and data set."""
    return Results(
        tuple(
            Outcome(system, data, {"map": np.array(each)}, (1.0,), 0, 0.0)
            for system, by_data in values.items()
            for data, each in by_data.items()
        )
    )


def test_cleaning_removes_conflicts_then_blank_lists_and_makes_labels_binary() -> None:
    X = [[1.0], [1.0], [2.0], [3.0], [4.0], [5.0], [6.0]]
    data = Dataset.from_arrays(X, [2, 0, 1, 0, 0, 2, 2], [1, 1, 1, 1, 2, 3, 3])
    fold = cleaned_fold(Fold("f", data, None, data))
    assert sorted(fold.test.query_ids.tolist()) == [1, 3]
    assert sorted(fold.test.labels.tolist()) == [0.0, 1.0, 1.0, 1.0]
    # A training list without an irrelevant document holds no pair.
    assert fold.train.query_ids.tolist() == [1]


def test_the_mean_over_all_data_is_weighted_by_their_lists() -> None:
    results = _results({"ranksvm": {"small": [1.0], "large": [0.0, 0.0, 0.0]}})
    assert results.columns == ("small", "large", "all")
    assert results.mean("ranksvm", "all", "map") == pytest.approx(0.25)


def test_a_claim_counts_the_cells_in_which_the_best_of_one_family_wins() -> None:
    families = {
        f"logrank-convex-{g}": {"a": [v]} for g, v in (("auc", 0.1), ("map", 0.6), ("ndcg", 0.2))
    }
    results = _results({**families, "logrank-mle": {"a": [0.5]}, "svmmap": {"a": [0.7]}})
    found = {claim.text: claim for claim in claims(results)}
    assert found["ConvexLoss (its best) beats MLE"].wins == 1
    assert found["ConvexLoss (its best) beats MLE"].holds
    assert found["ConvexLoss-MAP beats SVM-MAP"].wins == 0
    # Systems that were not run are claimed nothing of.
    assert "MLE beats all baselines" not in found


def test_the_protocol_runs_systems_on_data_sets_and_makes_tables() -> None:
    data = {"one": _folds(40, 1), "two": _folds(30, 2)}
    steps: list[int] = []
    results = run_protocol(
        data,
        ("logrank-mle", "rankboost", "ranksvm"),
        settings={"C": (1e-4, 1e-2), "rounds": 10},
        progress=lambda *step: steps.append(step[1]),
    )
    assert steps == list(range(6))
    lists = cleaned_fold(data["one"][0]).test.n_lists
    assert len(results.values("logrank-mle", "one")["map"]) == lists
    assert results.outcomes[0].penalties[0] in (1e-4, 1e-2)
    page = as_markdown(results)
    assert f"## one: {lists} lists" in page
    assert "| `rankboost` |" in page
    with pytest.raises(UsageError, match="no result of 'svmmap'"):
        results.mean("svmmap", "one", "map")


def test_the_smear_around_the_ideal_ranking_is_wider_than_around_the_worst() -> None:
    near, far = smear(3, 60, above=0), smear(3, 60, above=60)
    assert near.shape == (100, 11)
    assert np.all(near[:, 0] == 0.0)
    assert near.std() > 10 * far.std()
    with pytest.raises(UsageError, match="between 0 and n_bads=60"):
        smear(3, 60, above=61)


def test_compatibilities_start_at_zero_and_come_to_outweigh_losses() -> None:
    train = cleaned_fold(_folds(60, 3)[0]).train
    found = dynamics(train, name="convexloss-auc", C=1.0, iterations=6)
    assert np.all(found.compatibilities[0] == 0.0)
    assert np.abs(found.compatibilities[-1]).mean() > found.losses.mean()
    assert found.exact is not None
    # Both objectives fall as the weights evolve.
    assert found.sampled[-1] < found.sampled[0]
    assert found.exact[-1] < found.exact[0]
    assert dynamics(train, name="convexloss-map", iterations=1).exact is None


def test_samplers_are_compared_on_the_test_lists() -> None:
    samplers = {"few": {"samples": 5}, "more": {"samples": 40}}
    found = accuracy_of_samplers(_folds(40, 5), samplers, C=(1e-4, 1e-2))
    assert list(found) == ["few", "more"]
    assert all(0.0 < mean < 1.0 for means in found.values() for mean in means.values())


def test_charts_name_their_series_and_hold_all_points() -> None:
    lines = draw_lines({"a<b": ([1, 2, 3], [0.1, 0.2, 0.15])}, title="t", x="x", y="y")
    assert "a&lt;b" in lines
    assert lines.count("<circle") == 3
    dots = draw_scatter({"s": (np.zeros(4), np.ones(4))}, title="t", x="x", y="y")
    assert dots.count("<circle") == 4
    assert "nan" not in dots


def test_pairwise_systems_reach_what_is_known_of_two_folds_of_ohsumed(real_data) -> None:
    folds = read_folds(real_data / "OHSUMED")[:2]
    results = run_protocol(
        {"OHSUMED": folds}, ("logrank-mle", "ranksvm"), settings={"C": (1e-6, 1e-4)}
    )
    for system in results.systems:
        assert results.mean(system, "OHSUMED", "map") > 0.38


def test_a_setting_that_no_system_has_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"none of the systems has a parameter 'rouns'\. They have C"
    ):
        run_protocol({}, ["logrank-mle"], settings={"rouns": 3})
