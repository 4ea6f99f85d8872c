"""How much memory this process may have, and how much of it is taken.

Limits of the process (``ulimit -v``, ``ulimit -d``) and of the group of processes that it is in
(a container, a systemd unit). What Linux does not tell is not limited here.

How much memory there is, so that a wild feature index is an error and not a dead process.
"""

from __future__ import annotations

import re
import resource
from dataclasses import dataclass
from pathlib import Path

_STATUS = Path("/proc/self/status")
_OWN_GROUP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")
_OLD_GROUP = Path("/sys/fs/cgroup/memory")
_KILOBYTE = 1024
_UNLIMITED = 1 << 60  # what version 1 of control groups says for "no limit" is above


@dataclass(frozen=True)
class Limit:
    """A limit and what is taken of it, in bytes."""

    name: str
    most: int
    used: int

    @property
    def left(self) -> int:
        """What may still be taken."""
        return max(0, self.most - self.used)


def limits() -> list[Limit]:
    """All limits that are set."""
    found = []
    for name, kind, field in (
        ("ulimit -v", resource.RLIMIT_AS, "VmSize"),
        ("ulimit -d", resource.RLIMIT_DATA, "VmData"),
    ):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            found.append(Limit(name, soft, bytes_of(_STATUS, field) or 0))
    return [*found, *_of_groups()]


def bytes_of(path: Path, field: str) -> int | None:
    """A line such as ``VmData:  1234 kB`` of one of the system's tables, in bytes."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith(f"{field}:")]
    return _KILOBYTE * int(found[0]) if found else None


def _of_groups() -> list[Limit]:
    """Of the control groups of this process, from its own up to the whole.

    Pages of files can be dropped, so only memory of the processes' own counts as taken; what may be
    swapped out comes on top of the limit.
    """
    found = []
    swap = bytes_of(_MEMINFO, "SwapTotal") or 0
    for folder in _own_groups():
        most = _number(folder / "memory.max")
        if most is not None:
            allowed = _number(folder / "memory.swap.max")
            more = swap if allowed is None else min(swap, allowed)
            used = _stat(folder / "memory.stat", "anon")
            found.append(Limit("the limit of the control group", most + more, used))
    old = _number(_OLD_GROUP / "memory.limit_in_bytes")
    if old is not None and old < _UNLIMITED:
        used = _stat(_OLD_GROUP / "memory.stat", "total_rss")
        found.append(Limit("the limit of the control group", old + swap, used))
    return found


def _own_groups() -> list[Path]:
    try:
        lines = _OWN_GROUP.read_text().splitlines()
    except OSError:
        return []
    own = [line.removeprefix("0::/") for line in lines if line.startswith("0::/")]
    if not own:
        return []
    place = Path(own[0])
    return [_GROUPS / part for part in (place, *place.parents)] if own[0] else [_GROUPS]


def _stat(path: Path, field: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{field} ")), 0)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return None


_UNKNOWN = 1 << 40
_KIB = 1024


def available_memory(meminfo: str = "/proc/meminfo") -> int:
    """Bytes that can be had without swapping; a terabyte where the system does not say."""
    try:
        text = Path(meminfo).read_text(encoding="ascii")
    except OSError:
        return _UNKNOWN
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return _UNKNOWN if found is None else int(found.group(1)) * _KIB


def format_bytes(size: float) -> str:
    """Return a number of bytes as people say it.

    >>> spelled(3 * 1024**3)
    '3.0 GiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < _KIB:
            return f"{size:.1f} {unit}"
        size /= _KIB
    return f"{size:.1f} PiB"
