"""A system to compare: a name and a ranker with its settings.

Which code made a result.

What a result was made with, so that it can be made again.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version as read_version
from pathlib import Path
from typing import Any

import plackett
from plackett._version import __version__
from plackett.base.deprecation import rename_deprecated
from plackett.base.errors import UsageError
from plackett.models import RECIPES, recipe
from plackett.models.artifact.settings import encode_params
from plackett.models.ranker import Ranker


@cache
def version(library: str) -> str:
    """The installed version; read once, since every trial names those of its libraries."""
    return read_version(library)


@dataclass(frozen=True, eq=False)
class System:
    """A ranker under the name by which tables show it."""

    name: str
    ranker: Ranker

    def build(self, *, seed: int, threads: int | None = None) -> Ranker:
        """A fresh ranker with this seed."""
        return _configured(self.ranker, {"seed": seed, "threads": threads})

    def settings(self, seed: int) -> dict[str, Any]:
        """Kind and parameters as plain data; threads change nothing and are left out."""
        ranker = self.build(seed=seed)
        return {"kind": type(ranker).__name__, **encode_params(ranker)}

    def libraries(self) -> dict[str, str]:
        """Versions of the libraries that the ranker stands on."""
        return {name: version(name) for name in sorted(_libraries(self.ranker))}


def _configured(ranker: Ranker, given: Mapping[str, Any]) -> Ranker:
    copy = ranker.clone()
    known = copy.get_params()
    copy.set_params(**{name: value for name, value in given.items() if name in known})
    inner = {k: _configured(v, given) for k, v in known.items() if isinstance(v, Ranker)}
    return copy.set_params(**inner)


def _libraries(ranker: Ranker) -> set[str]:
    inner = [_libraries(v) for v in ranker.get_params().values() if isinstance(v, Ranker)]
    return set(ranker.libraries).union(*inner)


def as_systems(
    models: Sequence[str] | Mapping[str, Ranker],
    *,
    preset: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> tuple[System, ...]:
    """Systems from names of recipes, or from rankers by name.

    Parameters
    ----------
    models
        Recipes, or rankers that need not be fitted by the name to show.
    preset
        Settings of a paper's experiment, for the recipes that have them; at least one must.
    settings
        Parameters to change, each in the models that have it; at least one must.
    """
    rankers = (
        dict(models)
        if isinstance(models, Mapping)
        else {name: recipe(name, preset=_preset(name, preset, models)) for name in _once(models)}
    )
    if not rankers:
        raise UsageError("there is nothing to compare: no models were given.")
    for name, value in rename_deprecated(settings or {}).items():
        _set_where_known(rankers, name, value)
    return tuple(System(name, ranker) for name, ranker in rankers.items())


def _once(models: Sequence[str]) -> Sequence[str]:
    doubled = {name for name in models if list(models).count(name) > 1}
    if doubled:
        raise UsageError(f"{sorted(doubled)[0]!r} is named twice; each system appears once.")
    return models


def _preset(name: str, preset: str | None, models: Sequence[str]) -> str | None:
    if preset is None or name not in RECIPES:  # recipe() refuses a name that does not exist
        return None
    if not any(preset in RECIPES[each].presets for each in models if each in RECIPES):
        raise UsageError(f"none of {', '.join(models)} has the preset {preset!r}.")
    return preset if preset in RECIPES[name].presets else None


def _set_where_known(rankers: Mapping[str, Ranker], name: str, value: Any) -> None:
    # ``ranker__leaves`` is a setting of whatever is in the parameter ``ranker``, which checks it.
    outer = name.partition("__")[0]
    having = [ranker for ranker in rankers.values() if outer in ranker.get_params()]
    if not having:
        raise UsageError(f"none of {', '.join(rankers)} has a parameter {name!r}.")
    for ranker in having:
        ranker.set_params(**{name: value})


_DECISIVE = ("base", "data", "metrics", "models", "objectives")
"""Packages that a trial's result depends on; reports and commands are not among them."""


@cache
def code_version() -> str:
    """The version and a digest of the sources: in a checkout, code changes between versions."""
    root = Path(plackett.__file__).parent
    digest = hashlib.sha256()
    for package in _DECISIVE:
        for file in sorted((root / package).rglob("*.py")):
            digest.update(file.relative_to(root).as_posix().encode())
            digest.update(file.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:12]}"


_ALWAYS = ("numpy", "scipy", "numba")


def environment(libraries: Iterable[str] = ()) -> dict[str, str]:
    """Versions of the code and its libraries, and the kind of machine."""
    names = sorted({*_ALWAYS, *libraries})
    return {
        "plackett": code_version(),
        "Python": platform.python_version(),
        **{name: version(name) for name in names},
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
    }
