"""Loading a ranker: every field is checked, and nothing in the folder is run.

Every kind of ranker, in one explicit tuple: files of models and tests go by it.
"""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from plackett.base.deprecation import rename_deprecated
from plackett.base.errors import DataError, UsageError
from plackett.data.transforms import FittedTransform, transform_from_dict
from plackett.models.artifact.manifest import MANIFEST_FILE, OwnModule, decode, read_manifest
from plackett.models.crossfit import CrossFit
from plackett.models.ensembles import EnsembleRanker
from plackett.models.linear import LinearRanker
from plackett.models.neural import BoostedNeuralRanker, NeuralRanker
from plackett.models.ranker import Ranker
from plackett.models.stumps import StumpRanker
from plackett.models.trees import TreeRanker

KINDS: tuple[type[Ranker], ...] = (
    LinearRanker,
    TreeRanker,
    StumpRanker,
    NeuralRanker,
    BoostedNeuralRanker,
    EnsembleRanker,
    CrossFit,
)


_MAX_DEPTH = 4


def load(path: str | os.PathLike[str], *, module: Any = None) -> Ranker:
    """The ranker that was saved as the folder ``path``.

    Parameters
    ----------
    path
        The folder.
    module
        For nets that are a module of your own (``NeuralRanker(module=...)``), alone or inside
        another ranker: that module, or the function that makes it. The file holds weights and no
        code; they are put into a copy of the module, whose state must have the same names, shapes
        and types.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    own = OwnModule(module, folder, manifest)
    try:
        ranker = _make({"kind": manifest.get("kind"), "settings": manifest.get("settings")}, own)
        _features(ranker, manifest)
        ranker.recipe_name = _text(manifest.get("recipe"))
        ranker.training_ = _mapping(manifest.get("training"))
    except DataError as error:
        raise DataError(str(error), path=str(folder / MANIFEST_FILE)) from error
    own.check_taken()
    try:
        ranker._read(folder)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=str(error.filename)) from error
    return ranker


def _make(data: Any, own: OwnModule, depth: int = 0) -> Ranker:
    """A ranker that is not fitted, out of its kind and settings."""
    if depth > _MAX_DEPTH:
        raise DataError(f"rankers are nested more than {_MAX_DEPTH} levels deep.")
    if not isinstance(data, dict) or not isinstance(data.get("settings"), dict):
        raise DataError("a ranker is described by its kind and settings.")
    kinds = {kind.__name__: kind for kind in KINDS}
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise DataError(f"there is no kind of ranker {kind!r}; there are {', '.join(kinds)}.")
    inner = partial(_make, own=own, depth=depth + 1)
    settings = {
        key: own.taken(value) if key == "module" else decode(value, inner)
        for key, value in data["settings"].items()
    }
    try:
        return kinds[kind]().set_params(**rename_deprecated(settings, warn=False))
    except UsageError as error:
        raise DataError(str(error)) from error


def _features(ranker: Ranker, manifest: dict[str, Any]) -> None:
    features = manifest.get("features")
    count = features.get("count") if isinstance(features, dict) else None
    if type(count) is not int or count < 1:
        raise DataError(f'"features" must give a positive "count", got {count!r}.')
    names = features.get("names") if isinstance(features, dict) else None
    if names is not None and not (
        isinstance(names, list) and len(names) == count and all(isinstance(n, str) for n in names)
    ):
        raise DataError(f'"names" must be {count} texts, one per feature, or null.')
    ranker.n_features_ = count
    ranker.feature_names_ = None if names is None else tuple(names)
    if names is not None and len(set(names)) != count:
        raise DataError('"names" must be different texts.')
    if bool(ranker.transforms) != (manifest.get("transform") is not None):
        raise DataError('"transform" must be there if and only if the settings name transforms.')
    if manifest.get("transform") is not None:
        fitted = transform_from_dict(manifest["transform"])
        if not isinstance(fitted, FittedTransform):
            raise DataError("the transform of a model must be a fitted one.")
        ranker.transform_ = fitted


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise DataError(f'"recipe" must be a text or null, got {value!r}.')
    return value


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError('"training" must say what the model was fitted on.')
    try:
        json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise DataError('"training" holds a number that is not finite.') from error
    return value
