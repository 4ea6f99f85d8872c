"""Checkpoints: whole states only, one process at a time, never another fit's."""

from __future__ import annotations

import contextlib

import pytest

from plackett.base.errors import DataError, UsageError
from plackett.models.checkpoint import open_checkpoint

IDENTITY = {"kind": "TreeRanker", "settings": {"trees": 3}}


def test_only_the_latest_whole_state_is_kept(tmp_path) -> None:
    with open_checkpoint(tmp_path / "fit", IDENTITY) as store:
        assert store.latest() is None
        for step in (1, 9, 10):
            with store.saving(step) as folder:
                (folder / "state").write_text(str(step))
        with contextlib.suppress(KeyError), store.saving(11) as folder:
            (folder / "state").write_text("half")
            raise KeyError
        assert store.latest().name == "step-10"
        assert (store.latest() / "state").read_text() == "10"
        assert sum(path.name.startswith("step-") for path in store.folder.iterdir()) == 1


def test_what_a_killed_process_left_is_removed(tmp_path) -> None:
    with open_checkpoint(tmp_path / "fit", IDENTITY) as store:
        (store.folder / ".step-3.abc.tmp").mkdir()
    with open_checkpoint(tmp_path / "fit", IDENTITY) as store:
        assert not (store.folder / ".step-3.abc.tmp").exists()


def test_the_state_of_another_fit_raises_and_names_the_difference(tmp_path) -> None:
    with open_checkpoint(tmp_path / "fit", IDENTITY):
        pass
    other = IDENTITY | {"settings": {"trees": 4}}
    with pytest.raises(UsageError, match="its trees is 3, here it is 4"), open_checkpoint(tmp_path / "fit", other):
        pass


def test_two_processes_cannot_share_a_checkpoint(tmp_path) -> None:
    with (
        open_checkpoint(tmp_path / "fit", IDENTITY),
        pytest.raises(UsageError, match="another process is working"),
        open_checkpoint(tmp_path / "fit", IDENTITY),
    ):
        pass


def test_a_folder_with_other_files_is_not_a_checkpoint(tmp_path) -> None:
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(UsageError, match=r"it holds 'letters.txt'"), open_checkpoint(tmp_path, IDENTITY):
        pass


def test_a_damaged_description_is_named(tmp_path) -> None:
    (tmp_path / "fit.json").write_text("{")
    with pytest.raises(DataError, match="is damaged"), open_checkpoint(tmp_path, IDENTITY):
        pass


def test_a_description_left_half_written_is_removed(tmp_path) -> None:
    (tmp_path / "fit").mkdir()
    (tmp_path / "fit" / ".fit.json.abcd.tmp").write_text("{")
    with open_checkpoint(tmp_path / "fit", IDENTITY) as store:
        assert store.latest() is None
