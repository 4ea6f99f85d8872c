"""The manifest of a memory-mapped data set: what its files must be, checked field by field."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from plackett.base.errors import DataError
from plackett.data.arrays import check_names

FORMAT, VERSION = "plackett data", 1
_MANIFEST = "manifest.json"
_COUNTS = {"n_docs": 1, "n_lists": 1, "n_features": 0, "n_rows": 1}  # and the least of each
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


def read_manifest(directory: Path) -> Manifest:
    """Read and check the manifest of a directory."""
    path = directory / _MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"not a readable manifest: {error}", path=str(path)) from error
    _require(isinstance(content, dict), "the manifest must be a JSON object", path)
    _check_version(content, path)
    for name, least in _COUNTS.items():
        count = content.get(name)
        _require(
            type(count) is int and count >= least,
            f"{name} must be a whole number, {least} or greater, got {count!r}",
            path,
        )
    _require(content.get("missing") in (None, "nan"), 'missing must be null or "nan"', path)
    return Manifest(
        **{name: content[name] for name in _COUNTS},
        missing=content.get("missing"),
        feature_names=_names(content.get("feature_names"), content["n_features"], path),
        files=_files(content.get("files"), path),
    )


def _require(holds: bool, what: str, path: Path) -> None:
    if not holds:
        raise DataError(f"{what}; the data set is damaged: make it anew", path=str(path))


def _check_version(content: dict[str, Any], path: Path) -> None:
    if content.get("format") != FORMAT:
        raise DataError(f"this is not a manifest of the format {FORMAT!r}", path=str(path))
    version = content.get("version")
    if type(version) is not int or version != VERSION:
        raise DataError(
            f"the data set has version {version!r} of its format, and this release reads version "
            f"{VERSION}; make it anew with this release",
            path=str(path),
        )


def _names(names: Any, n_features: int, path: Path) -> tuple[str, ...] | None:
    if names is None:
        return None
    text = isinstance(names, list) and all(isinstance(name, str) for name in names)
    _require(text, "feature_names must be null or a list of strings", path)
    try:
        return check_names(names, n_features)
    except DataError as error:
        raise DataError(error.message, path=str(path)) from error


def _files(files: Any, path: Path) -> dict[str, dict[str, Any]]:
    _require(isinstance(files, dict), "files must be an object", path)
    names = set(files)
    _require(
        names <= set(_DTYPES) and set(_DTYPES) - _OPTIONAL <= names,
        f"files must be {', '.join(_DTYPES)} (the last four optional), got {sorted(names)}",
        path,
    )
    for name, file in files.items():
        whole = isinstance(file, dict) and file.keys() == {"dtype", "bytes"}
        _require(whole, f"the file of {name} must have a dtype and bytes", path)
        dtype, size = file["dtype"], file["bytes"]
        known = isinstance(dtype, str) and re.fullmatch(_DTYPES[name], dtype, re.ASCII)
        allowed = _IDS_IN_WORDS if _DTYPES[name] == _IDS else repr(_DTYPES[name])
        _require(bool(known), f"the dtype of {name} must be {allowed}, got {dtype!r}", path)
        _require(
            type(size) is int and size > 0,
            f"the bytes of {name} must be a whole number, 1 or greater, got {size!r}",
            path,
        )
    return files
