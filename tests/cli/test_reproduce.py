"""``plackett reproduce`` as a person runs it, and as a machine kills it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from functools import partial

import pytest

from commands import invoke
from plackett.base.errors import DataError, UsageError, message_of
from plackett.cli.console import use_option_names, with_time_left
from plackett.cli.reproduce import reproduce
from plackett.experiments.store import RunStore

_SMALL = ("--quick", "--trials", "2", "--set", "trees=2", "--set", "leaves=3", "--threads", "1")
_SECONDS = 120  # more than a machine under load needs


_run = partial(invoke, reproduce)


def test_a_table_with_its_files_and_again_without_training(tmp_path) -> None:
    first = _run("C", "--table", "1", "--out", tmp_path, *_SMALL)
    assert first.exit_code == 0, first.output
    assert "12 trials; expected time: about " in first.stderr
    assert "QUICK" in first.stderr
    assert "XE-NDCG-MART" in first.stdout
    assert "the paper says" in first.stdout
    names = {path.name for path in tmp_path.iterdir()}
    assert {"report.html", "results.json", "table-1.md", "table-1.tex", "runs.db"} <= names
    again = _run("C", "--table", "1", "--out", tmp_path, *_SMALL, "--json")
    assert "12 are finished already" in again.stderr
    actual = json.loads(again.stdout)
    assert (actual["paper"], actual["ran"], actual["quick"]) == ("C", 0, True)
    means = actual["exhibits"][0]["numbers"]["synthetic 'web' for MSLR-WEB30K"]["means"]
    assert set(means) == {"ListNet", "λMART", "XE-NDCG-MART"}


def test_real_data_are_used_where_they_are(tmp_path, real_data) -> None:
    result = _run("D", "--table", "1", "--data", real_data, "--out", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    payload = json.loads(result.stdout)
    assert "OHSUMED: 106 lists, 16,140 documents, as published." in payload["data"]
    assert payload["exhibits"][0]["numbers"]["OHSUMED"]["longest"] == 320
    assert any("MSLR-WEB30K/Fold1" in text for text in payload["missing"])


def test_the_list_says_what_there_is(tmp_path) -> None:
    result = _run("C", "--list", "--table", "1", "--quick", "--set", "trees=2", "--json")
    (listed,) = json.loads(result.stdout)
    assert listed["data"] == {"MSLR-WEB30K": "stand-in", "Yahoo set 1": "stand-in"}
    shown = _run("D", "--list", "--table", "1")
    assert "Table 1" in shown.stdout
    assert "at once" in shown.stdout
    every = json.loads(_run("--list", "--quick", "--json").stdout)
    assert {item["paper"] for item in every} == {"A", "B", "C", "D"}
    assert isinstance(_run().exception, UsageError)
    assert not list(tmp_path.iterdir())


def test_without_data_or_quick_the_way_out_is_named(tmp_path) -> None:
    result = _run("A", "--table", "1", "--out", tmp_path / "out")
    assert isinstance(result.exception, DataError)
    assert "--quick" in use_option_names(message_of(result.exception))
    assert "set1.train.txt" in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_a_setting_that_no_system_has_is_refused(tmp_path) -> None:
    result = _run("C", "--table", "1", "--quick", "--set", "epochz=2", "--out", tmp_path / "out")
    assert isinstance(result.exception, UsageError)
    assert "'epochz'" in str(result.exception)


def _count(store) -> int:
    try:
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as connection:
            return int(connection.execute("SELECT count(*) FROM trial").fetchone()[0])
    except sqlite3.Error:
        return 0


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_killed_in_the_midst_it_goes_on_with_what_is_missing(tmp_path) -> None:
    command = [
        sys.executable, "-m", "plackett", "reproduce", "C", "--table", "1", "--out", str(tmp_path),
        *_SMALL,
    ]  # fmt: skip
    environment = os.environ | {"OMP_WAIT_POLICY": "passive"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    until = time.monotonic() + _SECONDS
    while _count(tmp_path / "runs.db") < 1 and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    process.kill()
    process.wait(timeout=_SECONDS)
    kept = _count(tmp_path / "runs.db")
    assert kept >= 1
    # The claim of the trial that was running holds for a minute; the test does not wait for it.
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.execute("UPDATE claim SET expires = 0")
    result = _run("C", "--table", "1", "--out", tmp_path, *_SMALL, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["ran"] == 12 - kept
    with RunStore(tmp_path / "runs.db") as store:
        assert len(store) == 12


def test_the_rest_is_judged_by_the_pace_so_far() -> None:
    told, now = [], [0.0]
    tell = with_time_left(lambda *what: told.append(what), clock=lambda: now[0])
    tell("a", 4, 10)  # four were in the store
    now[0] = 30.0
    tell("b", 5, 10)
    now[0] = 60.0
    tell("", 10, 10)
    assert told == [("a", 4, 10), ("b · about 2 min left", 5, 10), ("", 10, 10)]
