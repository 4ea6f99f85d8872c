"""Files that hold a data set: formats, ways to name them, options for reading, and limits on their size.

========  ==========================================================================
format    files
========  ==========================================================================
letor     LETOR text: .txt .dat .letor .svmlight .libsvm, also followed by .gz or .xz; ``-``
columnar  Parquet (.parquet) and Arrow (.arrow .feather), one file or several
csv       .csv and .tsv with a header, also followed by .gz
mapped    a ``.pkdata`` directory: see :mod:`plackett.data.mapped`
========  ==========================================================================

:class:`ReadLimits` keep a malicious or endless input from exhausting the machine:

=================  ==============================================================================
max_features       largest feature index of LETOR text; default: in proportion to the text
max_line_bytes     longest line of text; default 64 MiB
max_expansion      bytes of text per compressed byte, beyond the first 256 MiB; default 200
=================  ==============================================================================

Pipes and devices have no size and may never end, so only regular files are opened by name. The name ``-``
reads standard input.
"""

from __future__ import annotations

import glob
import gzip
import io
import lzma
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

from plackett.base.errors import DataError, Message, Parameter, UsageError
from plackett.base.files import require_regular
from plackett.base.memory import available_memory, format_bytes
from plackett.data.inputs import Missing
from plackett.data.mapped import is_mapped

STANDARD_INPUT = "-"
DEFAULT_LINE_BYTES = 64 << 20
DEFAULT_EXPANSION = 200
_FREE_BYTES = 256 << 20  # decompressed text that is always allowed, whatever the size of the file
_FREE_FEATURES = 1 << 16  # features that are always allowed, whatever the size of the text
_FREE_MATRIX_BYTES = 1 << 30
_MATRIX_BYTES_PER_BYTE = 1000  # matrix bytes per byte of text; a value takes about 10, so 1 in 2500 is nonzero


@dataclass(frozen=True)
class ReadLimits:
    """Limits on what reading a text may consume; None stands for the default."""

    max_features: int | None = field(default=None, kw_only=True)
    max_line_bytes: int | None = field(default=None, kw_only=True)
    max_expansion: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("max_features", "max_line_bytes", "max_expansion"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(Message(Parameter(name), f" must be positive, got {value}."))

    @property
    def line_bytes(self) -> int:
        """Longest line of text."""
        return DEFAULT_LINE_BYTES if self.max_line_bytes is None else self.max_line_bytes

    def check_line(self, length: int, path: str, *, start: int) -> None:
        """Raise DataError if a line of at least this length, starting at byte ``start``, is too long."""
        if length > self.line_bytes:
            text = (
                f"the line from byte {start:,} is longer than {self.line_bytes:,} bytes; if it is right, allow it with "
            )
            raise DataError(Message(text, Parameter("max_line_bytes", 2 * self.line_bytes)), path=path)

    def check_expansion(self, text: int, compressed: int, path: str) -> None:
        """Raise DataError if the decompressed text is out of proportion to the file."""
        ratio = DEFAULT_EXPANSION if self.max_expansion is None else self.max_expansion
        if text > max(_FREE_BYTES, ratio * compressed):
            sizes = f"{format_bytes(compressed)} of compressed data hold more than {format_bytes(text)}"
            allow = Parameter("max_expansion", max(2 * ratio, -(-text // max(compressed, 1))))
            raise DataError(Message(f"{sizes}; if that is right, allow it with ", allow), path=path)

    def excess_width(self, rows: int, width: int, text_bytes: int) -> Message | None:
        """Why a matrix of this shape is too large for a text of this size; None if it is not."""
        needed = 4 * rows * width
        if self.max_features is not None:
            if width <= self.max_features:
                return None
            return Message("is above ", Parameter("max_features", self.max_features))
        wide = width > max(_FREE_FEATURES, text_bytes)
        empty = needed > max(_FREE_MATRIX_BYTES, _MATRIX_BYTES_PER_BYTE * text_bytes)
        if not (wide or empty):
            return None
        return Message(
            f"is out of proportion to {format_bytes(text_bytes)} of text: {rows:,} rows of {width:,} features would "
            f"take {format_bytes(needed)} of memory; if it is right, allow it with ",
            Parameter("max_features", width),
            ", or give a SciPy sparse matrix to Dataset.from_arrays",
        )


DEFAULT_LIMITS = ReadLimits()


def open_binary(path: str | os.PathLike[str], limits: ReadLimits) -> LimitedFile:
    """Open a regular file, or standard input (``-``), decompressed if it ends in .gz or .xz."""
    name = os.fspath(path)
    if name == STANDARD_INPUT:
        return LimitedFile(sys.stdin.buffer, name, limits)
    require_regular(Path(name))
    source = open(name, "rb")  # noqa: SIM115 - the LimitedFile closes it
    return LimitedFile(source, name, limits)


class LimitedFile(io.RawIOBase):
    """The bytes of a file, decompressed; an error once they are out of proportion to the file."""

    def __init__(self, source: BinaryIO, path: str, limits: ReadLimits) -> None:
        self._source, self._path, self._limits = source, path, limits
        suffix = os.path.splitext(path)[1].lower()
        self._text: Any = source
        if suffix == ".gz":
            self._text = gzip.GzipFile(fileobj=source, mode="rb")
        elif suffix == ".xz":
            self._text = lzma.LZMAFile(source)  # noqa: SIM115
        self._done = 0

    @property
    def source_bytes(self) -> int:
        """Number of bytes of the file read so far; bytes of text if the file has no position."""
        return self._source.tell() if self._source.seekable() else self._done

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer."""
        count = int(self._text.readinto(buffer))
        self._done += count
        if self._text is not self._source:
            self._limits.check_expansion(self._done, self.source_bytes, self._path)
        return count

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._text is not self._source:
            self._text.close()
        if not self.closed and self._path != STANDARD_INPUT:
            self._source.close()
        super().close()


def check_memory(rows: int, width: int, path: str) -> None:
    """Raise DataError for a dense float32 matrix that does not fit in the free memory."""
    needed, free = 4 * rows * width, available_memory()
    if needed > free:
        size = f"{rows:,} rows of {width:,} features would take {format_bytes(needed)} of memory"
        remedy = (f", and {format_bytes(free)} is free; leave them on disk with ", Parameter("stream", True))
        raise DataError(Message(size, *remedy), path=path)


PathLike: TypeAlias = str | os.PathLike[str]
PathsLike: TypeAlias = PathLike | Sequence[PathLike]
"""A path, a pattern such as ``shards/*.parquet``, or several of them."""
ByteProgress: TypeAlias = Callable[[int, int], object]
"""Called with the bytes done and the total number of bytes."""

Format: TypeAlias = Literal["letor", "columnar", "csv", "mapped"]
LETOR_SUFFIXES = (".txt", ".dat", ".letor", ".svmlight", ".libsvm")
COMPRESSED_SUFFIXES = (".gz", ".xz")
COLUMNAR_SUFFIXES = (".parquet", ".arrow", ".feather")
CSV_SUFFIXES = (".csv", ".tsv")
MAPPED_SUFFIX = ".pkdata"

SplitName: TypeAlias = Literal["train", "validation", "test"]
SPLIT_STEMS: dict[SplitName, tuple[str, ...]] = {
    "train": ("train", "training", "trainingset"),
    "validation": ("vali", "valid", "validation", "validationset", "dev"),
    "test": ("test", "testset"),
}


@dataclass(frozen=True)
class ReadOptions(ReadLimits):
    """How to read files; the fields are the arguments of :func:`plackett.read`."""

    label: str | None = "label"
    query: str = "query_id"
    document: str | None = None
    weight: str | None = None
    features: str | Sequence[str] | None = None
    n_features: int | None = None
    missing: Missing = None
    strict: bool = False
    drop: Sequence[str] = ()
    categorical: Sequence[str] = ()

    @property
    def absent(self) -> float:
        """Value of a feature that a line of text omits."""
        return 0.0 if self.missing is None else float("nan")

    def check_width(self, n_features: int, path: str | None) -> None:
        """Raise DataError if the number of features differs from the given one."""
        if self.n_features not in (None, n_features):
            parameter = Parameter("n_features", self.n_features)
            raise DataError(Message(f"there are {n_features} features, and ", parameter, " was given."), path=path)

    def refuse_columns(self, path: Path, what: str) -> None:
        """Raise UsageError for options that apply only to files with named columns."""
        default = ReadOptions()
        for name in ("label", "query", "document", "weight", "features", "drop", "categorical"):
            if getattr(self, name) != getattr(default, name):
                text = f" names columns of a Parquet, Arrow or CSV file; {what} has none."
                raise UsageError(Message(f"{path}: ", Parameter(name), text))


@dataclass(frozen=True)
class DataFiles:
    """Files that together are one data set, in the order of their rows."""

    format: Format
    paths: tuple[Path, ...]
    name: str
    """The name of the data set in error messages."""

    @property
    def first(self) -> Path:
        """The first file, or the only one."""
        return self.paths[0]

    @property
    def is_plain_text(self) -> bool:
        """Whether it is LETOR text of the size of its file: neither compressed nor standard input."""
        compressed = self.first.suffix.lower() in COMPRESSED_SUFFIXES
        return self.format == "letor" and not compressed and str(self.first) != STANDARD_INPUT

    @property
    def is_columnar(self) -> bool:
        """Whether they are Parquet or Arrow files, which can be read block by block."""
        return self.format == "columnar"


def find_files(source: PathsLike | DataFiles) -> DataFiles:
    """Find the files of a data set.

    Several files must be Parquet or Arrow files; they are one data set in the order given.
    """
    if isinstance(source, DataFiles):
        return source
    sources = [source] if isinstance(source, (str, os.PathLike)) else source
    if not isinstance(sources, Sequence) or not all(isinstance(item, (str, os.PathLike)) for item in sources):
        raise UsageError(
            f"data files are given by a path or several, got {type(source).__name__}; "
            "a table in memory is Dataset(table, label=..., query=...)."
        )
    paths = [path for item in sources for path in _expand_pattern(Path(item))]
    if not paths:
        raise UsageError("no data files were given.")
    if paths == [Path(STANDARD_INPUT)]:
        return DataFiles("letor", (paths[0],), "standard input")
    formats = [find_format(path) for path in paths]
    if len(paths) == 1 and formats[0] != "columnar":
        return DataFiles(formats[0], (paths[0],), str(paths[0]))
    for path, format_ in zip(paths, formats, strict=True):
        if format_ != "columnar":
            raise UsageError(
                f"{path}: several files form one data set only if all are Parquet or Arrow files; "
                "convert this one first, or give it alone."
            )
    files = [file for path in paths for file in (list_shards(path) if path.is_dir() else [path])]
    seen: set[Path] = set()
    for file in files:
        if file.resolve() in seen:  # such as a file given directly and through its folder: lists would be duplicated
            raise UsageError(f"{file}: is among the data twice; give each file once.")
        seen.add(file.resolve())
    name = str(paths[0]) if len(paths) == 1 else f"{files[0]} and {len(files) - 1} more"
    return DataFiles("columnar", tuple(files), name)


def _expand_pattern(path: Path) -> list[Path]:
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    matches = sorted(Path(match) for match in glob.glob(str(path)))
    if not matches:
        raise DataError("no file matches this pattern", path=str(path))
    return matches


def list_shards(folder: Path) -> list[Path]:
    """The Parquet files of a folder, sorted by name."""
    # Writers of shards create other files whose names start with a dot or an underscore.
    files = [file for file in folder.iterdir() if not file.name.startswith((".", "_"))]
    return sorted(file for file in files if file.suffix.lower() == ".parquet")


def find_format(path: Path) -> Format:
    """Format of an existing file or directory; an error if it is not a data set."""
    if not path.exists():
        raise DataError("there is no such file or directory", path=str(path))
    if path.is_dir():
        if is_mapped(path):
            return "mapped"
        shards = list_shards(path)
        if any(split_name(file) == "test" for file in shards):
            raise DataError("this directory is a fold; read it with read_folds.", path=str(path))
        if shards:
            return "columnar"
        raise DataError(
            "this directory holds no data set: neither a manifest.json (the memory-mapped format) "
            "nor .parquet files, nor folds (Fold1/train.txt ..., which read_folds reads).",
            path=str(path),
        )
    require_regular(path)
    format_ = require_format(path)
    if format_ == "mapped":
        raise DataError("the memory-mapped format is a directory, and this is a file", path=str(path))
    return format_


def require_format(path: Path) -> Format:
    """Format that the suffix of a path asks for; an error if it is unknown."""
    format_ = detect_format(path)
    if format_ is None:
        raise UsageError(
            f"{path}: the suffix {path.suffix!r} is not that of a data set. Supported are LETOR "
            f"text ({' '.join(LETOR_SUFFIXES)}, also followed by {' or '.join(COMPRESSED_SUFFIXES)}"
            f"), Parquet and Arrow ({' '.join(COLUMNAR_SUFFIXES)}), CSV ({' '.join(CSV_SUFFIXES)}, "
            f"also followed by .gz) and the memory-mapped format ({MAPPED_SUFFIX}, a directory)."
        )
    return format_


def detect_format(path: Path) -> Format | None:
    """Format that the suffix of a path asks for, or None if it is unknown."""
    before, last = (["", ""] + [suffix.lower() for suffix in path.suffixes])[-2:]
    if last in LETOR_SUFFIXES or (last in COMPRESSED_SUFFIXES and before in LETOR_SUFFIXES):
        return "letor"
    if last in CSV_SUFFIXES or (last == ".gz" and before in CSV_SUFFIXES):
        return "csv"
    if last in COLUMNAR_SUFFIXES:
        return "columnar"
    return "mapped" if last == MAPPED_SUFFIX else None


def split_name(path: Path) -> SplitName | None:
    """The split of a fold that the name of a file denotes (``Train.txt.gz``: train), or None."""
    if detect_format(path) is None:
        return None
    stem = path.name.lower()
    suffixes = (*LETOR_SUFFIXES, *CSV_SUFFIXES, *COLUMNAR_SUFFIXES, MAPPED_SUFFIX)
    for suffix in (*COMPRESSED_SUFFIXES, *suffixes):
        stem = stem.removesuffix(suffix)
    return next((split for split, stems in SPLIT_STEMS.items() if stem in stems), None)
