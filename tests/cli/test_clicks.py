from __future__ import annotations

import json

import numpy as np
import pytest

import plackett as pk
from plackett.base.errors import DataError, UsageError
from plackett.cli.app import app
from plackett.data.clicks import read_propensities, simulate, write_clicks

runner = pytest.importorskip("typer.testing").CliRunner()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("clicks")
    web = pk.synthetic("web", n_lists=30, seed=0)
    named = pk.Dataset.from_arrays(
        web.features,
        web.labels,
        np.repeat(np.arange(web.n_lists), np.diff(web.offsets)),
        document_ids=[f"d{i}" for i in range(web.n_docs)],
    )
    pk.write(named, where / "documents.parquet")
    scores = named.features[:, 3] / named.features[:, 3].std()
    log = simulate(named, impressions=60, top=5, scores=scores, temperature=1.0)
    write_clicks(log, where / "log.csv")
    return where


def _run(folder, *options: str):
    command = ["clicks", str(folder / "log.csv"), "--features", str(folder / "documents.parquet")]
    return runner.invoke(app, [*command, *options])


def test_a_log_becomes_a_training_set(folder) -> None:
    out, saved = folder / "train.parquet", folder / "p.json"
    done = _run(folder, "--out", str(out), "--save", str(saved), "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    train = pk.read(out)
    assert (train.n_lists, train.n_docs) == (facts["lists"], facts["documents"])
    assert facts["method"] == "em"
    assert train.document_weights is not None
    assert train.weights is not None
    result = read_propensities(saved)
    assert result.values[0] == 1.0
    assert result.values[4] < 0.5
    again = _run(folder, "--out", str(folder / "train.pkdata"), "--propensities", str(saved))
    assert again.exit_code == 0
    assert "propensity (em)" in again.stdout
    assert pk.read(folder / "train.pkdata").n_lists == train.n_lists


@pytest.mark.parametrize("propensities", ["none", "swap", "power:1"])
def test_propensities_come_from_several_sources(folder, propensities) -> None:
    out = folder / f"{propensities.replace(':', '')}.parquet"
    done = _run(folder, "--out", str(out), "--propensities", propensities, "--by", "query")
    assert done.exit_code == 0, done.output
    assert pk.read(out).n_lists <= 30


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--out", "train.txt"), "LETOR text cannot store weights"),
        (("--out", "train.parquet", "--propensities", "guess"), "takes none, em, swap"),
        (("--out", "train.parquet", "--propensities", "power:x"), "power takes a number"),
        (("--out", "train.parquet", "--column", "document"), "--column takes role=name"),
        (("--out", "train.parquet", "--column", "document=url"), "no column 'url'"),
        (
            ("--out", "train.parquet", "--propensities", "none", "--deepest", "3"),
            "--deepest only applies to estimated propensities",
        ),
        (("--out", "train.parquet", "--propensities", "none", "--save", "p.json"), "--save needs propensities"),
    ],
)
def test_wrong_options_are_refused(folder, options, message, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    done = _run(folder, *options)
    assert isinstance(done.exception, (UsageError, DataError))
    assert message in str(done.exception)
    assert not list(tmp_path.iterdir())
