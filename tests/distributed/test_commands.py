"""``--cluster`` as a person gives it: what commands do with it, and say of a wrong one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import plackett as pk
from plackett.base.errors import DataError, UsageError
from plackett.cli.app import app
from plackett.distributed import ClusterError
from plackett.experiments.papers import run
from plackett.experiments.store import RunStore

pytest.importorskip("ray", reason="needs the extra distributed")
pytestmark = pytest.mark.timeout(300)

COMMANDS = ("train", "tune", "compare", "robustness", "reproduce", "rank")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    data = pk.synthetic("letor", n_lists=30, seed=2)
    pk.write(data, folder / "data.parquet")
    pk.LinearRanker("listnet").fit(data).save(folder / "m.plackett")
    return folder


def _arguments(command: str, files, out) -> list[str]:
    data, model = str(files / "data.parquet"), str(files / "m.plackett")
    small = ["--models", "listnet-linear", "--out", str(out)]
    return {
        "train": ["train", data, "--model", "lambdamart", "--set", "trees=2", "--out", str(out)],
        "tune": ["tune", data, "--model", "listnet-linear", "--store", str(out / "t.db")],
        "compare": ["compare", data, *small],
        "robustness": ["robustness", data, *small, "--perturb", "labels", "--levels", "0,0.5"],
        "reproduce": ["reproduce", "C", "--table", "1", "--quick", "--out", str(out)],
        "rank": ["rank", model, data, "--label", "label", "--out", str(out)],
    }[command]


def _run(*arguments: object):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.mark.parametrize("command", ["train", "tune", "compare", "rank"])  # robustness and reproduce run as compare
def test_a_cluster_that_is_not_there_is_named_in_time(files, tmp_path, command) -> None:
    if command == "tune":
        pytest.importorskip("optuna", reason="needs the extra tune")
    result = _run(*_arguments(command, files, tmp_path / "out"), "--cluster", "127.0.0.1:1?start_seconds=1")
    assert isinstance(result.exception, ClusterError)
    assert "Ray at 127.0.0.1:1 cannot be reached" in str(result.exception)
    assert "Is it running (`ray status`)" in str(result.exception)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("here", "invalid cluster 'here'; expected \"local:2\""),
        ("auto?worker=2", "unknown setting 'worker'; a cluster has"),
        ("ray://10.0.0.1:10001", "through Ray's client (ray://), which Ray's documentation"),
    ],
)
def test_a_bad_address_is_answered_with_the_right_ones(files, tmp_path, command, address, reason) -> None:
    result = _run(*_arguments(command, files, tmp_path / "out"), "--cluster", address)
    assert isinstance(result.exception, UsageError)
    assert reason in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_robustness_runs_its_trials_on_a_cluster(ray_head, files, tmp_path) -> None:
    small = ("--trials", "2", "--json")
    arguments = (*_arguments("robustness", files, tmp_path / "there"), *small)
    there = _run(*arguments, "--cluster", ray_head.cluster())
    assert there.exit_code == 0, there.output
    with RunStore(tmp_path / "there" / "runs.db") as store:
        assert len(store) == 4
    again = _run(*arguments, "--cluster", "127.0.0.1:1")  # nothing is left for it
    assert again.exit_code == 0, again.output
    here = _run(*_arguments("robustness", files, tmp_path / "here"), *small)
    curves = [json.loads(item.stdout)["noise"]["labels"] for item in (there, here, again)]
    assert curves[0] == curves[1] == curves[2]


def test_reproduce_gives_its_cluster_to_the_trials(files, tmp_path, monkeypatch) -> None:
    given: list[object] = []

    def run_trials(*_: object, cluster: object, **__: object) -> int:
        given.append(cluster)
        raise ClusterError("seen")

    monkeypatch.setattr(run, "run_trials", run_trials)  # of the cluster itself, robustness is the test
    result = _run(*_arguments("reproduce", files, tmp_path / "there"), "--cluster", "127.0.0.1:1?workers=3")
    assert isinstance(result.exception, ClusterError)
    assert given[0].workers == 3


def test_tune_searches_on_a_cluster_and_writes_a_model(ray_head, files, tmp_path) -> None:
    pytest.importorskip("optuna", reason="needs the extra tune")
    out = tmp_path / "m.plackett"
    arguments = (*_arguments("tune", files, tmp_path), "--trials", "3", "--out", out, "--json")
    result = _run(*arguments, "--cluster", ray_head.cluster())
    assert result.exit_code == 0, result.output
    payload = json.loads(result.stdout)
    assert (payload["ran"], payload["counts"]["finished"]) == (3, 3)
    assert pk.load(out).training_["tuning"]["value"] == payload["value"]


def test_rank_scores_shards_on_a_cluster(ray_head, tmp_path) -> None:
    data = pk.synthetic("letor", n_lists=30, seed=4)
    ranker = pk.LinearRanker("listnet").fit(data)
    ranker.save(tmp_path / "m.plackett")
    shards = tmp_path / "shards"
    shards.mkdir()
    for place, (start, stop) in enumerate(((0, 10), (10, 18), (18, 30))):
        pk.write(data.lists(start, stop), shards / f"part-{place}.parquet")
    command = ("rank", tmp_path / "m.plackett", shards, "--out", tmp_path / "ranked", "--label", "label", "--json")
    command += ("--cluster", ray_head.cluster())
    facts, again = (json.loads(_run(*command).stdout) for _ in range(2))
    assert (facts["lists"], facts["documents"], facts["ranked"]) == (30, data.n_docs, 3)
    assert again["ranked"] == 0  # nothing is done twice
    actual = [parquet.read_table(tmp_path / "ranked" / f"part-{p}.parquet") for p in range(3)]
    scores = np.concatenate([table["score"].to_numpy() for table in actual])
    np.testing.assert_allclose(np.sort(scores), np.sort(ranker.predict(data)), atol=1e-12)
    assert all(table["rank"].to_numpy().min() == 1 for table in actual)
    pk.write(data.lists(9, 11), shards / "part-3.parquet")
    refused = _run(*command)
    assert isinstance(refused.exception, DataError)
    assert "queries have rows in two shards" in str(refused.exception)
