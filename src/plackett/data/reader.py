"""Read a data set into memory, or open it on disk if it does not fit.

:func:`open_data` chooses between the two; :func:`read` always reads into memory;
:func:`plackett.data.streaming.stream` always leaves the features on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plackett.base.memory import available_memory
from plackett.data.dataset import Dataset
from plackett.data.files import ByteProgress, DataFiles, PathLike, PathsLike, ReadOptions, find_files
from plackett.data.inputs import Missing, Table
from plackett.data.mapped import open_mapped

if TYPE_CHECKING:
    from plackett.data.columnar.reader import ColumnarFiles


MEMORY_SHARE = 0.5
"""Share of the available memory that features may take; models need the rest."""


def open_data(
    source: PathsLike | DataFiles,
    *,
    stream: bool | None = None,
    cache: PathLike | None = None,
    progress: ByteProgress | None = None,
    **options: Any,
) -> Dataset:
    """Open a data set of any size.

    Parameters
    ----------
    source
        A file, a folder of Parquet files, a ``.pkdata`` directory, a pattern such as
        ``"shards/*.parquet"``, or several Parquet or Arrow files.
    stream
        True leaves the features on disk (:func:`plackett.stream`), False reads them into memory
        (:func:`plackett.read`). None streams if they would take more than half of the available memory.
    cache
        Folder that keeps streamed features for the next time.
    progress
        Called now and then with the bytes done and the total number of bytes.
    **options
        Those of :func:`plackett.read`.
    """
    files, read_options = find_files(source), ReadOptions(**options)
    if stream is None:
        stream = not fits_in_memory([files], read_options)
    if stream:
        from plackett.data.streaming import stream as open_stream  # imports this module

        return open_stream(files, cache=cache, progress=progress, **options)
    return read_files(files, read_options, progress)


def read(
    path: PathsLike,
    *,
    label: str | None = "label",
    query: str = "query_id",
    document: str | None = None,
    weight: str | None = None,
    features: str | Sequence[str] | None = None,
    n_features: int | None = None,
    missing: Missing = None,
    strict: bool = False,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    max_features: int | None = None,
    max_line_bytes: int | None = None,
    max_expansion: int | None = None,
    progress: ByteProgress | None = None,
) -> Dataset:
    """Read a data set into memory.

    Parameters
    ----------
    path
        LETOR text (``.txt .dat .letor .svmlight .libsvm``, also followed by ``.gz`` or ``.xz``), Parquet, Arrow
        (``.arrow .feather``: file or stream), CSV with a header (``.csv .tsv``, also followed by ``.gz``), a directory
        of Parquet files, a pattern such as ``"shards/*.parquet"``, several Parquet or Arrow files, or a ``.pkdata``
        directory, the memory-mapped format that :func:`plackett.convert` writes. ``-`` is LETOR text from standard
        input.
    label, query, document, weight
        Parquet, Arrow and CSV: the names of these columns. If the default is absent, other names are tried: ``qid`` and
        ``query``; ``relevance``, ``rel``, ``grade``, ``target`` and ``y``. Columns ``document_id`` (``docid``,
        ``doc_id``), ``weight`` and ``document_weight`` are used if they exist. A weight is the same in all rows of a
        list. ``label=None`` is for data without labels: labels are zero, and a column with one of the label names is
        not read. Files of :func:`plackett.write` record which columns are features, whatever their names.
    features
        Parquet, Arrow and CSV: the columns of features, or one column of lists. Default: the column
        ``features`` if it holds lists, else all remaining columns, in the order of the file.
    n_features
        LETOR text: the number of features, if rows omit the last ones. Other formats: it is checked.
    missing
        "nan": NaN, null and, in LETOR text, omitted features are missing values, which become
        NaN. Otherwise NaN and null are errors and omitted features are 0.
    drop
        Parquet, Arrow and CSV: columns to leave out.
    categorical
        Parquet, Arrow and CSV: columns of text or numbers that are categories. Columns of Arrow's
        dictionary type need not be named.
    strict
        Raise an error, instead of a warning, if rows of a query are not next to each other.
    max_features
        LETOR text: the largest index allowed. By default, an index that is out of proportion to the
        text raises an error: one above 65,536 and above the number of bytes of the text, or one that
        makes a matrix of more than 1 GiB and 1,000 times the text.
    max_line_bytes
        LETOR text: the longest line allowed; 64 MiB by default.
    max_expansion
        Compressed files: bytes of text per byte of the file, beyond 256 MiB; 200 by default.
    progress
        Called now and then with the bytes done and the total number of bytes.

    Examples
    --------
    >>> import plackett as pk
    >>> data = pk.read("train.parquet", label="grade", query="qid")  # doctest: +SKIP
    """
    columns = (label, query, document, weight, features, n_features, missing, strict, drop, categorical)
    options = ReadOptions(
        *columns, max_features=max_features, max_line_bytes=max_line_bytes, max_expansion=max_expansion
    )
    return read_files(find_files(path), options, progress)


def read_files(files: DataFiles, options: ReadOptions, progress: ByteProgress | None = None) -> Dataset:
    """Read the files of a data set into memory."""
    part = read_rows(files, options, progress)
    return part if isinstance(part, Dataset) else Dataset.from_table(part, strict=options.strict)


def read_rows(files: DataFiles, options: ReadOptions, progress: ByteProgress | None = None) -> Table | Dataset:
    """The rows in the order of the files, or the data set if it is stored as one."""
    if files.format == "mapped":
        return read_mapped(files.first, options)
    if files.format == "letor":
        from plackett.data.letor import read_table

        options.refuse_columns(files.first, "LETOR text")
        return read_table(
            files.first,
            n_features=options.n_features,
            missing=options.missing,
            strict=options.strict,
            limits=options,
            progress=progress,
        )
    if files.format == "csv":
        from plackett.data.columnar.reader import read_csv  # imports pyarrow

        return read_csv(files.first, options)
    from plackett.data.columnar.reader import read_columns  # imports pyarrow

    return read_columns(open_columnar(files, options), options, progress)


def read_mapped(path: Path, options: ReadOptions) -> Dataset:
    """Open a ``.pkdata`` directory; its features are read when they are used."""
    options.refuse_columns(path, "the memory-mapped format")
    dataset = open_mapped(path, missing=options.missing)
    options.check_width(dataset.n_features, str(path))
    return dataset


def open_columnar(files: DataFiles, options: ReadOptions) -> ColumnarFiles:
    """Find and check the columns of Parquet or Arrow files, without reading their rows."""
    from plackett.data.columnar.reader import open_files  # imports pyarrow

    return open_files(files.paths, options, files.name)


def fits_in_memory(sources: Sequence[DataFiles], options: ReadOptions) -> bool:
    """Whether the features take at most half of the available memory; True if it is unknown."""
    needed = 0
    for files in sources:
        if files.is_columnar:
            columns = open_columnar(files, options)
            needed += 4 * columns.n_docs * columns.n_features
        elif files.is_plain_text:  # features take about the size of the text
            needed += files.first.stat().st_size
    return needed <= MEMORY_SHARE * available_memory()
