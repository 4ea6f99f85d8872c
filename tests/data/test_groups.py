"""Lists that belong together, such as impressions of one query, through files and divisions."""

from __future__ import annotations

import numpy as np
import pytest

import plackett as pk
from plackett.base.errors import DataError, DataWarning
from plackett.data.clicks import simulate
from plackett.data.description import fingerprint
from plackett.experiments.protocols import as_source, protocol


@pytest.fixture(scope="module")
def clicked():
    web = pk.synthetic("web", n_lists=20, seed=1)
    scores = web.features[:, 3] / web.features[:, 3].std()
    log = simulate(web, "ai2018", impressions=8, scores=scores, temperature=1.0, top=10)
    return pk.Dataset.from_clicks(log, web)


def _groups(data) -> set[int]:
    return set(data.groups.tolist())


def test_impressions_know_their_query(clicked) -> None:
    assert clicked.n_lists > 60
    assert 10 < len(_groups(clicked)) <= 20
    documents = clicked.features[clicked.offsets[:-1]]
    assert len(np.unique(documents, axis=0)) > len(_groups(clicked))


@pytest.mark.parametrize("spelling", ["folds:4", "splits:3", "seeds:2", "holdout"])
def test_no_protocol_parts_a_query(clicked, spelling) -> None:
    way, source = protocol(spelling), as_source(clicked)
    for part in way.splits(source):
        trial = way.load(source, part)
        parts = [_groups(item) for item in (trial.train, trial.validation, trial.test)]
        assert sum(len(item) for item in parts) == len(set().union(*parts)) == len(_groups(clicked))


@pytest.mark.parametrize("name", ["set.parquet", "set.arrow", "set.pkdata"])
def test_files_keep_groups(clicked, tmp_path, name) -> None:
    pk.write(clicked, tmp_path / name)
    again = pk.read(tmp_path / name)
    assert fingerprint(again) == fingerprint(clicked)
    ours, theirs = pk.split(clicked, seed=5), pk.split(again, seed=5)
    assert [fingerprint(item) for item in ours] == [fingerprint(item) for item in theirs]


def test_tables_that_are_streamed_keep_groups(clicked, tmp_path) -> None:
    pk.write(clicked, tmp_path / "set.parquet")
    again = pk.stream(tmp_path / "set.parquet", strict=True)
    assert fingerprint(again) == fingerprint(clicked)


def test_a_column_of_others_is_no_group(tmp_path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = {"label": [0, 1, 1], "query_id": [1, 1, 2], "group_id": [3, 4, 5], "x": [0.1, 0.2, 0.3]}
    pq.write_table(pa.table(table), tmp_path / "theirs.parquet")
    with pytest.warns(DataWarning, match="'group_id' is taken as a feature"):
        data = pk.read(tmp_path / "theirs.parquet")
    assert data.groups is None
    assert data.feature_names == ("group_id", "x")


def test_names_of_groups_do_not_matter_and_contents_do() -> None:
    features, labels = np.arange(12.0)[:, None], [0, 1] * 6
    ids = np.repeat(np.arange(6), 2)
    named = [
        pk.Dataset.from_arrays(features, labels, ids, groups=np.repeat(names, 4))
        for names in (["a", "b", "c"], ["z", "y", "x"])
    ]
    assert fingerprint(named[0]) == fingerprint(named[1])
    assert fingerprint(named[0]) != fingerprint(pk.Dataset.from_arrays(features, labels, ids))
    halves = [pk.split(item, (0.6, 0.4), seed=1)[0] for item in named]
    assert halves[0].n_lists == 4
    assert np.array_equal(halves[0].keys, halves[1].keys)


def test_joined_parts_do_not_share_groups() -> None:
    a = pk.Dataset.from_arrays([[1.0], [2.0]], [0, 1], [1, 2], groups=["q", "q"])
    b = pk.Dataset.from_arrays([[3.0], [4.0]], [0, 1], [1, 2])
    assert len(_groups(pk.concat([a, a]))) == 2
    assert len(_groups(pk.concat([a, b]))) == 3


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(DataError, match=r"rows of query 1 are in different groups"):
        pk.Dataset.from_arrays([[1.0], [2.0]], [0, 1], [1, 1], groups=["a", "b"])
    data = pk.Dataset.from_arrays([[1.0], [2.0]], [0, 1], [1, 2], groups=["a", "a"])
    with pytest.raises(DataError, match=r"^1 group is too few"):
        pk.split(data)
    with pytest.raises(DataError, match=r"^1 list is too few"):
        pk.split(_one_list())
    way, source = protocol("folds:3"), as_source(data)
    part = way.splits(source)[0]
    with pytest.raises(DataError, match="1 groups of lists cannot be cut into 3 folds"):
        way.load(source, part)


def _one_list():
    return pk.Dataset.from_arrays([[1.0], [2.0]], [0, 1], [1, 1])
