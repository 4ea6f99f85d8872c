"""The memory-mapped format: a data set on disk that opens in milliseconds, whatever its size.

A directory ``NAME.pkdata`` holds one ``.npy`` file per array of a :class:`~plackett.data.dataset.Dataset`, three arrays
for its canonical order, and ``manifest.json``. Opening it maps the files and checks everything but features and
document ids, which are checked before their first use (:mod:`plackett.data.large_arrays`). Nothing in it is ever
executed.

Version 3 has a CRC-32 of every 16 MiB of each file, and a hash of the manifest. Versions 1 and 2 are still read; in
version 1 the rows were in canonical order, and the features are copied into the order of the rows.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, Message, Parameter
from plackett.base.files import atomic_directory, explain_full_disk, hash_json
from plackett.base.ragged import Rows, as_offsets, factorize, list_of_document, offsets_from_sizes
from plackett.data.canonical import CanonicalOrder, dense_rows, take_rows
from plackett.data.dataset import Dataset
from plackett.data.inputs import Categories, Missing, as_labels, check_names, read_categories
from plackett.data.large_arrays import CHECKSUM_BYTES, check_before_use, check_on_first_use, release_pages, sum_blocks

FORMAT, VERSION = "plackett data", 3
_SUMMED = 3  # the first version with checksums
_MANIFEST = "manifest.json"
_MINIMA = {"n_docs": 1, "n_lists": 1, "n_features": 0, "n_rows": 1}
_IDS = r"<i8|<U[1-9][0-9]{0,6}"
_IDS_IN_WORDS = "'<i8' (integers) or '<U' and a length, such as '<U12' (strings)"
_DTYPES = {
    "features": "<f4",
    "labels": "<f4",
    "list_of_row": "<i8",
    "list_ids": _IDS,
    "rows": "<i8",
    "order_rows": "<i8",
    "order_lists": "<i8",
    "keys": "<u8",
    "document_ids": _IDS,
    "weights": "<f8",
    "document_weights": "<f8",
    "positions": "<i8",
    "groups": "<i8",
}
_ORDER = ("order_rows", "order_lists", "keys")
"""The arrays of the canonical order."""
_CHECKED_LATER = {"features", "document_ids"}
_OPTIONAL = {"document_ids", "weights", "document_weights", "positions", "groups"}
_DTYPES_1 = {"features": "<f4", "labels": "<f4", "offsets": "<i8", "query_ids": _IDS, "keys": "<u8", "rows": "<i8"}
_DTYPES_1 |= {name: dtype for name, dtype in _DTYPES.items() if name in _OPTIONAL}
_PER_DOCUMENT = {"labels", "list_of_row", "rows", "order_rows", "document_ids", "document_weights", "positions"}
_LAST_CODE_POINT = 0x10FFFF
_BLOCK_BYTES = 64 << 20  # of features copied at a time


@dataclass(frozen=True)
class Manifest:
    """Counts, names and files of a memory-mapped data set."""

    n_docs: int
    n_lists: int
    n_features: int
    n_rows: int
    """One more than the largest of ``rows``: a lower bound on the number of rows of the source."""
    missing: str | None
    """"nan" if there are missing features."""
    feature_names: tuple[str, ...] | None
    files: dict[str, dict[str, Any]]
    """For each array its dtype, the number of bytes of its file and the CRC-32 of its blocks."""
    version: int = VERSION
    categories: Categories | None = None

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape that an array must have."""
        if name == "features":
            return self.n_docs, self.n_features
        if name == "offsets":
            return (self.n_lists + 1,)
        return (self.n_docs if name in _PER_DOCUMENT else self.n_lists,)


def seal(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a manifest with its hash."""
    return content | {"sha256": hash_json(content, without=("sha256",))}


def is_mapped(path: Path) -> bool:
    """Whether a directory has a manifest."""
    return (path / _MANIFEST).is_file()


def open_mapped(path: Path, *, missing: Missing = None) -> Dataset:
    """Open a memory-mapped data set; its features are not read.

    Raises DataError for a set that has NaN, unless ``missing`` is "nan".
    """
    manifest = read_manifest(path)
    if manifest.missing == "nan" and missing is None:
        remedy = ("pass ", Parameter("missing", "nan"), " to read them as NaN.")
        raise DataError(Message("some features are missing; ", *remedy), path=str(path))
    arrays = {name: _load(path, name, manifest) for name in manifest.files}
    for name, array in arrays.items():
        sums = manifest.files[name].get("crc32")
        if sums is not None or name == "features":
            check_on_first_use(array, _file(path, name), sums, allow_nan=manifest.missing == "nan")
        if name not in _CHECKED_LATER:
            check_before_use(array)
    with _name_in_errors(path):
        if manifest.version == 1:
            arrays = _from_version_1(arrays, manifest)
        else:
            _check_arrays(arrays, manifest)
    sizes = np.bincount(arrays["list_of_row"], minlength=manifest.n_lists)
    rows, lists, keys = (arrays.pop(name) for name in _ORDER)
    order = CanonicalOrder(rows, lists, offsets_from_sizes(sizes[lists]), keys)
    names, categories = manifest.feature_names, manifest.categories
    return Dataset._make(order=order, feature_names=names, categories=categories, **arrays)


def write_mapped(dataset: Dataset, target: Path, progress: Callable[[int, int], object] | None = None) -> None:
    """Write a data set in the memory-mapped format; ``progress`` is called with the rows done and their number."""
    refuse_other_directory(target)
    with atomic_directory(target) as directory:
        has_nan = _write_features(dataset, _file(directory, "features"), progress)
        order = dataset.order
        arrays = {name: getattr(dataset, name) for name in _DTYPES if name not in ("features", *_ORDER)}
        arrays |= dict(zip(_ORDER, (order.rows, order.lists, order.keys), strict=True))
        present = {name: _plain_text(array) for name, array in arrays.items() if array is not None}
        for name, array in present.items():
            np.save(_file(directory, name), array, allow_pickle=False)
        dtypes = {name: array.dtype.str for name, array in present.items()} | {"features": "<f4"}
        manifest = Manifest(
            n_docs=dataset.n_docs,
            n_lists=dataset.n_lists,
            n_features=dataset.n_features,
            n_rows=int(dataset.rows.max()) + 1,
            missing="nan" if has_nan else None,
            feature_names=dataset.feature_names,
            categories=dataset.categories,
            files={
                name: {"dtype": dtype, "bytes": file.stat().st_size, "crc32": sum_blocks(file)}
                for name, dtype in dtypes.items()
                for file in (_file(directory, name),)
            },
        )
        content = seal({"format": FORMAT, **asdict(manifest)})
        (directory / _MANIFEST).write_text(json.dumps(content, indent=1), encoding="utf-8")


def row_blocks(n_docs: int, n_features: int, block_bytes: int = _BLOCK_BYTES) -> Iterator[slice]:
    """Slices of rows whose features take about ``block_bytes`` as float32."""
    step = max(1, block_bytes // max(1, 4 * n_features))
    return (slice(start, min(start + step, n_docs)) for start in range(0, n_docs, step))


def refuse_other_directory(target: Path) -> None:
    """Raise UsageError if the target exists and is not a memory-mapped data set."""
    if target.exists() and not is_mapped(target):
        raise DataError(
            "exists and is not a memory-mapped data set, so it is not replaced; choose another name or remove it.",
            path=str(target),
        )


def _file(directory: Path, name: str) -> Path:
    return directory / f"{name}.npy"


def _plain_text(array: NDArray[Any]) -> NDArray[Any]:
    """Strings as narrow as the longest one; very long ids come as objects, which are text too."""
    if array.dtype.kind not in "OU":
        return array
    text = array.astype(np.str_)
    return text.astype(f"U{max(1, int(np.strings.str_len(text).max()))}")


def _write_features(dataset: Dataset, path: Path, progress: Callable[[int, int], object] | None) -> bool:
    """Write the features; returns whether there are missing values."""
    shape = (dataset.n_docs, dataset.n_features)
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    has_nan = False
    needed = 4 * shape[0] * shape[1]
    with path.open("wb") as file, explain_full_disk(path.parent, path, needed):
        np.lib.format.write_array_header_1_0(file, header)
        if needed and hasattr(os, "posix_fallocate"):
            # Detect a full disk now, not after hours of writing.
            file.flush()
            os.posix_fallocate(file.fileno(), file.tell(), needed)
        for rows in row_blocks(*shape):
            block = dense_rows(dataset.features, rows)
            has_nan = has_nan or bool(np.isnan(block).any())
            file.write(np.ascontiguousarray(block, dtype="<f4").reshape(-1).data)
            release_pages(dataset.features)
            if progress is not None:
                progress(rows.stop, dataset.n_docs)
    return has_nan


def read_manifest(directory: Path) -> Manifest:
    """Read and check the manifest of a directory."""
    path = directory / _MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"not a readable manifest: {error}", path=str(path)) from error
    _require(isinstance(content, dict), "the manifest must be a JSON object", path)
    if content.get("format") != FORMAT:
        raise DataError(f"this is not a manifest of the format {FORMAT!r}", path=str(path))
    version = content.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise DataError(
            f"the data set has version {version!r} of its format, and this release reads versions "
            f"1 to {VERSION}; write it again with this release",
            path=str(path),
        )
    for name, least in _MINIMA.items():
        _require_count(content.get(name), least, name, path)
    _require(content.get("missing") in (None, "nan"), 'missing must be null or "nan"', path)
    if version >= _SUMMED:
        expected = hash_json(content, without=("sha256",))
        _require(content.get("sha256") == expected, "the hash of the manifest differs", path)
    files = _read_files(content.get("files"), version, path)
    names = content.get("feature_names")
    is_text = isinstance(names, list) and all(isinstance(name, str) for name in names)
    _require(names is None or is_text, "feature_names must be null or a list of strings", path)
    with _name_in_errors(path):
        names = check_names(names, content["n_features"])
        categories = read_categories(content.get("categories"), names or ())
    counts = {name: content[name] for name in _MINIMA}
    missing = content.get("missing")
    return Manifest(**counts, missing=missing, feature_names=names, files=files, version=version, categories=categories)


def _require(holds: bool, requirement: str, path: Path) -> None:
    if not holds:
        raise DataError(f"{requirement}; the data set is damaged: write it again", path=str(path))


def _require_count(number: Any, least: int, what: str, path: Path) -> None:
    valid = type(number) is int and number >= least
    _require(valid, f"{what} must be a whole number, {least} or greater, got {number!r}", path)


@contextmanager
def _name_in_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise DataError(error.message, path=str(path)) from error


def _read_files(files: Any, version: int, path: Path) -> dict[str, dict[str, Any]]:
    dtypes = _DTYPES_1 if version == 1 else _DTYPES
    fields = {"dtype", "bytes", *(["crc32"] if version >= _SUMMED else [])}
    _require(isinstance(files, dict), "files must be an object", path)
    names = set(files)
    _require(
        names <= set(dtypes) and set(dtypes) - _OPTIONAL <= names,
        f"files must be {', '.join(dtypes)} (the last four optional), got {sorted(names)}",
        path,
    )
    for name, file in files.items():
        complete = isinstance(file, dict) and file.keys() == fields
        _require(complete, f"the file of {name} must have {', '.join(sorted(fields))}", path)
        dtype, size = file["dtype"], file["bytes"]
        valid = isinstance(dtype, str) and re.fullmatch(dtypes[name], dtype, re.ASCII)
        allowed = _IDS_IN_WORDS if dtypes[name] == _IDS else repr(dtypes[name])
        _require(bool(valid), f"the dtype of {name} must be {allowed}, got {dtype!r}", path)
        _require_count(size, 1, f"the bytes of {name}", path)
        sums = file.get("crc32", [])
        blocks = -(-size // CHECKSUM_BYTES) if version >= _SUMMED else 0
        valid_sums = isinstance(sums, list) and all(type(s) is int for s in sums)
        _require(valid_sums and len(sums) == blocks, f"{name} must have {blocks} checksums", path)
    return files


def verify_mapped(path: Path, progress: Callable[[int, int], object] | None = None) -> bool:
    """Check all values of a data set; returns whether it has checksums."""
    manifest = read_manifest(path)
    dataset = open_mapped(path, missing="nan")
    check_before_use(dataset.document_ids)
    check_before_use(dataset.features, progress)
    return manifest.version >= _SUMMED


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
            "the array does not end where the file does; the data set is damaged: write it again", path=str(path)
        )
    actual = (size, array.dtype.str, array.shape, array.flags.c_contiguous)
    wanted = (expected["bytes"], expected["dtype"], manifest.shape(name), True)
    if actual != wanted:
        raise DataError(
            f"{actual[0]} bytes, {actual[1]} of shape {actual[2]}, where the manifest has {wanted[0]} bytes, "
            f"{wanted[1]} of shape {wanted[2]}; the data set is damaged: write it again",
            path=str(path),
        )
    return array


def _check_arrays(arrays: Mapping[str, NDArray[Any]], manifest: Manifest) -> None:
    """Check the arrays of version 2, except for the contents of features and document ids."""
    _check_values(arrays, manifest)
    lists, n_lists = arrays["list_of_row"], manifest.n_lists
    if lists.min() < 0 or lists.max() >= n_lists:
        raise DataError(f"list_of_row must lie from 0 to {n_lists - 1}.")
    if not np.array_equal(np.unique(np.maximum.accumulate(lists)), np.arange(n_lists)):
        raise DataError("list_of_row must number the lists from 0 as they first appear.")
    for name, count in (("order_rows", manifest.n_docs), ("order_lists", n_lists)):
        _check_permutation(arrays[name], count, name)
    sizes = np.bincount(lists, minlength=n_lists)[arrays["order_lists"]]
    if not np.array_equal(lists[arrays["order_rows"]], np.repeat(arrays["order_lists"], sizes)):
        raise DataError("order_rows must hold the rows of each list of order_lists together.")
    _check_text(arrays["list_ids"], "list_ids")


def _check_values(arrays: Mapping[str, NDArray[Any]], manifest: Manifest) -> None:
    as_labels(arrays["labels"], manifest.n_docs)
    rows = arrays["rows"]
    if rows.min() < 0 or rows.max() + 1 != manifest.n_rows:
        raise DataError(f"rows must lie from 0 to {manifest.n_rows - 1}, got {rows.min()} to {rows.max()}.")
    if manifest.n_rows == manifest.n_docs:
        _check_permutation(rows, manifest.n_docs, "rows")
    for name in ("weights", "document_weights"):
        weights = arrays.get(name)
        if weights is not None and not np.all(np.isfinite(weights) & (weights >= 0)):
            raise DataError(f"{name} must be finite and not negative.")
    if "positions" in arrays and arrays["positions"].min() < 1:
        raise DataError("positions must be 1 or more.")


def _check_permutation(numbers: Rows, count: int, name: str) -> None:
    seen = np.zeros(count, np.bool_)
    if numbers.min() < 0 or numbers.max() >= count:
        raise DataError(f"{name} must lie from 0 to {count - 1}.")
    seen[numbers] = True
    if not seen.all():
        raise DataError(f"{name} must all be different.")


def _check_text(ids: NDArray[Any], name: str) -> None:
    if ids.dtype.kind == "U" and ids.view(np.uint32).max() > _LAST_CODE_POINT:
        raise DataError(f"{name} hold bytes that are not text.")


def _from_version_1(arrays: Mapping[str, NDArray[Any]], manifest: Manifest) -> dict[str, NDArray[Any]]:
    """The arrays of version 2, from those of version 1, which are in canonical order."""
    _check_values(arrays, manifest)
    offsets = as_offsets(arrays["offsets"], manifest.n_docs)
    if np.any(np.diff(offsets) == 0):
        raise DataError("a list without documents; every list has at least one.")
    _check_text(arrays["query_ids"], "query_ids")
    documents = np.argsort(arrays["rows"], kind="stable")
    lists, list_of_row, _ = factorize(list_of_document(offsets)[documents])
    per_list = {"weights", "groups"}
    result = {
        name: take_rows(values, documents) if name == "features" else values[documents]
        for name, values in arrays.items()
        if name not in ("offsets", "query_ids", "keys", *per_list)
    }
    result |= {name: arrays[name][lists] for name in per_list if name in arrays}
    return result | {
        "list_of_row": list_of_row,
        "list_ids": arrays["query_ids"][lists],
        "order_rows": np.argsort(documents),
        "order_lists": np.argsort(lists),
        "keys": arrays["keys"],
    }
