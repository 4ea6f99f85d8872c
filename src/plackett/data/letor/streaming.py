"""Convert LETOR text larger than memory to other formats.

The blocks of the text are parsed one by one into a scratch file, while labels and ids are kept in
memory. When the width and the types of the ids are known, the features are read back block by
block.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.files import atomic_directory, explain_full_disk
from plackett.base.ragged import Features, Ids, Labels, Rows, factorize
from plackett.data.canonical import CanonicalOrder, hash_documents, take
from plackett.data.files import ReadOptions, TwoPassProgress
from plackett.data.inputs import warn_scattered
from plackett.data.large_arrays import RowSpool
from plackett.data.letor.blocks import open_text
from plackett.data.letor.reader import NO_FEATURES, iter_tables, join_document_ids, join_ids, refuse_scattered
from plackett.data.mapped import order_arrays, refuse_other_directory, row_blocks, write_arrays

_SPOOL = "features.scratch"


@dataclass(frozen=True)
class Sizes:
    """Sizes of a converted data set."""

    n_lists: int
    n_docs: int
    n_features: int


def convert_to_mapped(
    source: Path, target: Path, options: ReadOptions, *, block_bytes: int, progress: TwoPassProgress
) -> Sizes:
    """Convert text to the memory-mapped format."""
    refuse_other_directory(target)
    with atomic_directory(target) as directory, RowSpool(directory / _SPOOL, options.absent) as spool:
        rows = _parse(source, spool, options, block_bytes, progress)
        hashes: list[NDArray[np.uint64]] = []

        def arrays() -> dict[str, NDArray[Any] | None]:
            order = CanonicalOrder.of(np.concatenate(hashes), rows.codes, len(rows.names))
            return {
                "labels": rows.labels,
                "list_of_row": rows.codes,
                "list_ids": rows.names,
                "rows": np.arange(len(rows.labels)),
                "document_ids": rows.document_ids,
                **order_arrays(order),
            }

        features = rows.iter_features(hashes, progress)
        shape = (len(rows.labels), spool.width)
        write_arrays(directory, features, arrays, shape=shape, feature_names=None)
    return rows.sizes


def convert_to_columnar(
    source: Path, target: Path, options: ReadOptions, *, block_bytes: int, progress: TwoPassProgress
) -> Sizes:
    """Convert text to Parquet or Arrow, in the order of its rows."""
    from plackett.data.columnar.writer import RowSource, write_columns  # imports pyarrow

    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as directory,
        explain_full_disk(target, Path(directory)),
        RowSpool(Path(directory) / _SPOOL, options.absent) as spool,
    ):
        rows = _parse(source, spool, options, block_bytes, progress)

        def features(start: int, stop: int) -> Features:
            progress.second(start, len(rows.labels))
            return spool.gather(np.arange(start, stop))

        write_columns(
            target,
            RowSource(
                labels=rows.labels,
                query_ids=rows.query_ids,
                document_ids=rows.document_ids,
                n_features=spool.width,
                features=features,
            ),
        )
    progress.second(1, 1)
    return rows.sizes


@dataclass(frozen=True)
class _ParsedText:
    """A text whose features are in a spool."""

    labels: Labels
    query_ids: Ids
    document_ids: Ids | None
    names: Ids
    codes: Rows
    spool: RowSpool
    block_bytes: int

    @property
    def sizes(self) -> Sizes:
        return Sizes(len(self.names), len(self.labels), self.spool.width)

    def iter_features(self, hashes: list[NDArray[np.uint64]], progress: TwoPassProgress) -> Iterator[Features]:
        """The features in blocks; appends the hashes of their documents to ``hashes``."""
        # Not hashed while parsing: missing features of columns that only later blocks have count.
        for rows in row_blocks(len(self.labels), self.spool.width, self.block_bytes):
            features = self.spool.gather(np.arange(rows.start, rows.stop))
            hashes.append(hash_documents(features, take(self.document_ids, rows)))
            yield features
            progress.second(rows.stop, len(self.labels))


def _parse(
    source: Path, spool: RowSpool, options: ReadOptions, block_bytes: int, progress: TwoPassProgress
) -> _ParsedText:
    labels: list[Labels] = []
    queries: list[Ids] = []
    documents: list[Ids | None] = []
    for table in iter_tables(
        source,
        n_features=options.n_features,
        missing=options.missing,
        block_bytes=block_bytes,
        limits=options.limits,
        progress=progress.first,
    ):
        spool.append(np.asarray(table.features))
        labels.append(table.labels)
        queries.append(table.query_ids)
        documents.append(table.document_ids)
    if spool.width == 0:
        raise DataError(NO_FEATURES, path=str(source))
    query_ids = join_ids(queries)
    names, codes, contiguous = factorize(query_ids)
    if not contiguous:
        if options.strict:
            refuse_scattered(query_ids, open_text(source))  # names the line
        warn_scattered(str(source))
    sizes = [len(part) for part in labels]
    document_ids = join_document_ids(documents, sizes)
    return _ParsedText(np.concatenate(labels), query_ids, document_ids, names, codes, spool, block_bytes)
