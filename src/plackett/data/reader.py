"""Read a data set from any of the formats, told by the suffix.

Formats of data sets, told by the suffix of their names.

What the user names as a data set: a file, a folder, a pattern, or several of them.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from plackett.base.errors import DataError, UsageError
from plackett.data.dataset import Dataset, Table
from plackett.data.inputs import Missing
from plackett.data.mapped import is_mapped, open_mapped

if TYPE_CHECKING:
    from plackett.data.letor import Progress


Format: TypeAlias = Literal["letor", "columns", "mapped"]

LETOR = (".txt", ".dat", ".letor", ".svmlight", ".libsvm")
COMPRESSED = (".gz", ".xz")
COLUMNS = (".parquet", ".arrow", ".feather")
MAPPED = ".pkdata"


def require_format(path: Path) -> Format:
    """Format that the name of a file or directory asks for."""
    found = detect_format(path)
    if found is None:
        raise UsageError(
            f"{path}: the suffix {path.suffix!r} is not that of a data set. There are LETOR text "
            f"({' '.join(LETOR)}, also with {' or '.join(COMPRESSED)} behind), Parquet and Arrow "
            f"({' '.join(COLUMNS)}) and the memory-mapped form ({MAPPED}, a directory)."
        )
    return found


def detect_format(path: Path) -> Format | None:
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
    if detect_format(path) is None:
        return None
    stem = stem_of(path)
    return next((part for part, names in PARTS.items() if stem in names), None)


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file; the fields are the arguments of :func:`read`."""

    label: str | None = "label"
    query: str = "query_id"
    document: str | None = None
    weight: str | None = None
    features: str | Sequence[str] | None = None
    n_features: int | None = None
    missing: Missing = None
    strict: bool = False

    def refuse_columns(self, path: Path, form: str) -> None:
        """Refuse options that only tables have."""
        standard = ReadOptions()
        for name in ("label", "query", "document", "weight", "features"):
            if getattr(self, name) != getattr(standard, name):
                raise UsageError(
                    f"{path}: {name}= names a column of a Parquet or Arrow file; {form} has none."
                )


def read(
    path: str | os.PathLike[str],
    *,
    label: str | None = "label",
    query: str = "query_id",
    document: str | None = None,
    weight: str | None = None,
    features: str | Sequence[str] | None = None,
    n_features: int | None = None,
    missing: Missing = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> Dataset:
    """Read a data set.

    Parameters
    ----------
    path
        LETOR text (``.txt .dat .letor .svmlight .libsvm``, also with ``.gz`` or ``.xz`` behind),
        Parquet, Arrow (``.arrow .feather``: file or stream), a directory of Parquet files, which is
        read as one set in the order of their names, or a directory in the memory-mapped form
        (:func:`plackett.data.writer.convert` makes one).
    label, query, document, weight
        Parquet and Arrow: the names of these columns. Where the default is absent, ``qid`` and
        ``query``, ``relevance``, ``rel``, ``grade``, ``target`` and ``y`` are tried. Columns
        ``document_id`` (``docid``, ``doc_id``), ``weight`` and ``document_weight`` are used where
        they occur. A weight is the same in all rows of a list. ``label=None`` for data without
        labels: they are zero, and a column with one of the names of labels is not read. Files of
        :func:`plackett.data.writer.write` note which columns are features, whatever their names.
    features
        Parquet and Arrow: the columns of features, or one column of lists. Default: the column
        ``features`` if it holds lists, else all columns that are left, in the order of the file.
    n_features
        LETOR text: the number of features, where rows leave out the last ones. Other formats: it is
        checked.
    missing
        "nan": NaN, null and, in LETOR text, features left out are missing values, which become
        NaN. Otherwise NaN and null are errors and features left out are 0.
    strict
        Refuse rows of a query that are not next to each other instead of warning.
    progress
        Called now and then with the bytes done and the bytes in all.
    """
    options = ReadOptions(label, query, document, weight, features, n_features, missing, strict)
    part = read_part(Path(path), options, progress)
    return part if isinstance(part, Dataset) else Dataset.from_table(part, strict=strict)


def read_part(
    path: Path, options: ReadOptions, progress: Progress | None = None
) -> Table | Dataset:
    """Rows of a file in their order, or the data set where it is stored as one."""
    form = existing_format(path)
    if form == "mapped":
        return _read_mapped(path, options)
    if form == "letor":
        from plackett.data.letor import read_table

        options.refuse_columns(path, "LETOR text")
        return read_table(
            path,
            n_features=options.n_features,
            missing=options.missing,
            strict=options.strict,
            progress=progress,
        )
    return _read_columns(path, options, progress)


def existing_format(path: Path) -> Format:
    """Format of what is there; refuses what is no data set."""
    if not path.exists():
        raise DataError("there is no such file or directory", path=str(path))
    if path.is_dir():
        if is_mapped(path):
            return "mapped"
        files = shards_in(path)
        if any(part_of(file) == "test" for file in files):
            raise DataError("this directory is a fold; read it with read_folds.", path=str(path))
        if files:
            return "columns"
        raise DataError(
            "this directory has neither a manifest.json (the memory-mapped form) nor .parquet "
            "files; for a directory of folds use read_folds.",
            path=str(path),
        )
    form = require_format(path)
    if form == "mapped":
        raise DataError("the memory-mapped form is a directory, and this is a file", path=str(path))
    return form


def shards_in(path: Path) -> list[Path]:
    """The Parquet files of a folder, in the order of their names."""
    # Writers of shards leave other files with a dot or an underscore in front.
    files = [file for file in path.iterdir() if not file.name.startswith((".", "_"))]
    return sorted(file for file in files if file.suffix.lower() == ".parquet")


def _read_mapped(path: Path, options: ReadOptions) -> Dataset:
    options.refuse_columns(path, "the memory-mapped form")
    dataset = open_mapped(path, missing=options.missing)
    if options.n_features not in (None, dataset.n_features):
        raise DataError(
            f"there are {dataset.n_features} features, and n_features={options.n_features} was "
            "given.",
            path=str(path),
        )
    return dataset


def _read_columns(path: Path, options: ReadOptions, progress: Progress | None) -> Table:
    from plackett.data.columnar.reader import (
        read_columns,  # imports pyarrow, which others do without
    )

    return read_columns(
        shards_in(path) if path.is_dir() else [path],
        label=options.label,
        query=options.query,
        document=options.document,
        weight=options.weight,
        features=options.features,
        n_features=options.n_features,
        missing=options.missing,
        strict=options.strict,
        source=str(path),
        progress=progress,
    )


Source: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path, a pattern such as ``shards/*.parquet``, or several of them."""


@dataclass(frozen=True)
class DataFiles:
    """Files that together are one data set, in the order of their rows."""

    form: Format
    paths: tuple[Path, ...]
    name: str
    """What to call them in messages."""

    @property
    def first(self) -> Path:
        """The first of the files, or the only one."""
        return self.paths[0]


def find_files(source: Source) -> DataFiles:
    """Find the files; several must be Parquet or Arrow, and are one set in the order given."""
    given = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    found = [path for each in given for path in _expanded(Path(each))]
    if not found:
        raise UsageError("no data were given.")
    forms = [existing_format(path) for path in found]
    if len(found) == 1 and forms[0] != "columns":
        return DataFiles(forms[0], (found[0],), str(found[0]))
    for path, form in zip(found, forms, strict=True):
        if form != "columns":
            raise UsageError(
                f"{path}: several sources make one set only if all are Parquet or Arrow files; "
                "convert it first, or give it alone."
            )
    files = [file for path in found for file in (shards_in(path) if path.is_dir() else [path])]
    _refuse_twice(files)
    name = str(found[0]) if len(found) == 1 else f"{files[0]} and {len(files) - 1} more"
    return DataFiles("columns", tuple(files), name)


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


def read_files(
    sources: DataFiles, options: ReadOptions, progress: Progress | None = None
) -> Dataset:
    """Read them into memory."""
    part: Dataset | Table
    if sources.form == "columns":
        from plackett.data.columnar.reader import read_columns

        part = read_columns(sources.paths, source=sources.name, progress=progress, **vars(options))
    else:
        part = read_part(sources.first, options, progress)
    return part if isinstance(part, Dataset) else Dataset.from_table(part, strict=options.strict)
