"""The memory-mapped format: a data set on disk that opens in milliseconds, whatever its size.

A directory ``NAME.pkdata`` holds one ``.npy`` file per array of a
:class:`~plackett.data.dataset.Dataset`, in its canonical order, and ``manifest.json``. Opening it
maps the files into memory and checks everything but the features and document ids, which the
operating system reads page by page when they are used. Nothing in it is ever executed: the arrays
are plain numbers and text, and the names of the files are fixed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, Message, Parameter
from plackett.base.files import atomic_directory
from plackett.base.ragged import Features, Rows, as_offsets
from plackett.data.canonical import dense_rows
from plackett.data.dataset import Dataset
from plackett.data.inputs import Missing, as_labels, check_names

FORMAT, VERSION = "plackett data", 1
_MANIFEST = "manifest.json"
_MINIMA = {"n_docs": 1, "n_lists": 1, "n_features": 0, "n_rows": 1}
_IDS = r"<i8|<U[1-9][0-9]{0,6}"
_IDS_IN_WORDS = "'<i8' (integers) or '<U' and a length, such as '<U12' (strings)"
_DTYPES = {
    "features": "<f4",
    "labels": "<f4",
    "offsets": "<i8",
    "query_ids": _IDS,
    "keys": "<u8",
    "rows": "<i8",
    "document_ids": _IDS,
    "weights": "<f8",
    "document_weights": "<f8",
    "groups": "<i8",
}
_OPTIONAL = {"document_ids", "weights", "document_weights", "groups"}
_PER_DOCUMENT = {"labels", "rows", "document_ids", "document_weights"}
_LAST_CODE_POINT = 0x10FFFF
_BLOCK_BYTES = 64 << 20  # of features copied at a time


@dataclass(frozen=True)
class Manifest:
    """Counts, names and files of a memory-mapped data set."""

    n_docs: int
    n_lists: int
    n_features: int
    n_rows: int
    """One more than the largest of ``rows``: at least how many rows the source had."""
    missing: str | None
    """"nan" if there are missing features."""
    feature_names: tuple[str, ...] | None
    files: dict[str, dict[str, Any]]
    """For each array its dtype and the number of bytes of its file."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape that an array must have."""
        if name == "features":
            return self.n_docs, self.n_features
        if name == "offsets":
            return (self.n_lists + 1,)
        return (self.n_docs if name in _PER_DOCUMENT else self.n_lists,)

    def write(self, directory: Path) -> None:
        """Write the manifest into the directory."""
        content = {"format": FORMAT, "version": VERSION, **asdict(self)}
        (directory / _MANIFEST).write_text(json.dumps(content, indent=1), encoding="utf-8")


def is_mapped(path: Path) -> bool:
    """Whether a directory has a manifest."""
    return (path / _MANIFEST).is_file()


def open_mapped(path: Path, *, missing: Missing = None) -> Dataset:
    """Open a memory-mapped data set; its features are not read.

    Parameters
    ----------
    path
        The directory.
    missing
        "nan" if NaN may stand for missing features; otherwise a set that has any is refused.
    """
    manifest = read_manifest(path)
    if manifest.missing == "nan" and missing is None:
        remedy = ("pass ", Parameter("missing", "nan"), " to read them as NaN.")
        raise DataError(Message("some features are missing; ", *remedy), path=str(path))
    arrays = {name: _load(path, name, manifest) for name in manifest.files}
    try:
        _check_arrays(arrays, manifest)
    except DataError as error:
        raise DataError(error.message, path=str(path)) from error
    return Dataset(feature_names=manifest.feature_names, **arrays)


def write_mapped(dataset: Dataset, target: Path) -> None:
    """Write a data set in the memory-mapped format."""
    refuse_other_directory(target)
    blocks = row_blocks(dataset.n_docs, dataset.n_features)
    with atomic_directory(target) as directory:
        write_arrays(
            directory,
            {name: getattr(dataset, name) for name in _DTYPES if name != "features"},
            (dense_rows(dataset.features, rows) for rows in blocks),
            n_features=dataset.n_features,
            feature_names=dataset.feature_names,
        )


def row_blocks(n_docs: int, n_features: int, block_bytes: int = _BLOCK_BYTES) -> Iterator[slice]:
    """Slices of rows whose features take about ``block_bytes`` as float32."""
    step = max(1, block_bytes // max(1, 4 * n_features))
    return (slice(start, min(start + step, n_docs)) for start in range(0, n_docs, step))


def refuse_other_directory(target: Path) -> None:
    """Refuse to replace something that is not a memory-mapped data set."""
    if target.exists() and not is_mapped(target):
        raise DataError(
            "exists and is not a memory-mapped data set, so it is not replaced; choose another "
            "name or remove it.",
            path=str(target),
        )


def write_arrays(
    directory: Path,
    arrays: Mapping[str, NDArray[Any] | None],
    features: Iterable[Features],
    *,
    n_features: int,
    feature_names: tuple[str, ...] | None,
) -> None:
    """Write the files of a data set into a directory.

    Parameters
    ----------
    directory
        The directory; usually the temporary one of ``atomic_directory``.
    arrays
        The arrays of the data set by name, without its features.
    features
        The features in canonical order, in blocks of any height.
    n_features, feature_names
        Of the data set.
    """
    present = {name: _plain_text(array) for name, array in arrays.items() if array is not None}
    for name, array in present.items():
        np.save(_file(directory, name), array, allow_pickle=False)
    n_docs = len(present["labels"])
    has_nan = _write_features(_file(directory, "features"), features, (n_docs, n_features))
    dtypes = {name: array.dtype.str for name, array in present.items()} | {"features": "<f4"}
    Manifest(
        n_docs=n_docs,
        n_lists=len(present["keys"]),
        n_features=n_features,
        n_rows=int(present["rows"].max()) + 1,
        missing="nan" if has_nan else None,
        feature_names=feature_names,
        files={
            name: {"dtype": dtype, "bytes": _file(directory, name).stat().st_size}
            for name, dtype in dtypes.items()
        },
    ).write(directory)


def _file(directory: Path, name: str) -> Path:
    return directory / f"{name}.npy"


def _plain_text(array: NDArray[Any]) -> NDArray[Any]:
    """Strings as narrow as the longest one; very long ids come as objects, which are text too."""
    if array.dtype.kind not in "OU":
        return array
    text = array.astype(np.str_)
    return text.astype(f"U{max(1, int(np.strings.str_len(text).max()))}")


def _write_features(path: Path, blocks: Iterable[Features], shape: tuple[int, int]) -> bool:
    """Write the features; returns whether there are missing values."""
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    has_nan = False
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            has_nan = has_nan or bool(np.isnan(block).any())
            file.write(np.ascontiguousarray(block, dtype="<f4").reshape(-1).data)
    return has_nan


def read_manifest(directory: Path) -> Manifest:
    """Read and check the manifest of a directory."""
    path = directory / _MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"not a readable manifest: {error}", path=str(path)) from error
    _require(isinstance(content, dict), "the manifest must be a JSON object", path)
    _check_version(content, path)
    for name, least in _MINIMA.items():
        count = content.get(name)
        _require(
            type(count) is int and count >= least,
            f"{name} must be a whole number, {least} or greater, got {count!r}",
            path,
        )
    _require(content.get("missing") in (None, "nan"), 'missing must be null or "nan"', path)
    return Manifest(
        **{name: content[name] for name in _MINIMA},
        missing=content.get("missing"),
        feature_names=_read_names(content.get("feature_names"), content["n_features"], path),
        files=_read_files(content.get("files"), path),
    )


def _require(holds: bool, requirement: str, path: Path) -> None:
    if not holds:
        raise DataError(f"{requirement}; the data set is damaged: write it again", path=str(path))


def _check_version(content: dict[str, Any], path: Path) -> None:
    if content.get("format") != FORMAT:
        raise DataError(f"this is not a manifest of the format {FORMAT!r}", path=str(path))
    version = content.get("version")
    if type(version) is not int or version != VERSION:
        raise DataError(
            f"the data set has version {version!r} of its format, and this release reads version "
            f"{VERSION}; write it again with this release",
            path=str(path),
        )


def _read_names(names: Any, n_features: int, path: Path) -> tuple[str, ...] | None:
    if names is None:
        return None
    is_text = isinstance(names, list) and all(isinstance(name, str) for name in names)
    _require(is_text, "feature_names must be null or a list of strings", path)
    try:
        return check_names(names, n_features)
    except DataError as error:
        raise DataError(error.message, path=str(path)) from error


def _read_files(files: Any, path: Path) -> dict[str, dict[str, Any]]:
    _require(isinstance(files, dict), "files must be an object", path)
    names = set(files)
    _require(
        names <= set(_DTYPES) and set(_DTYPES) - _OPTIONAL <= names,
        f"files must be {', '.join(_DTYPES)} (the last four optional), got {sorted(names)}",
        path,
    )
    for name, file in files.items():
        complete = isinstance(file, dict) and file.keys() == {"dtype", "bytes"}
        _require(complete, f"the file of {name} must have a dtype and bytes", path)
        dtype, size = file["dtype"], file["bytes"]
        valid = isinstance(dtype, str) and re.fullmatch(_DTYPES[name], dtype, re.ASCII)
        allowed = _IDS_IN_WORDS if _DTYPES[name] == _IDS else repr(_DTYPES[name])
        _require(bool(valid), f"the dtype of {name} must be {allowed}, got {dtype!r}", path)
        _require(
            type(size) is int and size > 0,
            f"the bytes of {name} must be a whole number, 1 or greater, got {size!r}",
            path,
        )
    return files


def _load(directory: Path, name: str, manifest: Manifest) -> NDArray[Any]:
    path = _file(directory, name)
    expected = manifest.files[name]
    try:
        size = path.stat().st_size
        mapped = np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # NumPy's header parser fails on damaged ones in many ways
        raise DataError(f"not a readable array: {error}", path=str(path)) from error
    array = np.asarray(mapped)
    if mapped.offset + array.nbytes != size:  # a damaged header may let the array begin too early
        raise DataError(
            "the array does not end where the file does; the data set is damaged: write it again",
            path=str(path),
        )
    actual = (size, array.dtype.str, array.shape, array.flags.c_contiguous)
    wanted = (expected["bytes"], expected["dtype"], manifest.shape(name), True)
    if actual != wanted:
        raise DataError(
            f"{actual[0]} bytes, {actual[1]} of shape {actual[2]}, where the manifest has "
            f"{wanted[0]} bytes, {wanted[1]} of shape {wanted[2]}; the data set is damaged: write "
            "it again",
            path=str(path),
        )
    return array


def _check_arrays(arrays: Mapping[str, NDArray[Any]], manifest: Manifest) -> None:
    as_labels(arrays["labels"], manifest.n_docs)
    offsets = as_offsets(arrays["offsets"], manifest.n_docs)
    if np.any(np.diff(offsets) == 0):
        raise DataError("a list without documents; every list has at least one.")
    _check_rows(arrays["rows"], manifest)
    ids = arrays["query_ids"]
    if ids.dtype.kind == "U" and ids.view(np.uint32).max() > _LAST_CODE_POINT:
        raise DataError("query_ids hold bytes that are not text.")
    for name in ("weights", "document_weights"):
        weights = arrays.get(name)
        if weights is not None and not np.all(np.isfinite(weights) & (weights >= 0)):
            raise DataError(f"{name} must be finite and not negative.")


def _check_rows(rows: Rows, manifest: Manifest) -> None:
    if rows.min() < 0 or rows.max() + 1 != manifest.n_rows:
        raise DataError(
            f"rows must lie from 0 to {manifest.n_rows - 1}, got {rows.min()} to {rows.max()}."
        )
    if manifest.n_rows == manifest.n_docs:
        seen = np.zeros(manifest.n_docs, np.bool_)
        seen[rows] = True
        if not seen.all():
            raise DataError("rows must all be different.")
