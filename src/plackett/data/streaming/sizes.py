"""Whether a data set fits in memory, before it is read."""

from __future__ import annotations

from pathlib import Path

from plackett.base.memory import bytes_of, limits
from plackett.data.formats import COMPRESSED
from plackett.data.reading import ReadOptions
from plackett.data.streaming.opening import columns_of
from plackett.data.streaming.sources import Sources

SHARE = 0.5
"""Of the memory there is that features may take; models and what they keep need the rest."""
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
    free = bytes_of(_MEMINFO, "MemAvailable")
    known = [each.left for each in limits()] + ([] if free is None else [free])
    return min(known) if known else None
