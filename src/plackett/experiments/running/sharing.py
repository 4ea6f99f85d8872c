"""Data that several processes use at once.

Each data set is written once in its memory-mapped form and opened by every worker: the operating
system keeps one copy of its pages for all of them. Sparse features have no such form and are
copied into each worker.
"""

from __future__ import annotations

import os
import pickle
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from scipy.sparse import csr_array

from plackett.data.dataset import Dataset
from plackett.data.folds import Fold
from plackett.data.mapped import open_mapped
from plackett.data.write import write
from plackett.experiments.protocols import Source

_PREFIX = ".shared-"


@dataclass(frozen=True)
class SharedSource:
    """Where the data are, and how they make up a source."""

    name: str
    whole: Path | None
    folds: tuple[tuple[str, Path, Path | None, Path], ...]

    def open(self) -> Source:
        """The data, as a worker sees them."""
        opened: dict[Path, Dataset] = {}

        def data(path: Path) -> Dataset:
            if path not in opened:
                opened[path] = _open(path)
            return opened[path]

        folds = tuple(
            Fold(name, data(train), None if validation is None else data(validation), data(test))
            for name, train, validation, test in self.folds
        )
        return Source(self.name, None if self.whole is None else data(self.whole), folds)


def share(source: Source, folder: Path) -> SharedSource:
    """Write the data sets of a source, each once, into a folder."""
    written: dict[int, Path] = {}

    def path_of(data: Dataset) -> Path:
        if id(data) not in written:
            written[id(data)] = _write(data, folder / f"data-{len(written)}")
        return written[id(data)]

    return SharedSource(
        source.name,
        None if source.whole is None else path_of(source.whole),
        tuple(
            (
                fold.name,
                path_of(fold.train),
                None if fold.validation is None else path_of(fold.validation),
                path_of(fold.test),
            )
            for fold in source.folds
        ),
    )


def _write(data: Dataset, path: Path) -> Path:
    if isinstance(data.features, csr_array):
        target = path.with_suffix(".pickle")
        target.write_bytes(pickle.dumps(data, protocol=pickle.HIGHEST_PROTOCOL))
        return target
    target = path.with_suffix(".pkdata")
    write(data, target)
    return target


def _open(path: Path) -> Dataset:
    if path.suffix == ".pickle":  # of our own making, in a folder of our own
        result: Dataset = pickle.loads(path.read_bytes())
        return result
    return open_mapped(path, missing="nan")


def scratch_in(folder: Path) -> Path:
    """A new folder for shared data; those that killed processes left behind are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    mine = f"{_PREFIX}{socket.gethostname()}-"
    for old in folder.glob(f"{mine}*"):
        if not _is_alive(old.name.removeprefix(mine)):
            shutil.rmtree(old, ignore_errors=True)
    new = folder / f"{mine}{os.getpid()}"
    new.mkdir(exist_ok=True)
    return new


def _is_alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True
