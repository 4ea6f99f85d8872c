"""Whether a data set fits in memory, before it is read."""

from __future__ import annotations

import resource
from pathlib import Path

from plackett.data.formats import COMPRESSED
from plackett.data.reading import ReadOptions
from plackett.data.streaming.opening import columns_of
from plackett.data.streaming.sources import Sources

SHARE = 0.5
"""Of the memory there is that features may take; models and what they keep need the rest."""
_GROUPS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_MEMINFO = Path("/proc/meminfo")


def fits_in_memory(sources: Sources, options: ReadOptions) -> bool:
    """Whether the features take at most half of the memory there is; True if nobody knows."""
    room, needed = available_bytes(), feature_bytes(sources, options)
    return room is None or needed is None or needed <= SHARE * room


def feature_bytes(sources: Sources, options: ReadOptions) -> int | None:
    """What the features take as float32; of text, about as much as the text."""
    if sources.form == "columns":
        columns = columns_of(sources, options)
        return 4 * columns.n_docs * columns.width
    if sources.form == "letor" and sources.first.suffix.lower() not in COMPRESSED:
        return sources.first.stat().st_size
    return None


def available_bytes() -> int | None:
    """Memory that this process can still have, as far as the system says."""
    limits = [_free_bytes(), *(_number(path) for path in _GROUPS)]
    for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS):
        soft, _ = resource.getrlimit(kind)
        limits.append(None if soft == resource.RLIM_INFINITY else soft)
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def _free_bytes() -> int | None:
    try:
        lines = _MEMINFO.read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return 1024 * int(found[0]) if found else None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return None
