from __future__ import annotations

import sqlite3
import time
from dataclasses import replace

import numpy as np
import pytest

from plackett.base.errors import StoreError, UsageError
from plackett.experiments.database import without_password
from plackett.experiments.store import Heartbeat, Identity, Outcome, RunStore
from store_worker import identity, outcome


def test_a_finished_trial_comes_back_exactly(place) -> None:
    values = np.array([0.1, np.nan, 1.0, 0.0])
    inputs = Outcome({"ndcg@5": values}, np.array([1e-300, -2.5]), 3.25, {"validation": {"m": [1]}})
    with RunStore(place) as store:
        store.finish(identity(1), inputs)
    with RunStore(place) as store:
        result = store.get(identity(1))
        assert result is not None
        assert np.array_equal(result.values["ndcg@5"], values, equal_nan=True)
        assert result.scores.tolist() == [1e-300, -2.5]
        assert (result.seconds, result.curves) == (3.25, {"validation": {"m": [1]}})
        assert store.get(identity(2)) is None
        assert store.identities()[0]["seed"] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"data": "other"},
        {"settings": {"kind": "X", "trees": 3}},
        {"seed": 8},
        {"part": "Fold2"},
        {"metric": "ndcg@10"},
        {"code": "2"},
        {"libraries": {"numpy": "3"}},
    ],
)
def test_whatever_changes_the_result_changes_the_digest(change) -> None:
    assert replace(identity(7), **change).digest != identity(7).digest


def test_the_digest_depends_neither_on_the_order_of_settings_nor_on_the_name() -> None:
    one = Identity("d", "a", {"x": 1, "y": 2}, 0, "p", "m", "c")
    other = Identity("d", "b", {"y": 2, "x": 1}, 0, "p", "m", "c")
    assert one.digest == other.digest


def test_a_trial_finished_twice_counts_once_and_keeps_the_first_result(place) -> None:
    with RunStore(place) as first, RunStore(place) as second:
        first.finish(identity(1), outcome(1))
        second.finish(identity(1), outcome(2))
        assert len(first) == 1
        result = second.get(identity(1))
    assert result is not None
    assert result.scores.tolist() == outcome(1).scores.tolist()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE trial SET seconds = seconds + 1",
        "UPDATE trial SET curves = '{}'",
        "UPDATE trial SET scores = zeroblob(length(scores))",
        "UPDATE per_list SET numbers = zeroblob(length(numbers)) WHERE metric = 'map'",
        "DELETE FROM per_list WHERE metric = 'map'",
    ],
)
def test_a_changed_outcome_is_noticed(change, tmp_path) -> None:
    inputs = replace(outcome(1), curves={"train": {"m": [0.5]}})
    with RunStore(tmp_path / "runs.db") as store:
        store.finish(identity(1), inputs)
        store.finish(identity(2), outcome(2))
    with sqlite3.connect(tmp_path / "runs.db") as database:
        database.execute(f"{change} {'AND' if 'WHERE' in change else 'WHERE'} digest = ?", (identity(1).digest,))
    with RunStore(tmp_path / "runs.db") as store:
        with pytest.raises(StoreError, match=r"the checksum of '(trial|map)' differs"):
            store.get(identity(1))
        assert store.get(identity(2)) is not None


def test_a_trial_of_a_store_without_checksums_is_read(tmp_path) -> None:
    with RunStore(tmp_path / "runs.db") as store:
        store.finish(identity(1), outcome(1))
    with sqlite3.connect(tmp_path / "runs.db") as database:
        database.execute("DROP TABLE checksum")
    with RunStore(tmp_path / "runs.db") as store:
        store.finish(identity(1), outcome(2))  # the first result is kept
        result = store.get(identity(1))
    assert result is not None
    assert result.scores.tolist() == outcome(1).scores.tolist()


def test_metrics_are_added_to_a_finished_trial(place) -> None:
    with RunStore(place) as store:
        store.finish(identity(1), outcome(1))
        store.add_values(identity(1), {"err@10": np.arange(3.0)})
        result = store.get(identity(1))
    assert result is not None
    assert sorted(result.values) == ["err@10", "map", "ndcg@5"]


def test_a_claim_keeps_others_away_until_it_is_released_or_finished(place) -> None:
    with RunStore(place) as first, RunStore(place) as second:
        assert first.claim(identity(1))
        assert first.claim(identity(1))  # one's own claim may be taken again
        assert not second.claim(identity(1))
        assert second.held() == {identity(1).digest: first.owner}
        first.release([identity(1)])
        assert second.claim(identity(1))
        second.finish(identity(1), outcome(1))
        assert not first.claim(identity(1))
        assert first.held() == {}


def test_a_claim_runs_out_and_another_takes_it(place) -> None:
    with RunStore(place, lease=0.05) as dead, RunStore(place) as alive:
        assert dead.claim(identity(1))
        time.sleep(0.1)
        assert alive.claim(identity(1))
        dead.release([identity(1)])  # not its own any more
        assert alive.held() == {identity(1).digest: alive.owner}


def test_a_heartbeat_keeps_a_claim_beyond_its_lease(place) -> None:
    with RunStore(place, lease=2) as owner, RunStore(place) as other:
        assert owner.claim(identity(1))
        with Heartbeat(owner) as heartbeat:
            heartbeat.add(identity(1).digest)
            time.sleep(3)
            assert not other.claim(identity(1))


def test_finished_trials_are_found_among_many(place) -> None:
    with RunStore(place) as store:
        for seed in (3, 1200):
            store.finish(identity(seed), outcome(seed))
        actual = store.finished(map(identity, range(1500)))
    assert actual == {identity(3).digest: 1.5, identity(1200).digest: 1.5}


def test_a_store_of_a_later_version_is_refused(place) -> None:
    with RunStore(place) as store:
        store._database.execute("UPDATE about SET value = '99' WHERE name = 'schema'")
    with pytest.raises(StoreError, match="another version of plackett"):
        RunStore(place)


def test_what_is_neither_file_nor_known_url_is_refused() -> None:
    with pytest.raises(UsageError, match="postgresql://USER@HOST/DATABASE, got 'mysql://x'"):
        RunStore("mysql://x")


def test_a_sqlite_url_means_its_path(tmp_path) -> None:
    with RunStore(f"sqlite:///{tmp_path}/runs.db") as store:
        store.finish(identity(1), outcome(1))
    with RunStore(tmp_path / "runs.db") as store:
        assert len(store) == 1


def test_passwords_are_not_shown() -> None:
    assert without_password("postgresql://a:p@h/d?password=q&x=1") == ("postgresql://a@h/d?password=...&x=1")


def test_a_server_that_is_not_there_gives_a_clear_message() -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra: team)")
    with pytest.raises(StoreError, match=r"ann@127\.0\.0\.1:1/runs: the server says"):
        RunStore("postgresql://ann:secret@127.0.0.1:1/runs")


def test_a_server_that_restarts_loses_nothing(postgresql) -> None:
    place = postgresql.new_database()
    with RunStore(place) as store:
        store.finish(identity(1), outcome(1))
        postgresql.stop()
        postgresql.start()
        store.finish(identity(2), outcome(2))
        assert len(store) == 2
