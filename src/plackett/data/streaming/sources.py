"""What the user names as a data set: a file, a folder, a pattern, or several of them."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from plackett.base.errors import DataError, UsageError
from plackett.data.dataset import Dataset
from plackett.data.formats import Format
from plackett.data.reading import ReadOptions, existing_format, read_part, shards_in
from plackett.data.table import Table

if TYPE_CHECKING:
    from plackett.data.letor import Progress

Source: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path, a pattern such as ``shards/*.parquet``, or several of them."""


@dataclass(frozen=True)
class Sources:
    """Files that together are one data set, in the order of their rows."""

    form: Format
    paths: tuple[Path, ...]
    name: str
    """What to call them in messages."""

    @property
    def first(self) -> Path:
        """The first of the files, or the only one."""
        return self.paths[0]


def find_sources(source: Source) -> Sources:
    """Find the files; several must be Parquet or Arrow, and are one set in the order given."""
    given = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    found = [path for each in given for path in _expanded(Path(each))]
    if not found:
        raise UsageError("no data were given.")
    forms = [existing_format(path) for path in found]
    if len(found) == 1 and forms[0] != "columns":
        return Sources(forms[0], (found[0],), str(found[0]))
    for path, form in zip(found, forms, strict=True):
        if form != "columns":
            raise UsageError(
                f"{path}: several sources make one set only if all are Parquet or Arrow files; "
                "convert it first, or give it alone."
            )
    files = [file for path in found for file in (shards_in(path) if path.is_dir() else [path])]
    _refuse_twice(files)
    name = str(found[0]) if len(found) == 1 else f"{files[0]} and {len(files) - 1} more"
    return Sources("columns", tuple(files), name)


def _refuse_twice(files: Sequence[Path]) -> None:
    """A file named twice, such as by itself and by its folder, would double its lists."""
    seen = set()
    for file in files:
        place = file.resolve()
        if place in seen:
            raise UsageError(f"{file}: is among the data twice; give each file once.")
        seen.add(place)


def _expanded(path: Path) -> list[Path]:
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    matches = sorted(Path(each) for each in glob.glob(str(path)))
    if not matches:
        raise DataError("no file matches this pattern", path=str(path))
    return matches


def read_sources(
    sources: Sources, options: ReadOptions, progress: Progress | None = None
) -> Dataset:
    """Read them into memory."""
    part: Dataset | Table
    if sources.form == "columns":
        from plackett.data.columns import read_columns

        part = read_columns(sources.paths, source=sources.name, progress=progress, **vars(options))
    else:
        part = read_part(sources.first, options, progress)
    return part if isinstance(part, Dataset) else Dataset.from_table(part, strict=options.strict)
