"""Which of the papers' data sets are in a folder, as they were unpacked, and how to read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from plackett.base.errors import DataError
from plackett.data.dataset import Dataset
from plackett.data.folds import Fold, is_folds, read_folds
from plackett.data.read import read
from plackett.experiments.papers.sets import SETS, KnownSet
from plackett.experiments.protocols import Source
from plackett.experiments.protocols.source import parts_of

View = Literal["first", "all"]
"""The first fold, which holds the whole set as train, validation and test; or all of them."""
Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""

_DEPTH = 5
"""Folders below the given one that are looked into: archives nest."""
_FOLD = re.compile(r"fold[ _-]?(\d+)", re.IGNORECASE | re.ASCII)
_YAHOO = {"train": "set1.train", "validation": "set1.valid", "test": "set1.test"}
_YAHOO_FEATURES = 700
"""Features are numbered up to 700; set 1 uses 519 of them."""
_PREFERRED = "querylevelnorm"
"""LETOR 3 comes in several forms; the papers learn from features scaled within queries."""


@dataclass(frozen=True)
class Place:
    """Where a data set lies."""

    known: KnownSet
    path: Path


def find_sets(folder: Path) -> dict[str, Place]:
    """The papers' data sets in a folder and the folders in it, by name.

    A set is told by the name of its folder (``MSLR-WEB30K``, ``2003_hp_dataset`` ...), Yahoo's
    also by the names of its files. Of several copies the one with features scaled within queries
    is taken, then the one whose name fits better, then the one that lies higher.
    """
    if not folder.is_dir():
        raise DataError(
            "is not a folder; --data takes the one with the data sets", path=str(folder)
        )
    best: dict[str, tuple[tuple[int, int, int, str], Place]] = {}
    for place in _data_folders(folder, _DEPTH):
        names = [_plain(part) for part in (place.name, *_above(place))]
        for known in SETS.values():
            exact = any(name in known.folders for name in names)
            near = any(name.startswith(own) for name in names for own in known.folders)
            if not (exact or near or (known.name.startswith("Yahoo") and _is_yahoo(place))):
                continue
            rank = (_PREFERRED not in names, not exact, len(place.parts), str(place))
            if known.name not in best or rank < best[known.name][0]:
                best[known.name] = (rank, Place(known, place))
    return {name: best[name][1] for name in SETS if name in best}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _above(place: Path) -> list[str]:
    """Names of the folders around it, the nearest first; farther ones say nothing of it."""
    return [parent.name for parent in place.resolve().parents][:2]


def _data_folders(folder: Path, depth: int) -> Iterator[Path]:
    """Folders that hold folds, or the files of one."""
    if is_folds(folder) or _is_yahoo(folder):
        yield folder
        return
    if depth == 0:
        return
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and not entry.name.startswith("."):
            yield from _data_folders(entry, depth - 1)


def _yahoo_files(folder: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        for part, stem in _YAHOO.items():
            if entry.name.lower().startswith(stem + "."):
                found.setdefault(part, entry)
    return found


def _is_yahoo(folder: Path) -> bool:
    return len(_yahoo_files(folder)) == len(_YAHOO)


def load(place: Place, view: View, progress: Progress | None = None) -> Source:
    """Read a data set that was found."""
    if _is_yahoo(place.path):
        return Source(place.known.name, folds=(_read_yahoo(place.path, progress),))
    path = place.path if view == "all" else _first_fold(place.path)
    return Source(place.known.name, folds=tuple(read_folds(path, progress=progress)))


def _first_fold(path: Path) -> Path:
    folds = {int(m[1]): e for e in path.iterdir() if e.is_dir() and (m := _FOLD.fullmatch(e.name))}
    return folds[min(folds)] if folds else path


def _read_yahoo(folder: Path, progress: Progress | None) -> Fold:
    files = _yahoo_files(folder)
    parts = {
        part: read(file, n_features=_YAHOO_FEATURES, progress=progress)
        for part, file in files.items()
    }
    return Fold("set 1", parts["train"], parts["validation"], parts["test"])


def sizes(source: Source) -> tuple[int, int]:
    """Lists and documents of the whole set, each once."""
    parts = _once(source.folds)
    return sum(part.n_lists for part in parts), sum(part.n_docs for part in parts)


def _once(folds: Sequence[Fold]) -> list[Dataset]:
    if len(folds) > 1:
        return [fold.test for fold in folds]
    return [part for part in parts_of(folds[0]) if part is not None]


def compared_with_published(known: KnownSet, source: Source) -> str:
    """Whether the data are those of the papers, in a sentence."""
    lists, documents = sizes(source)
    text = f"{known.name}: {lists:,} lists, {documents:,} documents"
    if (lists, documents) == (known.lists, known.documents):
        return f"{text}, as published."
    return (
        f"{text}, where {known.lists:,} and {known.documents:,} are published: the paper's numbers "
        "do not apply to these data; comparisons between our own do."
    )
