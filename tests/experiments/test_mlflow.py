"""What MLflow is told, in a store of its own in a temporary folder."""

from __future__ import annotations

import sys

import pytest

from plackett.base.errors import PlackettError, UsageError
from plackett.experiments.compare import compare
from plackett.experiments.mlflow import check_uri, log_comparison, log_tuning
from small_systems import FeatureRanker, small_data

# MLflow's own use of its libraries is not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _quiet(monkeypatch) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("DO_NOT_TRACK", "true")


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """One for all: MLflow takes its time to make one."""
    return tmp_path_factory.mktemp("mlflow") / "mlflow.db"


@pytest.fixture
def client(database):
    tracking = pytest.importorskip("mlflow.tracking")
    return tracking.MlflowClient(tracking_uri=f"sqlite:///{database}")


def _children(client, run: str):
    experiment = client.get_run(run).info.experiment_id
    return client.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{run}'")


def test_a_comparison_is_a_run_with_a_run_for_each_system(client, database) -> None:
    systems = {"a": FeatureRanker(feature=3), "b": FeatureRanker(feature=0)}
    comparison = compare(small_data(), systems, metrics="ndcg@5,map")
    run = log_comparison(comparison, uri=database)
    kept = client.get_run(run)
    assert kept.data.params["protocol"] == "holdout"
    assert kept.info.status == "FINISHED"
    names = {item.path for item in client.list_artifacts(run)}
    assert {"report.html", "results.json", "leaderboard.md", "differences.svg"} <= names
    assert (database.with_name("mlflow-artifacts")).is_dir()
    children = {item.data.tags["mlflow.runName"]: item for item in _children(client, run)}
    assert set(children) == {"a", "b"}
    for entry in comparison.board.entries:
        ours = children[entry.name].data
        assert ours.params["feature"] == str(systems[entry.name].feature)
        assert ours.metrics["ndcg_at_5"] == pytest.approx(entry.means["ndcg@5"])


def test_a_search_is_a_run_with_a_run_for_each_trial(client, database) -> None:
    pytest.importorskip("optuna")
    from plackett.experiments.tuning import tune

    ranker = FeatureRanker()
    search = tune(small_data(), ranker, trials=3, space={"noise": "0.0..1.0"}, refit=False)
    run = log_tuning(search, uri=f"sqlite:///{database}", name="small")
    kept = client.get_run(run).data
    assert kept.metrics["ndcg_at_10"] == pytest.approx(search.value)
    assert [item.path for item in client.list_artifacts(run)] == ["tuning.json"]
    values = {c.data.tags["mlflow.runName"]: c.data.metrics for c in _children(client, run)}
    assert set(values) == {"trial 1", "trial 2", "trial 3"}
    assert values["trial 2"]["ndcg_at_10"] == pytest.approx(search.trials[1].value)


def test_an_address_that_does_not_work_is_named_before_the_work(tmp_path) -> None:
    pytest.importorskip("mlflow")
    with pytest.raises(UsageError, match="an address to log to"):
        check_uri(" ")
    (tmp_path / "folder").mkdir()
    with pytest.raises(PlackettError, match=r"MLflow at .*folder reports an error"):
        check_uri(str(tmp_path / "folder"))


def test_the_extra_is_named_where_mlflow_is_missing(monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match="the extra 'mlflow'"):
        check_uri(str(tmp_path / "a.db"))
