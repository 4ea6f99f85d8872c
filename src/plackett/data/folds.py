"""Folds: read them as LETOR 3 and 4 and MSLR store them, split a data set, and join several."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from plackett.base.errors import DataError, Message, Parameter, UsageError
from plackett.base.files import hash_file
from plackett.base.ragged import Features, Rows, factorize, offsets_from_sizes, take_lists
from plackett.data.canonical import CanonicalOrder
from plackett.data.dataset import Dataset, check_dataset
from plackett.data.files import (
    SPLIT_STEMS,
    ByteProgress,
    DataFiles,
    PathLike,
    PathsLike,
    ReadOptions,
    SplitName,
    find_files,
    split_name,
)
from plackett.data.inputs import Missing, Table
from plackett.data.known import find_known, refuse_other_sizes
from plackett.data.large_arrays import allocate, is_large, iter_blocks, release_pages
from plackett.data.reader import fits_in_memory, open_data, read_rows

_FOLD = re.compile(r"fold[ _-]?(\d+)", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class Fold:
    """One split of a data set into train, validation and test.

    Examples
    --------
    >>> import plackett as pk
    >>> train, validation, test = pk.split(pk.synthetic("letor", n_lists=20), (0.6, 0.2, 0.2))
    >>> pk.Fold("mine", train, validation, test).test.n_lists
    4
    """

    name: str
    train: Dataset
    validation: Dataset | None
    test: Dataset

    @property
    def parts(self) -> dict[SplitName, Dataset]:
        """The parts that the fold has, by the names of its fields."""
        parts: dict[SplitName, Dataset | None] = {"train": self.train, "validation": self.validation, "test": self.test}
        return {name: part for name, part in parts.items() if part is not None}


def read_folds(
    path: PathLike,
    *,
    known: str | None = None,
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
    stream: bool | None = False,
    cache: PathLike | None = None,
) -> list[Fold]:
    """Read all folds of a directory.

    The directory holds ``Fold1``, ``Fold2`` ... and each of them a file ``train`` (``training``, ``trainingset``),
    ``test`` (``testset``) and perhaps ``vali`` (``valid``, ``validation``, ``validationset``, ``dev``), in any format
    that :func:`plackett.read` knows, in upper or lower case. A directory that holds such files itself is one fold.
    Files with the same content are read once and shared: in LETOR, a fold's validation set is another one's test set.
    All files must have the same features: as many, and of the same names where they have names.

    Parameters
    ----------
    path
        The directory.
    known
        The name of a public data set (:data:`plackett.data.known.KNOWN`): MSLR-WEB10K, MSLR-WEB30K, Yahoo set 1 and 2,
        Istella, Istella-S, and those of LETOR 3 and 4. If the numbers of lists, documents or features differ from the
        published ones, a DataError names the differences.
    label, query, document, weight, features, drop, categorical
        The columns of Parquet, Arrow and CSV files, as for :func:`plackett.read`.
    n_features
        The number of features. By default, text files whose rows omit features are as wide as the widest file.
    missing, strict, max_features, max_line_bytes, max_expansion
        As for :func:`plackett.read`.
    progress
        Called now and then with the bytes done and the total number of bytes.
    stream
        True leaves the features of all files on disk, as :func:`plackett.stream` does; text files
        whose rows omit the last features then need ``n_features``. None decides by size.
    cache
        Folder that keeps streamed features for the next time.

    Examples
    --------
    >>> import plackett as pk
    >>> for fold in pk.read_folds("MQ2008"):  # doctest: +SKIP
    ...     print(fold.name, fold.train.n_lists)
    """
    expected = None if known is None else find_known(known)
    prefix = "" if expected is None else expected.prefix
    if expected is not None and n_features is None:
        n_features = expected.features  # in sparse text, such as Yahoo's, a file may lack the last features
    layout = {name: find_splits(folder, prefix) for name, folder in fold_folders(Path(path)).items()}
    files = _find_copies([file for splits in layout.values() for file in splits.values()])
    columns = (label, query, document, weight, features, n_features, missing, strict, drop, categorical)
    options = ReadOptions(
        *columns, max_features=max_features, max_line_bytes=max_line_bytes, max_expansion=max_expansion
    )
    sources = {file: find_files(file) for file in sorted(set(files.values()))}
    if stream is None:
        stream = not fits_in_memory(list(sources.values()), options)
    data: dict[Path, Dataset] = {}
    if stream:
        for file, source in sources.items():
            folder = None if cache is None else Path(cache) / file.parent.name / file.name
            data[file] = open_data(source, stream=True, cache=folder, progress=progress, **vars(options))
        _common_width(data)
    else:
        data = _read_all(sources, options, progress)
    folds = []
    for name, splits in layout.items():
        parts = {split: data[files[file]] for split, file in splits.items()}
        folds.append(Fold(name, parts["train"], parts.get("validation"), parts["test"]))
    if expected is not None:
        refuse_other_sizes(expected, folds, Path(path))
    return folds


def open_data_or_folds(source: PathsLike, *, stream: bool | None = None, **options: Any) -> Dataset | list[Fold]:
    """Open any supported source of data: all folds of a directory, or one data set.

    The arguments are those of :func:`plackett.data.open_data`.
    """
    options["stream"] = stream
    sources = [source] if isinstance(source, (str, os.PathLike)) else source
    if len(sources) == 1 and is_folds(sources[0]):
        return read_folds(sources[0], **options)
    return open_data(source, **options)


def is_folds(path: PathLike) -> bool:
    """Whether a directory holds folds, or is one."""
    folder = Path(path)
    return folder.is_dir() and any(_FOLD.fullmatch(entry.name) or split_name(entry) for entry in folder.iterdir())


def fold_folders(folder: Path) -> dict[str, Path]:
    """The folders of the folds of a directory by name; one that holds the files of a fold is that fold."""
    if not folder.is_dir():
        raise DataError("is not a directory of folds", path=str(folder))
    entries = [(_FOLD.fullmatch(entry.name), entry) for entry in folder.iterdir() if entry.is_dir()]
    folds = sorted((int(match[1]), entry) for match, entry in entries if match)
    if folds:
        return {entry.name: entry for _, entry in folds}
    return {folder.resolve().name: folder}


def find_splits(folder: Path, prefix: str = "") -> dict[SplitName, Path]:
    """The files of a folder by split; with a prefix, those whose names begin with it."""
    splits: dict[SplitName, Path] = {}
    entries = sorted(folder.iterdir())
    for entry in entries:
        if not entry.name.lower().startswith(prefix):
            continue
        split = split_name(entry.with_name(entry.name[len(prefix) :]))
        if split is None:
            continue
        if split in splits:
            raise DataError(
                f"{splits[split].name} and {entry.name} could both be the {split} set; remove one.", path=str(folder)
            )
        splits[split] = entry
    required: tuple[SplitName, ...] = ("train", "test")
    for split in required:
        if split not in splits:
            present = ", ".join(entry.name for entry in entries) or "nothing"
            raise DataError(
                f"there is no {split} set: looked for {' or '.join(prefix + s for s in SPLIT_STEMS[split])} with the "
                f"suffix of a data set (.txt, .txt.gz, .parquet ...), in Fold1, Fold2 ... or here; found {present}.",
                path=str(folder),
            )
    return splits


def _find_copies(files: Sequence[Path]) -> dict[Path, Path]:
    """For each file, the first one with the same content."""
    by_size: dict[int, list[Path]] = {}
    for file in files:
        # Directories (the memory-mapped format) are not compared; no file has a negative size.
        by_size.setdefault(-1 if file.is_dir() else file.stat().st_size, []).append(file)
    result: dict[Path, Path] = {}
    for size, group in by_size.items():
        seen: dict[object, Path] = {}
        for file in group:
            key = file if size < 0 or len(group) == 1 else (hash_file(file), file.suffixes)
            result[file] = seen.setdefault(str(key), file)
    return result


def _read_all(
    sources: dict[Path, DataFiles], options: ReadOptions, progress: ByteProgress | None
) -> dict[Path, Dataset]:
    sizes = [0 if path.is_dir() else path.stat().st_size for path in sources]
    total, done = sum(sizes), 0
    parts: dict[Path, Table | Dataset] = {}
    for (path, files), size in zip(sources.items(), sizes, strict=True):

        def advance(part: int, _: int, before: int = done) -> None:
            if progress is not None:
                progress(before + part, total)

        parts[path] = read_rows(files, options, advance)
        done += size
    width = _common_width(parts)
    data: dict[Path, Dataset] = {}
    for path in list(parts):
        part = parts.pop(path)  # pop, so that a table is freed once it is padded
        if isinstance(part, Table):
            if part.n_features < width:
                wide = np.full((part.n_docs, width), options.absent, np.float32)
                wide[:, : part.n_features] = np.asarray(part.features)
                part = replace(part, features=wide)
            part = Dataset.from_table(part, strict=options.strict)
        data[path] = part
    return data


def _common_width(parts: Mapping[Path, Table | Dataset]) -> int:
    """Number of features of all files; raise DataError if complete files, or feature names, differ."""
    full = {f: p.n_features for f, p in parts.items() if isinstance(p, Dataset) or p.full_rows}
    sparse = {f: p.n_features for f, p in parts.items() if f not in full}
    if not full:
        return max(sparse.values())
    first, width = next(iter(full.items()))
    wider = sorted((file for file in sparse if sparse[file] > width), key=lambda file: -sparse[file])
    if others := [file for file in full if full[file] != width] + wider:
        text = f"{first} has {width} features and {others[0]} has {parts[others[0]].n_features}; give the number with "
        remedy = (Parameter("n_features"), " if the narrower file leaves out the last ones.")
        raise DataError(Message(text, *remedy))
    named = [(file, part.feature_names) for file, part in parts.items() if part.feature_names]
    for (one, names), (other, other_names) in pairwise(named):
        for number, (name, different) in enumerate(zip(names, other_names, strict=True), 1):
            if name != different:
                raise DataError(
                    f"{one} and {other} have different features: number {number} (counted from 1) is {name!r} in the "
                    f"first and {different!r} in the second; give the columns in one order with features=."
                )
    return width


def join_folds(folds: Sequence[Fold]) -> Dataset:
    """Join folds so that every list occurs once: the test lists of several folds, or all parts of one fold."""
    return concat([fold.test for fold in folds] if len(folds) > 1 else list(folds[0].parts.values()))


def concat(parts: Sequence[Dataset]) -> Dataset:
    """Join the rows of several data sets; lists of different parts are never merged.

    Examples
    --------
    >>> import plackett as pk
    >>> pk.concat([pk.synthetic("letor", n_lists=3, seed=0), pk.synthetic("letor", n_lists=4, seed=1)]).n_lists
    7
    """
    if not parts:
        raise DataError("there is nothing to join: no data sets were given.")
    for part in parts:
        check_dataset(part)
    first = parts[0]
    for part in parts[1:]:
        if part.n_features != first.n_features or part.feature_names != first.feature_names:
            raise DataError(
                f"the parts have different features: {first.n_features} and {part.n_features}, or other names."
            )
    if any(part.categories != first.categories for part in parts):
        parts = _share_categories(parts)
    known = all("order" in part.__dict__ for part in parts)
    return Dataset._make(
        order=_join_orders([part.order for part in parts]) if known else None,
        features=_stack(parts),
        labels=np.concatenate([part.labels for part in parts]),
        list_of_row=_join_numbers([part.list_of_row for part in parts]),
        list_ids=np.concatenate([part.list_ids for part in parts]),
        rows=_join_numbers([part.rows for part in parts]),
        document_ids=_join([part.document_ids for part in parts]),
        weights=_join([part.weights for part in parts]),
        document_weights=_join_filled(parts, "document_weights", lambda part: np.ones(part.n_docs), np.concatenate),
        positions=_join([part.positions for part in parts]),
        feature_names=first.feature_names,
        groups=_join_filled(parts, "groups", lambda part: np.arange(part.n_lists), _join_numbers),
        categories=parts[0].categories,
    )


def _share_categories(parts: Sequence[Dataset]) -> list[Dataset]:
    """The parts, their categories numbered in the same way."""
    categories = [part.categories or {} for part in parts]
    for name in dict.fromkeys(name for some in categories for name in some):
        if any(name not in some for some in categories):
            raise DataError(f"feature {name!r} holds categories in some parts and numbers in others.")
    union = {name: tuple(sorted({v for some in categories for v in some[name]})) for name in categories[0]}
    return [part.with_categories(union)._replace(order=None) for part in parts]


def split(dataset: Dataset, shares: Sequence[float] = (0.6, 0.2, 0.2), *, seed: int = 0) -> tuple[Dataset, ...]:
    """Split a data set by lists into random parts of these shares.

    Lists of one group, such as impressions of one query (``Dataset.groups``), stay together; shares
    are then those of groups.

    >>> import plackett as pk
    >>> train, validation, test = pk.split(pk.synthetic("letor", n_lists=50), (0.6, 0.2, 0.2))
    >>> train.n_lists, validation.n_lists, test.n_lists
    (30, 10, 10)
    """
    check_dataset(dataset)
    if isinstance(shares, (int, float)):
        raise DataError(f"shares are one number per part, such as (0.8, 0.2), got {shares!r}.")
    # Written so that NaN, for which comparisons are false, raises an error.
    if not (len(shares) and all(share > 0 for share in shares) and sum(shares) <= 1 + 1e-9):
        raise DataError(f"shares must be positive and add up to at most 1, got {tuple(shares)}.")
    places, count = shuffle_lists(dataset, seed=seed)
    edges = np.round(np.cumsum([0.0, *shares]) * count).astype(np.int64)
    if np.any(np.diff(edges) == 0):
        unit = "list" if dataset.groups is None else "group"
        units = f"{unit} is" if count == 1 else f"{unit}s are"
        raise DataError(f"{count} {units} too few for the shares {tuple(shares)}.")
    return tuple(dataset.select(np.flatnonzero((low <= places) & (places < high))) for low, high in pairwise(edges))


def shuffle_lists(dataset: Dataset, *, seed: int) -> tuple[Rows, int]:
    """The position of each list in a random order, and the number of positions.

    Lists of one group have the same position, so that a split by positions keeps them together.
    """
    codes = group_codes(dataset)
    count = int(codes.max()) + 1
    place = np.empty(count, np.int64)
    if not isinstance(seed, (int, np.integer)):
        raise UsageError(f"seed must be a whole number, got {seed!r}.")
    place[np.random.default_rng(seed).permutation(count)] = np.arange(count)
    return place[codes], count


def group_codes(dataset: Dataset) -> Rows:
    """The group of each list; groups are counted from 0 in the canonical order of lists."""
    order = dataset.order
    if dataset.groups is None:
        return order.restore_lists(np.arange(dataset.n_lists))
    codes = factorize(dataset.groups[order.lists])[1]  # the numbers of groups do not matter
    return order.restore_lists(codes)


def _stack(parts: Sequence[Dataset]) -> Features | csr_array:
    if any(isinstance(part.features, csr_array) for part in parts):
        return csr_array(vstack([csr_array(part.features) for part in parts]))
    large = next((part.features for part in parts if is_large(part.features)), None)
    if large is None:
        return np.concatenate([part.features for part in parts])
    out = allocate(large, (sum(part.n_docs for part in parts), parts[0].n_features))
    first = 0
    for part in parts:
        features = np.asarray(part.features)
        for rows in iter_blocks(features):
            out[first + rows.start : first + rows.stop] = features[rows]
            release_pages(out)
        first += part.n_docs
    return out


def _join_orders(orders: Sequence[CanonicalOrder]) -> CanonicalOrder:
    """The canonical order of the rows of all parts, computed without reading their features."""
    rows, lists = _join_numbers([order.rows for order in orders]), _join_numbers([order.lists for order in orders])
    keys = np.concatenate([order.keys for order in orders])
    sizes = np.concatenate([np.diff(order.offsets) for order in orders])
    by_key = np.argsort(keys, kind="stable")
    documents, offsets = take_lists(offsets_from_sizes(sizes), by_key)
    return CanonicalOrder(rows[documents], lists[by_key], offsets, keys[by_key])


def _join(columns: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
    # Only arrays that every part has can be kept.
    present = [column for column in columns if column is not None]
    return np.concatenate(present) if len(present) == len(columns) else None


def _join_filled(
    parts: Sequence[Dataset], name: str, default: Callable[[Dataset], Any], join: Callable[[list[Any]], Any]
) -> NDArray[Any] | None:
    """Join the arrays ``name``; a part without the array gets the default, unless no part has it."""
    columns = [getattr(part, name) for part in parts]
    if all(column is None for column in columns):
        return None
    return join([default(part) if values is None else values for part, values in zip(parts, columns, strict=True)])


def _join_numbers(parts: Sequence[Rows]) -> Rows:
    """Join the numbers of all parts; those of each part are shifted above the largest of the part before it."""
    shifts = np.cumsum([0, *(int(numbers.max()) + 1 for numbers in parts)])
    return np.concatenate([numbers + shift for numbers, shift in zip(parts, shifts, strict=False)])
