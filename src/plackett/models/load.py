"""Loading a model: every field is checked, and no code in the folder is executed."""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from plackett.base.errors import DataError, UsageError, rename_deprecated
from plackett.base.files import read_key
from plackett.data.inputs import read_categories
from plackett.data.transforms import FittedTransform, transform_from_dict
from plackett.models.artifact import MANIFEST_FILE, ModuleSource, decode, read_manifest
from plackett.models.auto import AutoRanker
from plackett.models.crossfit import CrossFit
from plackett.models.ensembles import CatBoostRanker, EnsembleRanker, XGBoostRanker
from plackett.models.linear import AdaRanker, CoordinateAscentRanker, LinearRanker
from plackett.models.neural import BoostedNeuralRanker, NeuralRanker
from plackett.models.ranker import Ranker
from plackett.models.stumps import StumpRanker
from plackett.models.trees import TreeRanker

KINDS: tuple[type[Ranker], ...] = (
    LinearRanker,
    CoordinateAscentRanker,
    AdaRanker,
    TreeRanker,
    StumpRanker,
    NeuralRanker,
    BoostedNeuralRanker,
    EnsembleRanker,
    CatBoostRanker,
    XGBoostRanker,
    CrossFit,
    AutoRanker,
)
"""Every kind of ranker that can be saved and loaded."""

_MAX_DEPTH = 4


def load(path: str | os.PathLike[str], *, module: Any = None, sign_key: str | os.PathLike[str] | None = None) -> Ranker:
    """Load the ranker that was saved as the folder ``path``.

    Parameters
    ----------
    path
        The folder.
    module
        For nets with a user-supplied module (``NeuralRanker(module=...)``), alone or inside another ranker: that
        module, or the function that makes it. The folder holds weights and no code; they are loaded into a copy of the
        module, whose state must have the same names, shapes and types.
    sign_key
        File of the key that the model must be signed with (:meth:`Ranker.save`). Default: a model need not be signed.

    Examples
    --------
    >>> import plackett as pk
    >>> ranker = pk.load("model.plackett")  # doctest: +SKIP
    """
    folder = Path(path)
    key = None if sign_key is None else read_key(Path(sign_key))
    manifest = read_manifest(folder, key)
    source = ModuleSource(module, folder, manifest)
    try:
        ranker = _make_ranker(manifest, source)
        _set_features(ranker, manifest)
        recipe, training = manifest.get("recipe"), manifest.get("training")
        if recipe is not None and not isinstance(recipe, str):
            raise DataError(f'"recipe" must be a string or null, got {recipe!r}.')
        if not isinstance(training, dict):
            raise DataError('"training" must describe the training data.')
        try:
            json.dumps(training, allow_nan=False)
        except ValueError as error:
            raise DataError('"training" holds a number that is not finite.') from error
        ranker.recipe_name, ranker.training_ = recipe, training
    except DataError as error:
        raise DataError(str(error), path=str(folder / MANIFEST_FILE)) from error
    source.check_used()
    try:
        ranker._read(folder)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=str(error.filename)) from error
    return ranker


def _make_ranker(data: Any, source: ModuleSource, depth: int = 0) -> Ranker:
    """An unfitted ranker from its kind and settings."""
    if depth > _MAX_DEPTH:
        raise DataError(f"rankers are nested more than {_MAX_DEPTH} levels deep.")
    if not isinstance(data, dict) or not isinstance(data.get("settings"), dict):
        raise DataError("a ranker must have a kind and settings.")
    kinds = {kind.__name__: kind for kind in KINDS}
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise DataError(f"unknown kind of ranker {kind!r}; expected one of {', '.join(kinds)}.")
    make_inner = partial(_make_ranker, source=source, depth=depth + 1)
    settings = {
        key: source.decode(value) if key == "module" else decode(value, make_inner)
        for key, value in data["settings"].items()
    }
    try:
        return kinds[kind]().set_params(**rename_deprecated(settings, warn=False))
    except UsageError as error:
        raise DataError(str(error)) from error


def _set_features(ranker: Ranker, manifest: dict[str, Any]) -> None:
    features = manifest.get("features")
    if not isinstance(features, dict):
        features = {}
    count, names = features.get("count"), features.get("names")
    if type(count) is not int or count < 1:
        raise DataError(f'"features" must give a positive "count", got {count!r}.')
    if names is not None and not (
        isinstance(names, list) and len(names) == count and all(isinstance(n, str) for n in names)
    ):
        raise DataError(f'"names" must be {count} strings, one per feature, or null.')
    if names is not None and len(set(names)) != count:
        raise DataError('"names" must be different strings.')
    ranker.n_features_ = count
    ranker.feature_names_ = None if names is None else tuple(names)
    ranker.categories_ = read_categories(features.get("categories"), names or ())
    transforms = bool(ranker.transforms) or ranker.encodes_categories
    if transforms != (manifest.get("transform") is not None):
        raise DataError('"transform" must be present if and only if the settings name transforms.')
    if manifest.get("transform") is not None:
        fitted = transform_from_dict(manifest["transform"])
        if not isinstance(fitted, FittedTransform):
            raise DataError("the transform of a model must be a fitted one.")
        ranker.transform_ = fitted
