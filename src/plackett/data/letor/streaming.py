"""LETOR text larger than memory: its features are parsed, block by block, into a scratch file."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from plackett.base.errors import DataError
from plackett.base.ragged import Features
from plackett.data.dataset import Dataset
from plackett.data.files import ByteProgress, ReadOptions
from plackett.data.inputs import Table
from plackett.data.large_arrays import explain_no_space, map_scratch, open_scratch, release_pages, scratch_array
from plackett.data.letor.blocks import open_text
from plackett.data.letor.reader import NO_FEATURES, iter_tables, join_columns, refuse_scattered


def spool(
    source: Path, options: ReadOptions, folder: Path, *, block_bytes: int, progress: ByteProgress | None = None
) -> Dataset:
    """The data set that reading the text gives, with its features in a scratch file in ``folder``."""
    parts: list[Table] = []
    with open_scratch(folder) as file:
        for table in iter_tables(
            source,
            n_features=options.n_features,
            missing=options.missing,
            block_bytes=block_bytes,
            limits=options,
            progress=progress,
        ):
            with explain_no_space(file):
                file.write(np.asarray(table.features).reshape(-1).data)
                file.flush()
            parts.append(replace(table, features=np.empty((0, table.n_features), np.float32)))
        width = max(part.n_features for part in parts)
        if width == 0:
            raise DataError(NO_FEATURES, path=str(source))
        sizes = [part.n_docs * part.n_features for part in parts]
        features = map_scratch(file, (sum(sizes),), np.float32)
    if all(part.n_features == width for part in parts):
        features = features.reshape(-1, width)
    else:
        features = _widen(
            features, parts, scratch_array(folder, (sum(p.n_docs for p in parts), width), np.float32), options.absent
        )
    table = join_columns(parts, features, str(source))
    if options.strict:
        refuse_scattered(table.query_ids, open_text(source))  # names the line
    return Dataset.from_table(table)


def _widen(values: Features, parts: Sequence[Table], out: Features, absent: float) -> Features:
    """Copy the features of parts of different widths into rows as wide as the widest part."""
    start = row = 0
    for part in parts:
        rows, size = out[row : row + part.n_docs], part.n_docs * part.n_features
        rows[:, : part.n_features] = values[start : start + size].reshape(part.n_docs, part.n_features)
        rows[:, part.n_features :] = absent
        start, row = start + size, row + part.n_docs
        release_pages(values)
        release_pages(out)
    return out
