"""Saving a fitted ranker.

Parameters of rankers as JSON and back, exactly.

JSON has no tuples and no objectives: a tuple becomes ``{"$tuple": [...]}``, an objective
``{"$objective": {...}}``, a ranker inside a ranker ``{"$ranker": {...}}``, a dictionary whose keys
are not all texts ``{"$pairs": [[key, value], ...]}``. A module of the user's own becomes its name
and a sum of its structure and first weights, ``{"$module": {...}}``, and does not come back from
there: whoever loads the model brings it along.

What stands in ``manifest.json``: what the model is, what made it, which files it has.

The module that whoever loads a model brings along, for nets that are not made from settings.

A file describes such a module in words and never holds its code. Without the module, the
description is what the error tells the user.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plackett._version import __version__
from plackett.base.errors import DataError, UsageError
from plackett.base.files import atomic_directory
from plackett.objectives.objective import Objective
from plackett.objectives.registry import objective_from_dict, objective_to_dict

if TYPE_CHECKING:
    from collections.abc import Callable

    from plackett.models.ranker import Ranker


_MAX_DEPTH = 8


def encode(value: Any, *, where: str = "a parameter") -> Any:
    """A parameter as JSON can hold it."""
    from plackett.models.ranker import Ranker

    if isinstance(value, Objective):
        return {"$objective": objective_to_dict(value)}
    if isinstance(value, Ranker):
        return {"$ranker": {"kind": type(value).__name__, "settings": encode_params(value)}}
    if isinstance(value, tuple):
        return {"$tuple": [encode(each, where=where) for each in value]}
    if isinstance(value, list):
        return [encode(each, where=where) for each in value]
    if isinstance(value, dict):
        pairs = [[encode(k, where=where), encode(v, where=where)] for k, v in value.items()]
        return dict(pairs) if all(isinstance(k, str) for k in value) else {"$pairs": pairs}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise UsageError(f"{where} is {value!r}, which cannot be written to a file.")


def encode_params(ranker: Ranker) -> dict[str, Any]:
    """All parameters of a ranker."""
    name = type(ranker).__name__
    own = own_module(ranker)
    plain = {key: value for key, value in ranker.get_params().items() if key != "module"}
    found = {k: encode(v, where=f"{name}'s parameter {k!r}") for k, v in plain.items()}
    if len(plain) < len(ranker.get_params()):
        found["module"] = None if own is None else _module(own)
    return found


def own_module(ranker: Ranker) -> Any:
    """The module of the user's own that a net is made of; None for all other rankers."""
    from plackett.models.neural.ranker import BaseNeuralRanker

    return ranker.module if isinstance(ranker, BaseNeuralRanker) else None


def _module(own: Any) -> dict[str, Any]:
    from plackett.base.optional import require

    require("torch", "safetensors")
    from plackett.models.neural.user_module import describe_module

    return {"$module": describe_module(own)}


def identity_of(ranker: Ranker) -> dict[str, Any]:
    """The parameters that determine the fitted model: not threads, where they change nothing."""
    from plackett.models.ranker import Ranker

    found = encode_params(ranker)
    if not ranker.threads_matter:
        found.pop("threads", None)
    for name, value in ranker.get_params().items():
        if isinstance(value, Ranker):
            found[name] = {"kind": type(value).__name__, "settings": identity_of(value)}
    return found


def decode(value: Any, make: Callable[[Any], Ranker], depth: int = 0) -> Any:
    """What :func:`encode` was given; ``make`` builds a ranker out of kind and settings."""
    if depth > _MAX_DEPTH:
        raise DataError(f"settings are nested more than {_MAX_DEPTH} levels deep.")
    if isinstance(value, list):
        return [decode(each, make, depth + 1) for each in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"$tuple"} and isinstance(value["$tuple"], list):
        return tuple(decode(each, make, depth + 1) for each in value["$tuple"])
    if set(value) == {"$pairs"} and isinstance(value["$pairs"], list):
        return _pairs(value["$pairs"], make, depth)
    if set(value) == {"$objective"}:
        return objective_from_dict(value["$objective"])
    if set(value) == {"$ranker"}:
        return make(value["$ranker"])
    return {key: decode(each, make, depth + 1) for key, each in value.items()}


def _pairs(pairs: list[Any], make: Callable[[Any], Ranker], depth: int) -> dict[Any, Any]:
    if not all(isinstance(p, list) and len(p) == 2 and isinstance(p[0], (str, int)) for p in pairs):
        raise DataError("a dictionary in the settings must be pairs of a key and a value.")
    return {key: decode(each, make, depth + 1) for key, each in pairs}


FORMAT = "plackett model"
VERSION = 1
MANIFEST_FILE = "manifest.json"
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
        "settings": encode_params(ranker),
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
    from plackett.models.neural.ranker import BaseNeuralRanker

    if not isinstance(ranker, BaseNeuralRanker) or ranker.module is None:
        return {}
    from plackett.models.neural.user_module import describe_state

    return {"module": {"state": describe_state(ranker.networks_[0])}}


def is_model(folder: Path) -> bool:
    """Whether a folder holds a model and nothing else, so that another may take its place."""
    try:
        data = json.loads((folder / MANIFEST_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        return False
    listed = {MANIFEST_FILE, *(data["files"] if isinstance(data.get("files"), dict) else ())}
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}
    return there <= listed


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder, with its format, its version and the sums of its files checked."""
    path = folder / MANIFEST_FILE
    if not path.is_file():
        what = "is no model" if folder.exists() else "does not exist"
        raise DataError(f"{what}; a model is a folder with a {MANIFEST_FILE}", path=str(folder))
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
        if found.is_symlink() or not (found.is_dir() or name == MANIFEST_FILE or name in files):
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


def write(ranker: Ranker, path: str | os.PathLike[str]) -> None:
    """Write the folder ``path``, whole or not at all; a model that is there is replaced."""
    if ranker.n_features_ is None:
        raise UsageError(f"this {type(ranker).__name__} is not fitted yet; call fit first.")
    target = check_save_path(path)
    with atomic_directory(target) as folder:
        ranker._write(folder)
        manifest = describe(ranker, folder)
        text = json.dumps(manifest, indent=1, allow_nan=False)
        (folder / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")


def check_save_path(path: str | os.PathLike[str]) -> Path:
    """Refuse a place where a model would destroy something else."""
    target = Path(path)
    if target.is_file():
        raise UsageError(f"{target} is a file; a model is a folder, for example model.plackett.")
    if target.is_dir() and any(target.iterdir()) and not is_model(target):
        raise UsageError(f"{target} is a folder with other files; a model needs one of its own.")
    return target


_SHOWN = 3  # tensors that an error names


class OwnModule:
    """A module, or None, for the model in a folder.

    Parameters
    ----------
    given
        What the caller brought: a module, a function that makes one, or None.
    folder, manifest
        The model.
    """

    def __init__(self, given: Any, folder: Path, manifest: dict[str, Any]) -> None:
        self._given = given
        self._folder = folder
        self._manifest = manifest
        self._is_taken = False

    def taken(self, described: Any) -> Any:
        """What takes the place of the setting ``module`` of a net."""
        if described is None:
            return None
        inside = described.get("$module") if isinstance(described, dict) else None
        if not isinstance(inside, dict) or not isinstance(inside.get("name"), str):
            raise DataError("a module of one's own cannot come out of a file.")
        if self._given is None:
            raise UsageError(self._needed(inside["name"]))
        self._is_taken = True
        return self._given

    def check_taken(self) -> None:
        """Refuse a module that the model has no use for."""
        if self._given is not None and not self._is_taken:
            raise UsageError(
                f"{self._folder} has no net that is a module of your own; load it without module=."
            )

    def _needed(self, name: str) -> str:
        return (
            f"{self._folder} holds the weights of {name[:80]!r}, a module of your own, and not its "
            f"code{self._state()}. Load it in Python with plackett.load({str(self._folder)!r}, "
            "module=...), giving that module or the function that makes it."
        )

    def _state(self) -> str:
        described = self._manifest.get("module")
        state = described.get("state") if isinstance(described, dict) else None
        if not isinstance(state, list) or not all(isinstance(each, dict) for each in state):
            return ""
        first = ", ".join(
            f"{str(each.get('name'))[:80]} ({str(each.get('type'))[:20]} of shape "
            f"{str(each.get('shape'))[:80]})"
            for each in state[:_SHOWN]
        )
        return f" ({len(state)} tensors: {first}{', ...' if len(state) > _SHOWN else ''})"


def module_inside(ranker: Ranker | None) -> Any:
    """The module of the user's own in a ranker, or in a ranker inside it; None if there is none."""
    from plackett.models.ranker import Ranker

    if ranker is None:
        return None
    inner = [value for value in ranker.get_params().values() if isinstance(value, Ranker)]
    found = [own_module(ranker), *(module_inside(each) for each in inner)]
    return next((each for each in found if each is not None), None)
