"""Systems: named rankers to compare, and the versions of the code and libraries they run with."""

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version as read_version
from pathlib import Path
from typing import Any, TypeAlias

from plackett._version import __version__
from plackett.base.errors import UsageError, rename_deprecated, unknown_name
from plackett.experiments.external import ExternalRanker, as_external
from plackett.models import RECIPES, Ranker, recipe
from plackett.models.artifact import encode_params
from plackett.models.recipes.search_spaces import with_settings


@cache
def version(library: str) -> str:
    """Installed version of a library; cached, since every trial records those it uses."""
    try:
        return read_version(library)
    except PackageNotFoundError:  # installed under another name, such as xgboost-cpu
        return str(import_module(library).__version__)


@dataclass(frozen=True, eq=False)
class System:
    """A ranker and its name in tables."""

    name: str
    ranker: Ranker

    def build(self, *, seed: int, threads: int | None = None) -> Ranker:
        """A new unfitted ranker with this seed; ``threads`` None: as many as the ranker has."""
        changes = {"seed": seed} if threads is None else {"seed": seed, "threads": threads}
        return _with_params(self.ranker, changes)

    def settings(self, seed: int) -> dict[str, Any]:
        """Class and parameters as plain data, without threads, which change at most the last bits of a result."""
        ranker = _with_params(self.ranker, {"seed": seed, "threads": None})
        if isinstance(ranker, ExternalRanker):
            return ranker.describe()
        return {"kind": type(ranker).__name__, **encode_params(ranker)}

    def libraries(self) -> dict[str, str]:
        """Versions of the libraries that the ranker uses."""
        return {name: version(name) for name in sorted(_libraries(self.ranker))}


def _with_params(ranker: Ranker, changes: Mapping[str, Any]) -> Ranker:
    """A copy with these parameters, where it and the rankers inside it have them."""
    copy = ranker.clone()
    params = copy.get_params()
    copy.set_params(**{name: value for name, value in changes.items() if name in params})
    inner = {k: _with_params(v, changes) for k, v in params.items() if isinstance(v, Ranker)}
    return copy.set_params(**inner)


def _libraries(ranker: Ranker) -> set[str]:
    inner = [_libraries(v) for v in ranker.get_params().values() if isinstance(v, Ranker)]
    return set(ranker.libraries).union(*inner)


Model: TypeAlias = str | os.PathLike[str] | Ranker | Any  # what can be compared: see :func:`as_systems`


def as_systems(
    models: Sequence[Model] | Mapping[str, Model],
    *,
    preset: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> tuple[System, ...]:
    """Make systems from models, by the name to show.

    A model is the name of a recipe, optionally with settings (``"lambdamart:leaves=31"``), a plackett ranker, the path
    of a saved model, the path of a file with one score per row (.txt, .npy), or an estimator: ``LGBMRanker``,
    ``XGBRanker``, ``CatBoostRanker``. The preset and each of the settings must exist in at least one of them.
    """
    if isinstance(models, (str, os.PathLike)):
        raise UsageError(f"models is a list of what to compare, got {models!r}; use [{models!r}].")
    named = list(models.items() if isinstance(models, Mapping) else ((None, model) for model in models))
    given = [os.fspath(model) for _, model in named if isinstance(model, (str, os.PathLike))]
    rankers: dict[str, Ranker] = {}
    for label, model in named:
        name, ranker = _make_system(model, preset)
        if (label or name) in rankers:
            raise UsageError(
                f"{label or name!r} is named twice; each system appears once. Settings tell "
                "systems of one recipe apart, such as lambdamart:leaves=31."
            )
        rankers[label or name] = ranker
    if not rankers:
        raise UsageError("there is nothing to compare: no models were given.")
    if preset is not None and not any(_has_preset(name, preset) for name in given):
        raise UsageError(f"none of {', '.join(rankers)} has the preset {preset!r}.")
    for name, value in rename_deprecated(settings or {}).items():
        _set_param(rankers, name, value)
    return tuple(System(name, ranker) for name, ranker in rankers.items())


def _make_system(model: Model, preset: str | None) -> tuple[str, Ranker]:
    """The name and the unfitted ranker of one system."""
    if isinstance(model, Ranker):
        return model.recipe_name or type(model).__name__, model
    external = as_external(model)
    if external is not None:
        return external
    text = os.fspath(model)
    name, *pairs = split_outside_brackets(text, ":")
    if name not in RECIPES:
        raise unknown_name("recipe, saved model or file of scores", name, RECIPES)
    ranker = recipe(name, preset=preset if _has_preset(name, preset) else None)
    return text, with_settings(ranker, parse_settings(pairs, example=f"{name}:leaves=31"))


def _has_preset(text: str, preset: str | None) -> bool:
    name = text.partition(":")[0].strip()
    return name in RECIPES and preset in RECIPES[name].presets


def split_outside_brackets(text: str, separator: str) -> list[str]:
    """Split a text at separators that are not inside brackets.

    >>> split_outside_brackets("urank:layers=[10,5],lambdamart", ",")
    ['urank:layers=[10,5]', 'lambdamart']
    """
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def parse_settings(pairs: Iterable[str], *, example: str) -> dict[str, Any]:
    """Parse ``key=value`` pairs; a value is JSON, or text if it is not valid JSON."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign or not key.strip():
            raise UsageError(f"a setting is written key=value, for example {example}, got {pair!r}.")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        settings[key.strip()] = tuple(value) if isinstance(value, list) else value
    return rename_deprecated(settings)


def _set_param(rankers: dict[str, Ranker], name: str, value: Any) -> None:
    # ``ranker__leaves`` is a parameter of the inner ranker, ``objective.beta`` of the objective.
    outer = name.partition("__")[0].partition(".")[0]
    having = [key for key, ranker in rankers.items() if outer in ranker.get_params()]
    if not having:
        params = dict.fromkeys(p for ranker in rankers.values() for p in ranker.get_params())
        raise unknown_name("parameter", name, params, of=", ".join(rankers))
    for key in having:
        rankers[key] = with_settings(rankers[key], {name: value})


# Packages and files that the result of a trial depends on.
_SOURCES = ("base", "data", "metrics", "models", "objectives", "experiments/noise.py", "experiments/protocols.py")


@cache
def code_version() -> str:
    """The version and a digest of the sources, since code changes between versions."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for source in _SOURCES:
        path = root / source
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.relative_to(root).as_posix().encode())
            digest.update(file.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:12]}"


_ALWAYS = ("numpy", "scipy", "numba")


def environment(libraries: Iterable[str] = ()) -> dict[str, str]:
    """Versions of the code and its libraries, and the type of machine."""
    names = sorted({*_ALWAYS, *libraries})
    return {
        "plackett": code_version(),
        "Python": platform.python_version(),
        **{name: version(name) for name in names},
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
    }
