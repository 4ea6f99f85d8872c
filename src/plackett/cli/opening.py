"""Data sets of any size for the commands: read into memory, or streamed where they do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from plackett.base.ragged import Scores
from plackett.cli.console import byte_progress
from plackett.data.dataset import Dataset
from plackett.data.read import ReadOptions, Sources, read_sources
from plackett.data.streaming import columns_of, fits_in_memory
from plackett.data.streaming import stream as open_streamed

Stream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream",
        help="Read features block by block, not into memory. [default: if they would not fit]",
        show_default=False,
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(help="Folder that keeps streamed features for the next time."),
]


def open_data(
    sources: Sources, options: dict[str, Any], stream: bool | None, cache: Path | None = None
) -> Dataset:
    """The data set, with its features in memory or on disk."""
    on_disk = should_stream(sources, options, stream)
    with byte_progress(f"reading {sources.first.name}") as progress:
        if on_disk:
            return open_streamed(sources.paths, cache=cache, progress=progress, **options)
        return read_sources(sources, ReadOptions(**options), progress)


def should_stream(sources: Sources, options: dict[str, Any], stream: bool | None) -> bool:
    """What the user says, or whether it is needed."""
    if stream is not None:
        return stream
    return not fits_in_memory(sources, ReadOptions(**options))


def blocks_of(sources: Sources, options: dict[str, Any]) -> Iterator[Dataset]:
    """Whole lists of Parquet or Arrow files, block by block, with a bar."""
    from plackett.data.streaming.columns import whole_lists

    chosen = ReadOptions(**options)
    with byte_progress(f"reading {sources.first.name}") as progress:
        yield from whole_lists(columns_of(sources, chosen), chosen.missing, progress)


def without_features(
    sources: Sources, options: dict[str, Any], score: Callable[[Dataset], Scores] | None = None
) -> tuple[Dataset, Scores | None]:
    """Labels and lists of Parquet or Arrow files, and scores made of their features."""
    from plackett.data.streaming.columns import without_features

    return without_features(blocks_of(sources, options), score)
