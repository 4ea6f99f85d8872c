"""Systems: named rankers to compare, and the versions of the code and libraries they run with."""

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
from plackett.base.errors import UsageError, rename_deprecated
from plackett.models import RECIPES, recipe
from plackett.models.artifact.settings import encode_params
from plackett.models.ranker import Ranker


@cache
def version(library: str) -> str:
    """Installed version of a library; cached, since every trial records those it uses."""
    return read_version(library)


@dataclass(frozen=True, eq=False)
class System:
    """A ranker and its name in tables."""

    name: str
    ranker: Ranker

    def build(self, *, seed: int, threads: int | None = None) -> Ranker:
        """A new unfitted ranker with this seed."""
        return _with_params(self.ranker, {"seed": seed, "threads": threads})

    def settings(self, seed: int) -> dict[str, Any]:
        """Class and parameters as plain data, without threads, which do not change results."""
        ranker = self.build(seed=seed)
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


def as_systems(
    models: Sequence[str] | Mapping[str, Ranker],
    *,
    preset: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> tuple[System, ...]:
    """Make systems from names of recipes, or from rankers by name.

    Parameters
    ----------
    models
        Names of recipes, or unfitted rankers by the name to show.
    preset
        A paper's settings, for the recipes that have them; at least one must.
    settings
        Parameters to change in the models that have them; at least one must.
    """
    rankers = (
        dict(models)
        if isinstance(models, Mapping)
        else {name: recipe(name, preset=_find_preset(name, preset, models)) for name in models}
    )
    if not rankers:
        raise UsageError("there is nothing to compare: no models were given.")
    if len(rankers) < len(models):
        twice = next(name for name in models if list(models).count(name) > 1)
        raise UsageError(f"{twice!r} is named twice; each system appears once.")
    for name, value in rename_deprecated(settings or {}).items():
        _set_param(rankers, name, value)
    return tuple(System(name, ranker) for name, ranker in rankers.items())


def _find_preset(name: str, preset: str | None, models: Sequence[str]) -> str | None:
    if preset is None or name not in RECIPES:  # recipe() raises for an unknown name
        return None
    if not any(preset in RECIPES[each].presets for each in models if each in RECIPES):
        raise UsageError(f"none of {', '.join(models)} has the preset {preset!r}.")
    return preset if preset in RECIPES[name].presets else None


def _set_param(rankers: Mapping[str, Ranker], name: str, value: Any) -> None:
    # ``ranker__leaves`` is a parameter of the ranker in the parameter ``ranker``, which checks it.
    outer = name.partition("__")[0]
    having = [ranker for ranker in rankers.values() if outer in ranker.get_params()]
    if not having:
        raise UsageError(f"none of {', '.join(rankers)} has a parameter {name!r}.")
    for ranker in having:
        ranker.set_params(**{name: value})


_PACKAGES = ("base", "data", "metrics", "models", "objectives")
"""Packages that the result of a trial depends on."""


@cache
def code_version() -> str:
    """The version and a digest of the sources, since code changes between versions."""
    root = Path(plackett.__file__).parent
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
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
