from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from plackett.base import kernel_cache
from plackett.cli import warmup
from plackett.cli.app import COMMANDS, app
from plackett.objectives import OBJECTIVES


def test_tasks_cover_all_objectives_and_use_commands_that_exist() -> None:
    tasks = warmup.list_tasks()
    assert {f"objective {kind.name}" for kind in OBJECTIVES} < set(tasks)
    assert "trees" in tasks
    lines = [line for lines in warmup._COMMANDS.values() for line in lines]
    assert all(line.split()[0] in COMMANDS for line in lines)


def test_workers_run_the_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = ["scanner", "objective xendcg"]
    monkeypatch.setattr(warmup, "list_tasks", lambda: tasks)
    result = CliRunner().invoke(app, ["warmup", "--jobs", "2", "--json"])
    facts = json.loads(result.stdout)
    assert facts["kernels"] >= 0
    assert facts["folder"] == str(kernel_cache.cache_folder())
    assert facts["megabytes"] > 0


def test_commands_run_in_a_folder_of_their_own(tmp_path: Path) -> None:
    warmup.run_warmup_task("prepare", str(tmp_path))
    before = Path.cwd()
    assert warmup.run_warmup_task("data", str(tmp_path)) >= 0
    assert Path.cwd() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["rare.txt", "test.txt", "train.txt", "vali.txt"]


def test_a_cache_that_cannot_be_written_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "is_writable", lambda _: False)
    result = CliRunner().invoke(app, ["warmup"])
    assert result.exit_code != 0
    assert "set NUMBA_CACHE_DIR to a writable folder" in str(result.exception)
