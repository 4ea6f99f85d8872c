"""One format into another."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plackett.data.dataset import Dataset
from plackett.data.formats import format_of
from plackett.data.halves import Halves
from plackett.data.reading import ReadOptions, existing_format, read_part
from plackett.data.writing import refuse_foreign, write

if TYPE_CHECKING:
    from plackett.data.letor import Progress

_BLOCK_BYTES = 64 << 20


@dataclass(frozen=True)
class ConvertReport:
    """What a conversion did."""

    n_lists: int
    n_docs: int
    n_features: int
    streamed: bool
    """True if the features were never whole in memory."""


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    block_bytes: int = _BLOCK_BYTES,
    progress: Progress | None = None,
    **options: Any,
) -> ConvertReport:
    """Write a data set in another format; the result is that of reading it and writing it.

    LETOR text is streamed into the memory-mapped form and into Parquet and Arrow, these two into
    the memory-mapped form: the features are never whole in memory, and need room in a scratch file
    beside the target instead. Other pairs are read and written.

    Parameters
    ----------
    source, target
        What to read and what to write; the suffixes say which formats.
    block_bytes
        How much LETOR text is in memory at a time.
    progress
        Called now and then with the work done and the work in all: the bytes of the source count
        twice, once read and once written.
    **options
        Those of :func:`plackett.data.reading.read`.
    """
    origin, goal = Path(source), Path(target)
    chosen = ReadOptions(**options)
    form = format_of(goal)
    halves = Halves(progress)
    if form != "letor" and origin.is_file() and format_of(origin) == "letor":
        from plackett.data.streaming.text import stream_to_columns, stream_to_mapped

        chosen.refuse_columns(origin, "LETOR text")
        stream = stream_to_mapped if form == "mapped" else stream_to_columns
        sizes = stream(
            origin,
            goal,
            chosen,
            block_bytes=block_bytes,
            reading=halves.first,
            writing=halves.second,
        )
        return ConvertReport(sizes.n_lists, sizes.n_docs, sizes.n_features, streamed=True)
    if form == "mapped" and origin.exists() and existing_format(origin) == "columns":
        return _columns_to_mapped(origin, goal, options, halves)
    part = read_part(origin, chosen, halves.first)
    dataset = part if isinstance(part, Dataset) else Dataset.from_table(part, strict=chosen.strict)
    write(dataset, goal)
    halves.second(1, 1)
    return ConvertReport(dataset.n_lists, dataset.n_docs, dataset.n_features, streamed=False)


def _columns_to_mapped(
    origin: Path, goal: Path, options: dict[str, Any], halves: Halves
) -> ConvertReport:
    from plackett.data.streaming import stream

    refuse_foreign(goal)
    goal.parent.mkdir(parents=True, exist_ok=True)
    spooled = stream(origin, scratch=goal.parent, progress=halves.first, **options)
    write(spooled, goal)
    halves.second(1, 1)
    return ConvertReport(spooled.n_lists, spooled.n_docs, spooled.n_features, streamed=True)
