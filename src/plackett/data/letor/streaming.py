"""LETOR text into other formats, without the features ever being whole in memory.

The blocks of the text are parsed one by one into a scratch file, while labels and ids are kept.
When the width, the types of the ids and the canonical order are known, the features are gathered
from there block by block.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.files import atomic_directory
from plackett.base.ragged import Features, Ids, Labels, Rows
from plackett.data.canonical import Arrangement, arrange_hashes, hash_documents
from plackett.data.dataset import report_scattered
from plackett.data.inputs import first_appearance
from plackett.data.large_arrays import Scratch
from plackett.data.letor import iter_tables
from plackett.data.letor.blocks import open_source
from plackett.data.letor.parser import join
from plackett.data.letor.reader import refuse_returning
from plackett.data.mapped import write_arrays
from plackett.data.reader import ReadOptions
from plackett.data.writer import blocks, refuse_foreign

Report: TypeAlias = Callable[[int, int], None]
"""Called with the work done and the work in all."""

_SCRATCH = "features.scratch"


@dataclass(frozen=True)
class Streamed:
    """Sizes of what was written."""

    n_lists: int
    n_docs: int
    n_features: int


def stream_to_mapped(
    source: Path,
    target: Path,
    options: ReadOptions,
    *,
    block_bytes: int,
    reading: Report,
    writing: Report,
) -> Streamed:
    """Write the memory-mapped form of a text."""
    refuse_foreign(target)
    with atomic_directory(target) as directory, _scratch(directory, options) as scratch:
        rows = _parse(source, scratch, options, block_bytes, reading)
        plan = arrange_hashes(rows.hashes(), rows.codes, len(rows.names))
        ids = rows.document_ids
        arrays: dict[str, NDArray[Any] | None] = {
            "labels": rows.labels[plan.rows],
            "offsets": plan.offsets,
            "query_ids": rows.names[plan.lists],
            "keys": plan.keys,
            "rows": plan.rows,
            "document_ids": None if ids is None else ids[plan.rows],
        }
        features = rows.in_order(plan, writing)
        write_arrays(directory, arrays, features, n_features=scratch.width, feature_names=None)
    return rows.sizes


def stream_to_columns(
    source: Path,
    target: Path,
    options: ReadOptions,
    *,
    block_bytes: int,
    reading: Report,
    writing: Report,
) -> Streamed:
    """Write a text as Parquet or Arrow, in the order of its rows."""
    from plackett.data.columnar.writer import RowBlocks, write_columns  # imports pyarrow

    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as directory,
        _scratch(Path(directory), options) as scratch,
    ):
        rows = _parse(source, scratch, options, block_bytes, reading)

        def features(start: int, stop: int) -> Features:
            writing(start, len(rows.labels))
            return scratch.gather(np.arange(start, stop))

        blocks = RowBlocks(
            labels=rows.labels,
            query_ids=rows.query_ids,
            document_ids=rows.document_ids,
            weights=None,
            document_weights=None,
            groups=None,
            feature_names=None,
            n_features=scratch.width,
            features=features,
        )
        write_columns(target, blocks)
    writing(1, 1)
    return rows.sizes


@dataclass(frozen=True)
class _Text:
    """All of a text but its features, which are in the scratch."""

    labels: Labels
    query_ids: Ids
    document_ids: Ids | None
    names: Ids
    codes: Rows
    scratch: Scratch
    block_bytes: int

    @property
    def sizes(self) -> Streamed:
        return Streamed(len(self.names), len(self.labels), self.scratch.width)

    def blocks(self) -> Iterator[slice]:
        return blocks(len(self.labels), self.scratch.width, self.block_bytes)

    def hashes(self) -> NDArray[np.uint64]:
        # Not while parsing: missing features of columns that only later blocks have count too.
        result = np.empty(len(self.labels), np.uint64)
        for rows in self.blocks():
            features = self.scratch.gather(np.arange(rows.start, rows.stop))
            ids = None if self.document_ids is None else self.document_ids[rows]
            result[rows] = hash_documents(features, ids)
        return result

    def in_order(self, plan: Arrangement, writing: Report) -> Iterator[Features]:
        for rows in self.blocks():
            yield self.scratch.gather(plan.rows[rows])
            writing(rows.stop, len(self.labels))


def _scratch(directory: Path, options: ReadOptions) -> Scratch:
    return Scratch(directory / _SCRATCH, 0.0 if options.missing is None else float("nan"))


def _parse(
    source: Path, scratch: Scratch, options: ReadOptions, block_bytes: int, reading: Report
) -> _Text:
    labels: list[Labels] = []
    queries: list[Ids] = []
    documents: list[Ids | None] = []
    for table in iter_tables(
        source,
        n_features=options.n_features,
        missing=options.missing,
        block_bytes=block_bytes,
        progress=reading,
    ):
        scratch.append(np.asarray(table.features))
        labels.append(table.labels)
        queries.append(table.query_ids)
        documents.append(table.document_ids)
    if scratch.width == 0:
        raise DataError(
            "has no features; a line reads 'label qid:ID index:value ...'", path=str(source)
        )
    query_ids = join(queries)
    names, codes, contiguous = first_appearance(query_ids)
    if not contiguous:
        _scattered(source, query_ids, strict=options.strict)
    ids = _join_documents(documents, labels)
    return _Text(np.concatenate(labels), query_ids, ids, names, codes, scratch, block_bytes)


def _scattered(source: Path, query_ids: Ids, *, strict: bool) -> None:
    if strict:
        refuse_returning(query_ids, open_source(source))  # names the line
    report_scattered(str(source), strict=strict)


def _join_documents(documents: list[Ids | None], labels: list[Labels]) -> Ids | None:
    if all(ids is None for ids in documents):
        return None
    pairs = zip(documents, labels, strict=True)
    return join([np.zeros(len(y), "U1") if ids is None else ids for ids, y in pairs])
