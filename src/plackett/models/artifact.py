"""The folder of a saved model: ``manifest.json`` and native files.

The manifest says what the model is, what made it, and which files it has, with their hashes. Since version 2 it ends
with a hash of its own content, and it may be signed.

Parameters become JSON and back, without loss: a tuple becomes ``{"$tuple": [...]}``, an objective ``{"$objective":
{...}}``, a ranker inside a ranker ``{"$ranker": {...}}``, a dictionary with keys that are not strings ``{"$pairs":
[[key, value], ...]}``, and a user-supplied module its name and a hash of its structure and first weights, ``{"$module":
{...}}``, never its code: whoever loads the model supplies the module (:class:`ModuleSource`).
"""

from __future__ import annotations

import hmac
import json
import math
import os
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plackett._version import __version__
from plackett.base.errors import DataError, Message, Parameter, UsageError, require
from plackett.base.files import atomic_directory, hash_file, hash_json, sign_json
from plackett.objectives import objective_from_dict, objective_to_dict
from plackett.objectives.objective import Objective

if TYPE_CHECKING:
    from plackett.models.ranker import Ranker


_MAX_DEPTH = 8
_NAMED_TENSORS = 3  # in an error message


def encode(value: Any, *, where: str = "a parameter") -> Any:
    """Convert a parameter to data that JSON can represent."""
    from plackett.models.ranker import Ranker

    if isinstance(value, Objective):
        return {"$objective": objective_to_dict(value)}
    if isinstance(value, Ranker):
        return {"$ranker": {"kind": type(value).__name__, "settings": encode_params(value)}}
    if isinstance(value, tuple):
        return {"$tuple": [encode(item, where=where) for item in value]}
    if isinstance(value, list):
        return [encode(item, where=where) for item in value]
    if isinstance(value, dict):
        pairs = [[encode(k, where=where), encode(v, where=where)] for k, v in value.items()]
        return dict(pairs) if all(isinstance(k, str) for k in value) else {"$pairs": pairs}
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise UsageError(f"{where} is {value!r}, which cannot be written to a file.")


def encode_params(ranker: Ranker) -> dict[str, Any]:
    """All parameters of a ranker."""
    where = f"{type(ranker).__name__}'s parameter"
    params = ranker.get_params()
    encoded = {k: encode(v, where=f"{where} {k!r}") for k, v in params.items() if k != "module"}
    if "module" in params:
        encoded["module"] = None
    if (module := user_module(ranker)) is not None:
        require("torch", "safetensors")
        from plackett.models.neural.user_module import describe_module

        encoded["module"] = {"$module": describe_module(module)}
    return encoded


def identity_of(ranker: Ranker) -> dict[str, Any]:
    """The parameters that determine the fitted model; without threads if they do not change it."""
    from plackett.models.ranker import Ranker

    identity = encode_params(ranker)
    if not ranker.threads_matter:
        identity.pop("threads", None)
    for name in ranker.not_identity:
        identity.pop(name, None)
    for name, value in ranker.get_params().items():
        if isinstance(value, Ranker):
            identity[name] = {"kind": type(value).__name__, "settings": identity_of(value)}
    return identity


def decode(value: Any, make_ranker: Callable[[Any], Ranker], depth: int = 0) -> Any:
    """The inverse of :func:`encode`; ``make_ranker`` builds a ranker from kind and settings."""
    if depth > _MAX_DEPTH:
        raise DataError(f"settings are nested more than {_MAX_DEPTH} levels deep.")
    if isinstance(value, list):
        return [decode(item, make_ranker, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"$tuple"} and isinstance(value["$tuple"], list):
        return tuple(decode(item, make_ranker, depth + 1) for item in value["$tuple"])
    if set(value) == {"$pairs"} and isinstance(value["$pairs"], list):
        pairs = value["$pairs"]
        if not all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], (str, int)) for pair in pairs):
            raise DataError("a dictionary in the settings must be pairs of a key and a value.")
        return {key: decode(item, make_ranker, depth + 1) for key, item in pairs}
    if set(value) == {"$objective"}:
        return objective_from_dict(value["$objective"])
    if set(value) == {"$ranker"}:
        return make_ranker(value["$ranker"])
    return {key: decode(item, make_ranker, depth + 1) for key, item in value.items()}


def user_module(ranker: Ranker) -> Any:
    """The user-supplied module of a net; None for all other rankers."""
    from plackett.models.neural.ranker import BaseNeuralRanker

    return ranker.module if isinstance(ranker, BaseNeuralRanker) else None


def find_user_module(ranker: Ranker | None) -> Any:
    """The user-supplied module of a ranker or of a ranker inside it; None if there is none."""
    from plackett.models.ranker import Ranker

    if ranker is None:
        return None
    inner = [value for value in ranker.get_params().values() if isinstance(value, Ranker)]
    modules = [user_module(ranker), *(find_user_module(value) for value in inner)]
    return next((module for module in modules if module is not None), None)


class ModuleSource:
    """The module, or the function that makes one, that the caller of ``load`` may supply for a model."""

    def __init__(self, module: Any, folder: Path, manifest: dict[str, Any]) -> None:
        self._module = module
        self._folder = folder
        self._manifest = manifest
        self._is_used = False

    def decode(self, description: Any) -> Any:
        """The module for the setting ``module`` of a net; UsageError if none was supplied."""
        if description is None:
            return None
        content = description.get("$module") if isinstance(description, dict) else None
        if not isinstance(content, dict) or not isinstance(content.get("name"), str):
            raise DataError("a user-supplied module cannot be read from a file.")
        if self._module is None:
            raise UsageError(
                f"{self._folder} holds the weights of {content['name'][:80]!r}, a user-supplied "
                f"module, but not its code{self._describe_state()}. Load it in Python with "
                f"plackett.load({str(self._folder)!r}, module=...), giving that module or the "
                "function that makes it."
            )
        self._is_used = True
        return self._module

    def check_used(self) -> None:
        """Raise UsageError for a module that the model does not need."""
        if self._module is not None and not self._is_used:
            raise UsageError(f"{self._folder} has no net with a user-supplied module; load it without module=.")

    def _describe_state(self) -> str:
        module = self._manifest.get("module")
        state = module.get("state") if isinstance(module, dict) else None
        if not isinstance(state, list) or not all(isinstance(tensor, dict) for tensor in state):
            return ""
        first = ", ".join(
            f"{str(tensor.get('name'))[:80]} ({str(tensor.get('type'))[:20]} of shape {str(tensor.get('shape'))[:80]})"
            for tensor in state[:_NAMED_TENSORS]
        )
        return f" ({len(state)} tensors: {first}{', ...' if len(state) > _NAMED_TENSORS else ''})"


FORMAT = "plackett model"
VERSION = 2
MANIFEST_FILE = "manifest.json"
_SUM, _SIGNATURE = "sha256", "hmac-sha256"
_MAX_BYTES = 64 << 20
# Plain names inside the folder; none begins with a dot, so no name can point outside it.
_FILE_NAME = re.compile(r"[A-Za-z0-9_-][\w.-]*(/[A-Za-z0-9_-][\w.-]*)*", re.ASCII)


def write(ranker: Ranker, path: str | os.PathLike[str], key: bytes | None = None) -> None:
    """Write the folder ``path`` completely or not at all, replacing an existing model; sign it if there is a key."""
    ranker._require_fitted()
    with atomic_directory(check_save_path(path)) as folder:
        ranker._write(folder)
        text = json.dumps(seal(_describe(ranker, folder), key), indent=1, allow_nan=False)
        (folder / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")


def seal(manifest: dict[str, Any], key: bytes | None = None) -> dict[str, Any]:
    """The manifest with the hash of its content, and with a signature if there is a key."""
    content = {name: v for name, v in manifest.items() if name not in (_SUM, _SIGNATURE)}
    signature = {} if key is None else {_SIGNATURE: sign_json(content, key)}
    return {**content, _SUM: hash_json(content), **signature}


def check_save_path(path: str | os.PathLike[str]) -> Path:
    """Raise UsageError for a path where a model would overwrite something else."""
    target = Path(path)
    if target.is_file():
        raise UsageError(f"{target} is a file; a model is a folder, for example model.plackett.")
    if target.is_dir() and any(target.iterdir()) and not is_model(target):
        raise UsageError(f"{target} is a folder with other files; give a new folder for the model.")
    return target


def _describe(ranker: Ranker, folder: Path) -> dict[str, Any]:
    """The manifest of a fitted ranker whose native files are in ``folder``."""
    transform, module = ranker.transform_, {}
    if user_module(ranker) is not None:
        from plackett.models.neural.user_module import describe_state

        # The tensors that the module must have to take the weights.
        module = {"module": {"state": describe_state(ranker.networks_[0])}}  # type: ignore[attr-defined]
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": type(ranker).__name__,
        "recipe": ranker.recipe_name,
        "settings": encode_params(ranker),
        **module,
        "features": {
            "count": ranker.n_features_,
            "names": None if ranker.feature_names_ is None else list(ranker.feature_names_),
            **({} if ranker.categories_ is None else {"categories": dict(ranker.categories_)}),
        },
        "transform": None if transform is None else transform.to_dict(),
        "training": ranker.training_,
        "libraries": {"plackett": __version__, **versions(ranker.libraries)},
        "files": {
            path.relative_to(folder).as_posix(): _hash(path) for path in sorted(folder.rglob("*")) if path.is_file()
        },
    }


def versions(names: tuple[str, ...]) -> dict[str, str]:
    """The installed versions of libraries."""
    return {name: version(name) for name in names}


def is_model(folder: Path) -> bool:
    """Whether a folder holds a model and nothing else, so that it may be replaced."""
    try:
        data = json.loads((folder / MANIFEST_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        return False
    listed = {MANIFEST_FILE, *(data["files"] if isinstance(data.get("files"), dict) else ())}
    present = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}
    return present <= listed


def read_manifest(folder: Path, key: bytes | None = None) -> dict[str, Any]:
    """The manifest of a folder, with format, version, hashes and, if there is a key, signature checked."""
    path = folder / MANIFEST_FILE
    if not path.is_file():
        what = "is not a model" if folder.exists() else "does not exist"
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
            f"is of version {data.get('version')!r}; this plackett reads 1 to {VERSION}: use a newer one",
            path=str(path),
        )
    unsealed = data["version"] == 1 and _SUM not in data
    if not unsealed and data.get(_SUM) != hash_json(data, without=(_SUM, _SIGNATURE)):
        raise DataError(
            "is not the manifest that was saved: its hash differs; save or copy the model again", path=str(path)
        )
    if key is not None:
        _check_signature(data, key, path)
    _check_files(folder, data.get("files"), path)
    return data


def is_signed(manifest: dict[str, Any]) -> bool:
    """Whether a manifest has a signature."""
    return _SIGNATURE in manifest


def _check_signature(manifest: dict[str, Any], key: bytes, path: Path) -> None:
    signature = manifest.get(_SIGNATURE)
    if not isinstance(signature, str):
        raise DataError(
            Message("is not signed; sign a model where it is made, with ", Parameter("sign_key")), path=str(path)
        )
    expected = sign_json(manifest, key, without=(_SUM, _SIGNATURE))
    if not hmac.compare_digest(signature.encode(), expected.encode()):
        raise DataError(
            "its signature is not one of this key: the model was signed with another key, or changed since",
            path=str(path),
        )


def _check_files(folder: Path, files: Any, manifest: Path) -> None:
    if not isinstance(files, dict):
        raise DataError('"files" must map names to hashes', path=str(manifest))
    for name, expected in files.items():
        if not _FILE_NAME.fullmatch(name):
            raise DataError(f"{name[:80]!r} is not a valid file name", path=str(manifest))
        path = folder / name
        if not path.is_file() or path.is_symlink():
            raise DataError("is missing from the model", path=str(path))
        if _hash(path) != expected:
            raise DataError("is not the file that was saved: its hash differs", path=str(path))
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_dir() or name == MANIFEST_FILE or name in files):
            raise DataError("is not a file of this model; remove it", path=str(path))


def _hash(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": hash_file(path)}
