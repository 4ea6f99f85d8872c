"""A data set on disk that opens in milliseconds, whatever its size.

A directory ``NAME.pkdata`` holds one ``.npy`` file per array of a
:class:`~plackett.data.dataset.Dataset`, in its canonical order, and ``manifest.json``. Opening it
maps the files into memory and checks everything but the features and document ids, which the
operating system reads page by page when they are used. Nothing in it is ever executed: the arrays
are plain numbers and text, and the names of the files are fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.ragged import Features, Rows, as_offsets
from plackett.data.arrays import Missing, as_labels
from plackett.data.dataset import Dataset
from plackett.data.manifest import Manifest, read_manifest

_LAST_CODE_POINT = 0x10FFFF


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
        raise DataError(
            'some features are missing; pass missing="nan" to read them as NaN.', path=str(path)
        )
    arrays = {name: _load(path, name, manifest) for name in manifest.files}
    try:
        _check(arrays, manifest)
    except DataError as error:
        raise DataError(error.message, path=str(path)) from error
    return Dataset(feature_names=manifest.feature_names, **arrays)


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
        Where; usually the temporary one of ``atomic_directory``.
    arrays
        The arrays of the data set by name, without its features.
    features
        The features in canonical order, in blocks of any height.
    n_features, feature_names
        Of the data set.
    """
    kept = {name: _plain(array) for name, array in arrays.items() if array is not None}
    for name, array in kept.items():
        np.save(_file(directory, name), array, allow_pickle=False)
    n_docs = len(kept["labels"])
    has_nan = _write_features(_file(directory, "features"), features, (n_docs, n_features))
    dtypes = {name: array.dtype.str for name, array in kept.items()} | {"features": "<f4"}
    Manifest(
        n_docs=n_docs,
        n_lists=len(kept["keys"]),
        n_features=n_features,
        n_rows=int(kept["rows"].max()) + 1,
        missing="nan" if has_nan else None,
        feature_names=feature_names,
        files={
            name: {"dtype": dtype, "bytes": _file(directory, name).stat().st_size}
            for name, dtype in dtypes.items()
        },
    ).write(directory)


def _file(directory: Path, name: str) -> Path:
    return directory / f"{name}.npy"


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Text as narrow as its longest string; very long ids come as objects, which are text too."""
    if array.dtype.kind not in "OU":
        return array
    text = array.astype(np.str_)
    return text.astype(f"U{max(1, int(np.strings.str_len(text).max()))}")


def _write_features(path: Path, blocks: Iterable[Features], shape: tuple[int, int]) -> bool:
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    has_nan = False
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            has_nan = has_nan or bool(np.isnan(block).any())
            file.write(np.ascontiguousarray(block, dtype="<f4").reshape(-1).data)
    return has_nan


def _load(directory: Path, name: str, manifest: Manifest) -> NDArray[Any]:
    path = _file(directory, name)
    expected = manifest.files[name]
    try:
        size = path.stat().st_size
        mapped = np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # the parser of a header fails on damaged ones in many ways
        raise DataError(f"not a readable array: {error}", path=str(path)) from error
    array = np.asarray(mapped)
    if mapped.offset + array.nbytes != size:  # a damaged header may let the array begin too early
        raise DataError(
            "the array does not end where the file does; the data set is damaged: make it anew",
            path=str(path),
        )
    found = (size, array.dtype.str, array.shape, array.flags.c_contiguous)
    wanted = (expected["bytes"], expected["dtype"], manifest.shape(name), True)
    if found != wanted:
        raise DataError(
            f"{found[0]} bytes, {found[1]} of shape {found[2]}, where the manifest has {wanted[0]} "
            f"bytes, {wanted[1]} of shape {wanted[2]}; the data set is damaged: make it anew",
            path=str(path),
        )
    return array


def _check(arrays: Mapping[str, NDArray[Any]], manifest: Manifest) -> None:
    as_labels(arrays["labels"], manifest.n_docs)
    offsets = as_offsets(arrays["offsets"], manifest.n_docs)
    if np.any(np.diff(offsets) == 0):
        raise DataError("a list without documents; every list has at least one.")
    _check_rows(arrays["rows"], manifest)
    ids = arrays["query_ids"]
    if ids.dtype.kind == "U" and ids.view(np.uint32).max() > _LAST_CODE_POINT:
        raise DataError("query_ids hold what is not text.")
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
