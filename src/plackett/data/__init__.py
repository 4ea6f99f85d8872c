"""Ranking data: the Dataset, readers and writers, transforms, cleaning, synthetic data.

:func:`open_data` and :func:`open_data_or_folds` open any supported source of data.
"""

from plackett.data.dataset import Dataset
from plackett.data.description import Description, describe, fingerprint
from plackett.data.files import ByteProgress, DataFiles, ReadOptions, find_files
from plackett.data.folds import (
    Fold,
    concat,
    find_splits,
    fold_folders,
    group_codes,
    is_folds,
    join_folds,
    open_data_or_folds,
    read_folds,
    split,
)
from plackett.data.reader import fits_in_memory, open_data, read
from plackett.data.streaming import collect_lists, read_blocks, stream
from plackett.data.writer import convert, write

__all__ = [
    "ByteProgress",
    "DataFiles",
    "Dataset",
    "Description",
    "Fold",
    "ReadOptions",
    "collect_lists",
    "concat",
    "convert",
    "describe",
    "find_files",
    "find_splits",
    "fingerprint",
    "fits_in_memory",
    "fold_folders",
    "group_codes",
    "is_folds",
    "join_folds",
    "open_data",
    "open_data_or_folds",
    "read",
    "read_blocks",
    "read_folds",
    "split",
    "stream",
    "write",
]
