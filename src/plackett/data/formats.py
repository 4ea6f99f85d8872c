"""Formats of data sets, told by the suffix of their names."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from plackett.base.errors import UsageError

Format: TypeAlias = Literal["letor", "columns", "mapped"]

LETOR = (".txt", ".dat", ".letor", ".svmlight", ".libsvm")
COMPRESSED = (".gz", ".xz")
COLUMNS = (".parquet", ".arrow", ".feather")
MAPPED = ".pkdata"


def format_of(path: Path) -> Format:
    """Format that the name of a file or directory asks for."""
    found = known_format(path)
    if found is None:
        raise UsageError(
            f"{path}: the suffix {path.suffix!r} is not that of a data set. There are LETOR text "
            f"({' '.join(LETOR)}, also with {' or '.join(COMPRESSED)} behind), Parquet and Arrow "
            f"({' '.join(COLUMNS)}) and the memory-mapped form ({MAPPED}, a directory)."
        )
    return found


def known_format(path: Path) -> Format | None:
    """Find the same, or None for other names."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    last = suffixes[-1] if suffixes else ""
    if last in COMPRESSED and len(suffixes) > 1 and suffixes[-2] in LETOR:
        return "letor"
    if last in LETOR:
        return "letor"
    if last in COLUMNS:
        return "columns"
    return "mapped" if last == MAPPED else None


def stem_of(path: Path) -> str:
    """Name without the suffixes of its format, in lower case: ``Train.txt.gz`` is ``train``."""
    name = path.name.lower()
    for suffix in (*COMPRESSED, *LETOR, *COLUMNS, MAPPED):
        name = name.removesuffix(suffix)
    return name


Part: TypeAlias = Literal["train", "validation", "test"]

PARTS: dict[Part, tuple[str, ...]] = {
    "train": ("train", "training", "trainingset"),
    "validation": ("vali", "valid", "validation", "validationset", "dev"),
    "test": ("test", "testset"),
}


def part_of(path: Path) -> Part | None:
    """Part of a fold that a file is by its name, or None."""
    if known_format(path) is None:
        return None
    stem = stem_of(path)
    return next((part for part, names in PARTS.items() if stem in names), None)
