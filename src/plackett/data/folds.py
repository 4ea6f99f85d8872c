"""Data sets that come in folds, as LETOR 3 and 4, MSLR and their like do.

Several data sets made into one, and one cut into several.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.errors import DataError
from plackett.base.ragged import Features, Rows, list_of_document
from plackett.data.canonical import arrange, take_rows
from plackett.data.dataset import Dataset, Table
from plackett.data.inputs import Missing, first_appearance
from plackett.data.large_arrays import empty, is_large, iter_blocks, release_pages
from plackett.data.reader import PARTS, Part, ReadOptions, part_of, read_part

if TYPE_CHECKING:
    from plackett.data.letor import Progress


_FOLD = re.compile(r"fold[ _-]?(\d+)", re.IGNORECASE | re.ASCII)
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Fold:
    """One way to divide a data set."""

    name: str
    train: Dataset
    validation: Dataset | None
    test: Dataset


def read_folds(
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
) -> list[Fold]:
    """Read all folds of a directory.

    The directory holds ``Fold1``, ``Fold2`` ... and each of them a file ``train`` (``training``,
    ``trainingset``), ``test`` (``testset``) and perhaps ``vali`` (``valid``, ``validation``,
    ``validationset``, ``dev``), in any format that :func:`plackett.data.reader.read` knows, in
    upper or lower case. A directory that holds such files itself is one fold. Files with the same
    content are read once and shared: in LETOR, a fold's validation set is another one's test set.
    All files must have the same features: as many, and of the same names where they have names.

    Parameters
    ----------
    path
        The directory.
    label, query, document, weight, features
        The columns of Parquet and Arrow files, as for :func:`plackett.data.reader.read`.
    n_features
        The number of features. By default, text files whose rows leave features out are as wide
        as the widest file.
    missing, strict
        As for :func:`plackett.data.reader.read`.
    progress
        Called now and then with the bytes done and the bytes in all.
    """
    folder = Path(path)
    layout = {name: _parts(place) for name, place in _fold_folders(folder).items()}
    files = _distinct([file for parts in layout.values() for file in parts.values()])
    options = ReadOptions(label, query, document, weight, features, n_features, missing, strict)
    data = _read_all(sorted(set(files.values())), options, progress)
    return [
        Fold(
            name,
            train=data[files[parts["train"]]],
            validation=data[files[parts["validation"]]] if "validation" in parts else None,
            test=data[files[parts["test"]]],
        )
        for name, parts in layout.items()
    ]


def is_folds(path: str | os.PathLike[str]) -> bool:
    """Whether a directory holds folds, or is one."""
    folder = Path(path)
    return folder.is_dir() and any(
        _FOLD.fullmatch(entry.name) or part_of(entry) for entry in folder.iterdir()
    )


def _fold_folders(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise DataError("is not a directory of folds", path=str(folder))
    found = [(_FOLD.fullmatch(entry.name), entry) for entry in folder.iterdir() if entry.is_dir()]
    folds = sorted((int(match[1]), entry) for match, entry in found if match)
    if folds:
        return {entry.name: entry for _, entry in folds}
    return {folder.resolve().name: folder}


def _parts(folder: Path) -> dict[Part, Path]:
    parts: dict[Part, Path] = {}
    entries = sorted(folder.iterdir())
    for entry in entries:
        role = part_of(entry)
        if role is None:
            continue
        if role in parts:
            raise DataError(
                f"{parts[role].name} and {entry.name} could both be the {role} set; remove one.",
                path=str(folder),
            )
        parts[role] = entry
    required: tuple[Part, ...] = ("train", "test")
    for part in required:
        if part not in parts:
            found = ", ".join(entry.name for entry in entries) or "nothing"
            raise DataError(
                f"there is no {part} set: looked for {' or '.join(PARTS[part])} with the suffix of "
                "a data set (.txt, .txt.gz, .parquet ...), in Fold1, Fold2 ... or here; found "
                f"{found}.",
                path=str(folder),
            )
    return parts


def _distinct(files: Sequence[Path]) -> dict[Path, Path]:
    """For each file, the first one with the same content."""
    by_size: dict[int, list[Path]] = {}
    for file in files:
        # A directory (the memory-mapped form) stands for itself; no file has a negative size.
        by_size.setdefault(-1 if file.is_dir() else file.stat().st_size, []).append(file)
    result: dict[Path, Path] = {}
    for size, group in by_size.items():
        seen: dict[object, Path] = {}
        for file in group:
            key = file if size < 0 or len(group) == 1 else (_digest(file), file.suffixes)
            result[file] = seen.setdefault(str(key), file)
    return result


def _digest(file: Path) -> str:
    state = hashlib.blake2b()
    with file.open("rb") as content:
        while chunk := content.read(_CHUNK):
            state.update(chunk)
    return state.hexdigest()


def _read_all(
    files: Sequence[Path], options: ReadOptions, progress: Progress | None
) -> dict[Path, Dataset]:
    sizes = [0 if file.is_dir() else file.stat().st_size for file in files]
    total, done = sum(sizes), 0
    parts: dict[Path, Table | Dataset] = {}
    for file, size in zip(files, sizes, strict=True):
        before = done

        def advance(part: int, _: int, before: int = before) -> None:
            if progress is not None:
                progress(before + part, total)

        parts[file] = read_part(file, options, advance)
        done += size
    return _same_width(parts, options)


def _same_width(parts: dict[Path, Table | Dataset], options: ReadOptions) -> dict[Path, Dataset]:
    width = _common_width(parts)
    _refuse_other_names(parts)
    absent = 0.0 if options.missing is None else float("nan")
    result: dict[Path, Dataset] = {}
    for file in list(parts):
        part = parts.pop(file)  # a padded table takes the place of the one read
        if isinstance(part, Table):
            wide = replace(part, features=_padded(np.asarray(part.features), width, absent))
            part = Dataset.from_table(wide, strict=options.strict)
        result[file] = part
    return result


def _common_width(parts: dict[Path, Table | Dataset]) -> int:
    full = {f: p.n_features for f, p in parts.items() if isinstance(p, Dataset) or p.full_rows}
    sparse = {f: p.n_features for f, p in parts.items() if f not in full}
    widest = max(sparse, key=lambda f: sparse[f], default=None)
    if not full:
        assert widest is not None
        return sparse[widest]
    first = next(iter(full))
    for file, width in full.items():
        if width != full[first]:
            raise _differ(first, full[first], file, width)
    if widest is not None and sparse[widest] > full[first]:
        raise _differ(first, full[first], widest, sparse[widest])
    return full[first]


def _differ(one: Path, width: int, other: Path, other_width: int) -> DataError:
    return DataError(
        f"{one} has {width} features and {other} has {other_width}; give the number with "
        "n_features= if the narrower file leaves out the last ones."
    )


def _refuse_other_names(parts: dict[Path, Table | Dataset]) -> None:
    """Refuse files that name their features differently; those without names fit all."""
    named = [(file, part.feature_names) for file, part in parts.items() if part.feature_names]
    for (one, names), (other, others) in pairwise(named):
        for at, (name, different) in enumerate(zip(names, others, strict=True), 1):
            if name != different:
                raise DataError(
                    f"{one} and {other} have different features: number {at} (counted from 1) is "
                    f"{name!r} in the first and {different!r} in the second; give the columns in "
                    "one order with features=."
                )


def _padded(features: Features, width: int, absent: float) -> Features:
    if features.shape[1] == width:
        return features
    wide = np.full((len(features), width), absent, np.float32)
    wide[:, : features.shape[1]] = features
    return wide


def concat(parts: Sequence[Dataset]) -> Dataset:
    """All lists of several data sets; lists of different parts are never merged.

    ``rows`` of the result count through the parts one after the other.
    """
    if not parts:
        raise DataError("there is nothing to join: no data sets were given.")
    first = parts[0]
    for part in parts[1:]:
        if part.n_features != first.n_features or part.feature_names != first.feature_names:
            raise DataError(
                f"the parts have different features: {first.n_features} and {part.n_features}, or "
                "other names."
            )
    shifts = np.cumsum([0, *(part.n_lists for part in parts)])
    lists = zip(parts, shifts, strict=False)
    codes = np.concatenate([list_of_document(part.offsets) + shift for part, shift in lists])
    features = _stack(parts)
    ids = _join([part.document_ids for part in parts])
    plan = arrange(features, codes, int(shifts[-1]), ids)
    weights = _join([part.weights for part in parts])
    each, groups = _join_document_weights(parts), _join_groups(parts)
    return replace(
        first,
        features=_take(features, plan.rows),
        labels=np.concatenate([part.labels for part in parts])[plan.rows],
        offsets=plan.offsets,
        query_ids=np.concatenate([part.query_ids for part in parts])[plan.lists],
        keys=plan.keys,
        rows=_shifted_rows(parts)[plan.rows],
        document_ids=None if ids is None else ids[plan.rows],
        weights=None if weights is None else weights[plan.lists],
        document_weights=None if each is None else each[plan.rows],
        groups=None if groups is None else groups[plan.lists],
    )


def split(
    dataset: Dataset, shares: Sequence[float] = (0.6, 0.2, 0.2), *, seed: int = 0
) -> tuple[Dataset, ...]:
    """Cut a data set by lists into random parts of these shares.

    Lists of one group, such as impressions of one query (``Dataset.groups``), stay together; shares
    are then those of groups.

    >>> import plackett as pk
    >>> train, validation, test = pk.split(pk.synthetic("letor", n_lists=50), (0.6, 0.2, 0.2))
    >>> train.n_lists, validation.n_lists, test.n_lists
    (30, 10, 10)
    """
    # Written so that NaN, which compares as false, is refused.
    if not (len(shares) and all(share > 0 for share in shares) and sum(shares) <= 1 + 1e-9):
        raise DataError(f"shares must be positive and add up to at most 1, got {tuple(shares)}.")
    place, count = shuffle_lists(dataset, seed=seed)
    edges = np.round(np.cumsum([0.0, *shares]) * count).astype(np.int64)
    if np.any(np.diff(edges) == 0):
        one, several = ("list", "lists") if dataset.groups is None else ("group", "groups")
        many = f"{one} is" if count == 1 else f"{several} are"
        raise DataError(f"{count} {many} too few for the shares {tuple(shares)}.")
    return tuple(
        dataset.select(np.flatnonzero((low <= place) & (place < high)))
        for low, high in pairwise(edges)
    )


def shuffle_lists(dataset: Dataset, *, seed: int) -> tuple[Rows, int]:
    """The place of each list in a random order, and how many places there are.

    Lists of one group have the same place, so that what goes by places does not part them.
    """
    codes = group_codes(dataset)
    count = int(codes.max()) + 1
    place = np.empty(count, np.int64)
    place[np.random.default_rng(seed).permutation(count)] = np.arange(count)
    return place[codes], count


def group_codes(dataset: Dataset) -> Rows:
    """The group of each list, counted from 0 in the canonical order of lists."""
    if dataset.groups is None:
        return np.arange(dataset.n_lists)
    return first_appearance(dataset.groups)[1]  # what groups are called does not matter


def _stack(parts: Sequence[Dataset]) -> Features | csr_array:
    if any(isinstance(part.features, csr_array) for part in parts):
        return csr_array(scipy.sparse.vstack([csr_array(part.features) for part in parts]))
    large = next((part.features for part in parts if is_large(part.features)), None)
    if large is None:
        return np.concatenate([part.features for part in parts])
    out = empty(large, (sum(part.n_docs for part in parts), parts[0].n_features))
    at = 0
    for part in parts:
        features = np.asarray(part.features)
        for rows in iter_blocks(features):
            out[at + rows.start : at + rows.stop] = features[rows]
            release_pages(out)
        at += part.n_docs
    return out


def _take(features: Features | csr_array, rows: Rows) -> Features | csr_array:
    return features[rows] if isinstance(features, csr_array) else take_rows(features, rows)


def _join(columns: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
    # Only what every part has can be kept.
    present = [c for c in columns if c is not None]
    return np.concatenate(present) if len(present) == len(columns) else None


def _join_document_weights(parts: Sequence[Dataset]) -> NDArray[np.float64] | None:
    # Documents of a part without weights have the weight 1.
    if all(part.document_weights is None for part in parts):
        return None
    given = [(part.document_weights, part.n_docs) for part in parts]
    return np.concatenate([np.ones(n) if each is None else each for each, n in given])


def _join_groups(parts: Sequence[Dataset]) -> NDArray[np.int64] | None:
    # Numbers of different parts mean different things; a list of no group is one of its own.
    if all(part.groups is None for part in parts):
        return None
    given = [np.arange(p.n_lists) if p.groups is None else p.groups for p in parts]
    shifts = np.cumsum([0, *(int(each.max()) + 1 for each in given)])
    return np.concatenate([each + shift for each, shift in zip(given, shifts, strict=False)])


def _shifted_rows(parts: Sequence[Dataset]) -> Rows:
    starts = np.cumsum([0, *(part.rows.max() + 1 for part in parts)])
    return np.concatenate([p.rows + start for p, start in zip(parts, starts, strict=False)])
