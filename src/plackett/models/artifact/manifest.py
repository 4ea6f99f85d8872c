"""What stands in ``manifest.json``: what the model is, what made it, which files it has."""

from __future__ import annotations

import hashlib
import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plackett._version import __version__
from plackett.base.errors import DataError
from plackett.models.artifact.settings import encode_all

if TYPE_CHECKING:
    from plackett.models.ranker import Ranker

FORMAT = "plackett model"
VERSION = 1
NAME = "manifest.json"
_MAX_BYTES = 64 << 20
# Plain names below the folder: nothing that begins with a dot, so no way out of it.
_FILE = re.compile(r"[A-Za-z0-9_-][\w.-]*(/[A-Za-z0-9_-][\w.-]*)*", re.ASCII)
_LIBRARIES = ("numpy", "numba", "lightgbm", "torch")


def describe(ranker: Ranker, folder: Path) -> dict[str, Any]:
    """The manifest of a fitted ranker whose native files are in ``folder``."""
    transform = ranker.transform_
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": type(ranker).__name__,
        "recipe": ranker.recipe_name,
        "settings": encode_all(ranker),
        **_state_of_module(ranker),
        "features": {
            "count": ranker.n_features_,
            "names": None if ranker.feature_names_ is None else list(ranker.feature_names_),
        },
        "transform": None if transform is None else transform.to_dict(),
        "training": ranker.training_,
        "libraries": {"plackett": __version__, **versions(ranker.libraries)},
        "files": {
            path.relative_to(folder).as_posix(): _sum(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        },
    }


def _state_of_module(ranker: Ranker) -> dict[str, Any]:
    """For nets that are modules of the user's own: what a module must hold to take the weights."""
    from plackett.models.neural.net import Net

    if not isinstance(ranker, Net) or ranker.module is None:
        return {}
    from plackett.models.neural.identity import state_entry

    return {"module": {"state": state_entry(ranker.networks_[0])}}


def is_model(folder: Path) -> bool:
    """Whether a folder holds a model and nothing else, so that another may take its place."""
    try:
        data = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        return False
    listed = {NAME, *(data["files"] if isinstance(data.get("files"), dict) else ())}
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}
    return there <= listed


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder, with its format, its version and the sums of its files checked."""
    path = folder / NAME
    if not path.is_file():
        what = "is no model" if folder.exists() else "does not exist"
        raise DataError(f"{what}; a model is a folder with a {NAME}", path=str(folder))
    if path.stat().st_size > _MAX_BYTES:
        raise DataError(f"is larger than {_MAX_BYTES >> 20} MB", path=str(path))
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"is not JSON: {error}", path=str(path)) from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise DataError(f'does not begin with "format": "{FORMAT}"', path=str(path))
    if type(data.get("version")) is not int or not 1 <= data["version"] <= VERSION:
        raise DataError(
            f"is of version {data.get('version')!r}; this plackett reads 1 to {VERSION}: use a "
            "newer one",
            path=str(path),
        )
    _check_files(folder, data.get("files"), path)
    return data


def _check_files(folder: Path, files: Any, manifest: Path) -> None:
    if not isinstance(files, dict):
        raise DataError('"files" must map names to sums', path=str(manifest))
    for name, expected in files.items():
        if not _FILE.fullmatch(name):
            raise DataError(f"{name[:80]!r} is no name for a file of a model", path=str(manifest))
        path = folder / name
        if not path.is_file() or path.is_symlink():
            raise DataError("is missing from the model", path=str(path))
        if _sum(path) != expected:
            raise DataError("is not the file that was saved: its sum differs", path=str(path))
    for found in folder.rglob("*"):
        name = found.relative_to(folder).as_posix()
        if found.is_symlink() or not (found.is_dir() or name == NAME or name in files):
            raise DataError("is no file of this model; remove it", path=str(found))


def _sum(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def versions(names: tuple[str, ...]) -> dict[str, str]:
    """The installed versions of libraries."""
    return {name: version(name) for name in names}
