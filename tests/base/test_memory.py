from __future__ import annotations

from plackett.base import memory
from plackett.base.memory import available_memory, format_bytes, memory_limits


def test_available_memory_is_read_or_taken_as_large(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    assert available_memory() == 1 << 40
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   3 kB\n")
    assert available_memory() == 3072


def test_bytes_are_formatted_with_a_unit() -> None:
    assert [format_bytes(5), format_bytes(2 * 1024**2)] == ["5.0 B", "2.0 MiB"]


def test_limits_of_control_groups_count_what_cannot_be_dropped(tmp_path, monkeypatch) -> None:
    inner = tmp_path / "groups" / "unit" / "own"
    inner.mkdir(parents=True)
    (inner.parent / "memory.max").write_text("1000\n")
    (inner.parent / "memory.stat").write_text("anon 300\nfile 600\n")
    (inner / "memory.max").write_text("max\n")
    (tmp_path / "own").write_text("3:cpu:/\n0::/unit/own\n")
    (tmp_path / "meminfo").write_text("MemAvailable: 9 kB\nSwapTotal: 1 kB\n")
    monkeypatch.setattr(memory, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(memory, "_PROCESS_GROUP", tmp_path / "own")
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_GROUPS_V1", tmp_path / "nothing")
    monkeypatch.setattr(memory.resource, "getrlimit", lambda _: (memory.resource.RLIM_INFINITY, 0))
    (limit,) = memory_limits()
    assert (limit.most, limit.used, limit.left) == (2024, 300, 1724)
    (inner.parent / "memory.swap.max").write_text("0\n")
    assert [limit.left for limit in memory_limits()] == [700]
