"""Write data sets, and convert files from one format to another."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plackett.base.errors import DataError, DataWarning
from plackett.data.canonical import dense_rows
from plackett.data.dataset import Dataset, check_dataset
from plackett.data.files import ByteProgress, PathLike, PathsLike, ReadOptions, find_files, require_format
from plackett.data.large_arrays import check_before_use
from plackett.data.mapped import refuse_other_directory, write_mapped
from plackett.data.reader import read_files
from plackett.data.streaming import TEXT_BYTES, spool


def write(dataset: Dataset, path: PathLike, *, sparse: bool = False) -> None:
    """Write a data set; the suffix of the path selects the format.

    ====================================  ==========================================================
    suffix                                format
    ====================================  ==========================================================
    .txt .dat .letor .svmlight .libsvm    LETOR text; also followed by .gz or .xz
    .parquet, .arrow .feather             ``label``, ``query_id``, ``document_id``, ``weight`` and
                                          ``document_weight`` if any, and one column per feature
    .csv .tsv                             the same columns as text; also followed by .gz
    .pkdata                               the memory-mapped format
    ====================================  ==========================================================

    All of them keep the order of the rows. A write that fails leaves no partial file. Reading the file restores:

    - the memory-mapped format: the same data set in every field. ``missing="nan"`` must be passed
      again where features are missing, as for the other formats.
    - Parquet and Arrow: labels, features and their names, ids of queries and documents with their
      type, and weights, exactly. Rows of a part of a data set are numbered from 0 again. A feature
      named like one of the other columns written (``label``, ``query_id`` ...) raises an error.
    - LETOR text: labels, features and ids, exactly, and the order of the rows. Feature names are
      not written; weights are not either, with a :class:`~plackett.base.errors.DataWarning`.
      Document ids are read as strings, and query ids as integers if all of them look like integers.

    In all of them, sparse features come back dense.

    Parameters
    ----------
    dataset
        The data set.
    path
        The file, or the directory of the memory-mapped format; replaced if it exists.
    sparse
        Leave zeros out of LETOR text. The number of features is then not certain from the text.

    Examples
    --------
    >>> import plackett as pk
    >>> pk.write(pk.synthetic("letor", n_lists=20), "train.parquet")  # doctest: +SKIP
    """
    check_dataset(dataset)
    _write(dataset, Path(path), sparse=sparse)


def _write(dataset: Dataset, target: Path, *, sparse: bool = False, progress: ByteProgress | None = None) -> None:
    format_ = require_format(target)
    check_before_use(dataset.features)
    check_before_use(dataset.document_ids)
    if format_ == "mapped":
        write_mapped(dataset, target, progress)
        return
    unique, counts = np.unique(dataset.list_ids, return_counts=True)
    if np.any(counts > 1):
        duplicate = unique[np.argmax(counts > 1)].item()
        raise DataError(
            f"{counts.max()} lists have the query id {duplicate!r}; in a file of rows they would "
            "be one list. Give them different ids, or use the memory-mapped format.",
            path=str(target),
        )
    if dataset.categories is not None and format_ in ("letor", "csv"):
        raise DataError(
            f"text cannot hold categories, and {next(iter(dataset.categories))!r} has some; write "
            ".parquet, .arrow or .pkdata.",
            path=str(target),
        )
    if format_ == "letor":
        from plackett.data.letor import write_table

        optional = {
            "weights of lists": dataset.weights,
            "weights of documents": dataset.document_weights,
            "positions": dataset.positions,
        }
        for what, values in optional.items():
            if values is not None:
                text = f"{target}: LETOR text cannot hold {what}; they are not written."
                warnings.warn(text, DataWarning, stacklevel=3)
        columns = (dense_rows(dataset.features, slice(None)), dataset.labels, dataset.query_ids, dataset.document_ids)
        write_table(target, *columns, sparse=sparse)
    else:
        from plackett.data.columnar.blocks import write_columns  # imports pyarrow

        write_columns(target, dataset, progress)


@dataclass(frozen=True)
class ConvertReport:
    """Sizes of a converted data set."""

    n_lists: int
    n_docs: int
    n_features: int
    streamed: bool
    """True if the features were never in memory as a whole."""


def convert(
    source: PathsLike,
    target: PathLike,
    *,
    block_bytes: int = TEXT_BYTES,
    progress: ByteProgress | None = None,
    **options: Any,
) -> ConvertReport:
    """Convert a data set to another format; the result is the same as reading and writing it.

    LETOR text is streamed to the memory-mapped format and to Parquet and Arrow, and these two to the
    memory-mapped format: the features are never in memory as a whole, but in a scratch file next to
    the target. For other pairs of formats, the data set is read into memory and written.

    Parameters
    ----------
    source, target
        What to read, which may be several Parquet or Arrow files, and what to write. The suffixes select the formats.
    block_bytes
        Size of the LETOR text that is in memory at a time.
    progress
        Called now and then with the work done and the total: the bytes of the source count twice,
        once read and once written.
    **options
        Those of :func:`plackett.read`.

    Examples
    --------
    >>> import plackett as pk
    >>> pk.convert("train.txt", "train.pkdata")  # doctest: +SKIP
    """
    output, read_options = Path(target), ReadOptions(**options)
    first_total = 1

    def advance(done: int, total: int) -> None:
        """Report the progress of the first pass."""
        nonlocal first_total
        first_total = total
        if progress is not None:
            progress(done, 2 * total)

    def advance_again(done: int, total: int) -> None:
        if progress is not None:
            progress(first_total + first_total * done // total, 2 * first_total)

    output_format = require_format(output)
    files = find_files(source)
    is_text = files.format == "letor"
    streamed = (is_text and output_format != "letor") or (files.is_columnar and output_format == "mapped")
    if streamed:
        if output_format == "mapped":
            refuse_other_directory(output)
        output.parent.mkdir(parents=True, exist_ok=True)
        dataset = spool(files, read_options, output.parent, advance, block_bytes)
    else:
        dataset = read_files(files, read_options, advance)
    _write(dataset, output, progress=advance_again)
    advance_again(1, 1)
    return ConvertReport(dataset.n_lists, dataset.n_docs, dataset.n_features, streamed=streamed)
