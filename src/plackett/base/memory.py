"""Memory of this process: how much is available, which limits are set, how much of them is used.

Limits come from the process (``ulimit -v``, ``ulimit -d``) and from its control groups (a
container, a systemd unit). If Linux reports no limit, this module reports none.
"""

import resource
from dataclasses import dataclass
from pathlib import Path

_STATUS = Path("/proc/self/status")
_MEMINFO = Path("/proc/meminfo")
_PROCESS_GROUP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
_GROUPS_V1 = Path("/sys/fs/cgroup/memory")
_KIB = 1024
_UNLIMITED_V1 = 1 << 60  # version 1 of control groups writes "no limit" as a larger number
_UNKNOWN = 1 << 40


@dataclass(frozen=True)
class Limit:
    """A memory limit and how much of it is used, in bytes."""

    name: str
    most: int
    used: int

    @property
    def left(self) -> int:
        """Bytes that may still be used."""
        return max(0, self.most - self.used)


def memory_limits() -> list[Limit]:
    """All limits that are set."""
    limits = []
    for name, kind, field in (
        ("ulimit -v", resource.RLIMIT_AS, "VmSize"),
        ("ulimit -d", resource.RLIMIT_DATA, "VmData"),
    ):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            limits.append(Limit(name, soft, _read_kib(_STATUS, field) or 0))
    return [*limits, *_group_limits()]


def available_memory() -> int:
    """Bytes that can be allocated without swapping, within all limits; 1 TiB if it is unknown."""
    free = _read_kib(_MEMINFO, "MemAvailable") or _UNKNOWN
    return min([free, *(limit.left for limit in memory_limits())])


def _read_kib(path: Path, field: str) -> int | None:
    """Bytes of a field such as ``VmData:  1234 kB`` in a file under /proc."""
    values = _read_fields(path)
    return _KIB * int(values[f"{field}:"]) if f"{field}:" in values else None


def _read_fields(path: Path) -> dict[str, str]:
    """First and second word of each line; empty if the file cannot be read."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {words[0]: words[1] for words in lines if len(words) > 1}


def _group_limits() -> list[Limit]:
    """Limits of the control groups of this process, from the innermost to the outermost.

    The kernel can drop pages of files, so only anonymous memory counts as used. Swap space adds to
    the limit.
    """
    limits = []
    swap = _read_kib(_MEMINFO, "SwapTotal") or 0
    for folder in _group_folders():
        most = _read_number(folder / "memory.max")
        if most is not None:
            swap_limit = _read_number(folder / "memory.swap.max")
            more = swap if swap_limit is None else min(swap, swap_limit)
            used = int(_read_fields(folder / "memory.stat").get("anon", 0))
            limits.append(Limit("the limit of the control group", most + more, used))
    most = _read_number(_GROUPS_V1 / "memory.limit_in_bytes")
    if most is not None and most < _UNLIMITED_V1:
        used = int(_read_fields(_GROUPS_V1 / "memory.stat").get("total_rss", 0))
        limits.append(Limit("the limit of the control group", most + swap, used))
    return limits


def _group_folders() -> list[Path]:
    try:
        lines = _PROCESS_GROUP.read_text().splitlines()
    except OSError:
        return []
    groups = [Path(line.removeprefix("0::/")) for line in lines if line.startswith("0::/")]
    return [_GROUPS / part for group in groups[:1] for part in (group, *group.parents)]


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return None


def format_bytes(size: float) -> str:
    """Format a number of bytes with a unit.

    >>> format_bytes(3 * 1024**3)
    '3.0 GiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < _KIB:
            return f"{size:.1f} {unit}"
        size /= _KIB
    return f"{size:.1f} PiB"
