from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import plackett as pk
from plackett.base.errors import ConvergenceWarning, DataError, UsageError
from plackett.data.folds import split
from plackett.data.synthetic import synthetic
from plackett.models import LinearRanker
from plackett.models.checkpoint import Checkpoint
from plackett.models.linear import GRID, Convergence
from plackett.objectives import OBJECTIVES, Stochastic, objective


@pytest.fixture(scope="module")
def parts():
    return split(synthetic("letor", n_lists=90, seed=3), (0.5, 0.25, 0.25), seed=1)


def test_the_penalty_is_the_best_of_the_grid_on_validation(parts) -> None:
    train, validation, _ = parts
    ranker = LinearRanker(objective="mle", C=(1e-6, 1e-3, 1.0)).fit(train, validation, "ndcg@10")
    means = {t.C: t.means[0] for t in ranker.trials_}
    assert set(means) == {1e-6, 1e-3, 1.0}
    assert max(means, key=means.get) == ranker.C_
    alone = LinearRanker(objective="mle", C=ranker.C_).fit(train)
    assert ranker.coefficients_ == pytest.approx(alone.coefficients_, rel=1e-2, abs=1e-3)


def test_without_validation_the_middle_of_the_grid_is_taken(parts) -> None:
    assert LinearRanker(C=(100.0, 0.1, 1.0)).fit(parts[0]).C_ == 1.0


def test_every_start_leaves_a_trace_and_the_lowest_value_wins(parts) -> None:
    train, _, _ = parts
    loss = objective("expgain-map", samples=40)
    ranker = LinearRanker(objective=loss, C=0.1).fit(train)
    assert [t.start for t in ranker.trials_] == ["zero", "mle", "convexloss", "random"]
    values = [t.convergence.value for t in ranker.trials_]
    assert [t.chosen for t in ranker.trials_].count(True) == 1
    assert ranker.convergence_.value == min(values)
    for trial in ranker.trials_:
        assert trial.convergence.trace[-1] == pytest.approx(trial.convergence.value)


def test_a_path_starts_each_penalty_at_the_previous_solution(parts) -> None:
    train, validation, _ = parts
    path = LinearRanker(objective="mle", C=GRID).fit(train, validation)
    alone = [LinearRanker(objective="mle", C=C).fit(train).convergence_.iterations for C in GRID]
    assert sum(t.convergence.iterations for t in path.trials_) < sum(alone)


def test_a_solver_that_stops_early_warns_and_says_what_to_do(parts) -> None:
    with pytest.warns(ConvergenceWarning, match="Raise max_iterations, lower C"):
        LinearRanker(objective="listnet", C=1e4, max_iterations=1).fit(parts[0])


@pytest.mark.parametrize("each", OBJECTIVES, ids=lambda each: each.name)
def test_every_objective_trains_with_a_suitable_solver(each, parts) -> None:
    train = parts[0].lists(0, 25)
    ranker = LinearRanker(objective=each(), C=1.0, starts=("zero",), max_iterations=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        scores = ranker.fit(train).predict(train)
    nothing = pk.evaluate(np.zeros(train.n_docs), train, "ndcg@10")["ndcg@10"]
    assert pk.evaluate(scores, train, "ndcg@10")["ndcg@10"] > nothing
    kinked = "cutting planes"
    expected = {"ranksvm": "smoothed hinge", "svmmap": kinked, "pairhinge": kinked}
    solver = "lbfgs" if each().exact else "adam"
    assert ranker.convergence_.solver == expected.get(each.name, solver)


def test_an_objective_without_a_value_is_selected_by_the_metric(parts) -> None:
    train, validation, _ = parts
    ranker = LinearRanker(objective="mdprank", max_iterations=60, patience=20)
    ranker.fit(train, validation, "ndcg@5")
    report = ranker.convergence_
    assert math.isnan(report.value)
    value = pk.evaluate(ranker.predict(validation), validation, "ndcg@5")["ndcg@5"]
    assert value == pytest.approx(max(report.trace))


def test_kinked_stochastic_objectives_get_cutting_planes(parts) -> None:
    loss = Stochastic(objective("svmmap"), samples=2, beta=0.1)
    ranker = LinearRanker(objective=loss, C=0.1).fit(parts[0].lists(0, 15))
    assert ranker.convergence_.solver == "cutting planes"


def test_an_unsuitable_solver_raises(parts) -> None:
    with pytest.raises(UsageError, match="cannot minimize expgain-auc; use 'lbfgs' or 'auto'"):
        LinearRanker(objective="expgain-auc", solver="cutting-plane").fit(parts[0])
    with pytest.raises(UsageError, match=r"solver must be 'auto' or 'lbfgs'.*got 'newton'"):
        LinearRanker(solver="newton").fit(parts[0])
    with pytest.raises(UsageError, match="unknown start 'best'"):
        LinearRanker(starts=("best",)).fit(parts[0])
    with pytest.raises(UsageError, match="C must be a positive number"):
        LinearRanker(C=(1.0, -1.0)).fit(parts[0])
    with pytest.raises(UsageError, match="patience > 0"):
        LinearRanker(patience=0).fit(parts[0])


@pytest.mark.parametrize("name", ["expgain-auc", "svmmap", "ranksvm", "umart"])
def test_a_resumed_fit_ends_in_the_same_model(name, parts, tmp_path, monkeypatch) -> None:
    train, validation = parts[0].lists(0, 20), parts[1]
    ranker = LinearRanker(objective=name, C=(0.01, 0.1, 1.0), max_iterations=200)
    whole = ranker.clone().fit(train, validation)
    monkeypatch.setattr(Checkpoint, "seconds", 0.0)
    monkeypatch.setattr(Checkpoint, "share", 1e9)
    calls = 0

    def interrupt(text: str, done: int, total: int) -> None:  # noqa: ARG001
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ranker.clone().fit(train, validation, checkpoint=tmp_path, progress=interrupt)
    assert list(tmp_path.glob("step-*/journal.json"))
    resumed = ranker.clone().fit(train, validation, checkpoint=tmp_path)
    assert np.array_equal(resumed.coefficients_, whole.coefficients_)
    assert len(resumed.trials_) == len(whole.trials_)


def test_coefficients_come_by_name_largest_first(parts) -> None:
    ranker = LinearRanker(C=0.1).fit(parts[0])
    named = ranker.coefficients_by_name()
    assert set(named) == set(parts[0].feature_names)
    sizes = [abs(v) for v in named.values()]
    assert sizes == sorted(sizes, reverse=True)
    with pytest.raises(UsageError, match="not fitted yet"):
        LinearRanker().coefficients_by_name()


def test_a_saved_model_keeps_scaling_penalty_and_report(parts, tmp_path) -> None:
    train, _, test = parts
    ranker = LinearRanker(objective="ranksvm", C=1e-3).fit(train)
    ranker.save(tmp_path / "m")
    loaded = pk.load(tmp_path / "m")
    assert np.array_equal(loaded.predict(test), ranker.predict(test))
    assert loaded.C_ == 1e-3
    assert loaded.convergence_ == ranker.convergence_


def test_a_damaged_report_raises() -> None:
    with pytest.raises(DataError, match="not a solver report"):
        Convergence.from_dict({"solver": "lbfgs"})


@pytest.mark.parametrize("name", ["mle", "ranksvm", "svmmap", "convexloss-ndcg"])
def test_sparse_features_give_the_coefficients_of_dense_ones(name, parts) -> None:
    data = parts[0].lists(0, 20)
    rows = np.arange(data.n_docs)
    ids = np.repeat(np.arange(data.n_lists), np.diff(data.offsets))[rows]
    X = np.where(data.features[rows] > 0.3, data.features[rows], 0.0)
    dense = pk.Dataset.from_arrays(X, data.labels[rows], ids)
    sparse = pk.Dataset.from_arrays(csr_matrix(X), data.labels[rows], ids)
    ranker = LinearRanker(objective=name, C=0.1, gap=1e-4, tolerance=1e-9, transforms=())
    a, b = (ranker.clone().fit(d).convergence_.value for d in (dense, sparse))
    assert a == pytest.approx(b, rel=2e-4)


def test_one_thread_gives_the_model_of_many(parts) -> None:
    ranker = LinearRanker(objective="convexloss-ndcg", C=0.01)
    one = ranker.clone().set_params(threads=1).fit(parts[0]).coefficients_
    assert np.array_equal(one, ranker.fit(parts[0]).coefficients_)
