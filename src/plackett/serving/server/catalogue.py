"""All models that are being served, and how they are replaced while requests go on.

A :class:`Catalogue` never changes. A reload makes another one and puts it in the place of the first
in one assignment; a request holds the model it began with until it ends.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from plackett.base.errors import DataError, PlackettError
from plackett.models.artifact.save import NAME
from plackett.serving.server.models import Model, load_model, version_of
from plackett.serving.server.refusals import Refusal
from plackett.serving.server.sources import Source

_NOT_FOUND = 404
Stamp: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True)
class Catalogue:
    """Models by name; of each its versions, the current one last."""

    models: dict[str, tuple[Model, ...]]

    def find(self, name: str | None, version: str | None) -> Model:
        """A model; without a name the first, without a version the current one."""
        versions = next(iter(self.models.values())) if name is None else self.models.get(name)
        if versions is None:
            known = ", ".join(self.models)
            raise Refusal(_NOT_FOUND, f"there is no model {name!a}; there are: {known}.")
        if version is None:
            return versions[-1]
        for model in versions:
            if model.version == version:
                return model
        known = ", ".join(model.version for model in versions)
        raise Refusal(
            _NOT_FOUND,
            f"{versions[-1].name} has no version {version!a}; it has: {known}.",
        )

    def all(self) -> list[Model]:
        """Every version of every model."""
        return [model for versions in self.models.values() for model in versions]


@dataclass(frozen=True)
class Reload:
    """What a look at the folders has found."""

    changed: list[Model] = field(default_factory=list)
    removed: list[Model] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Shelf:
    """Holds the catalogue of some sources and renews it.

    Parameters
    ----------
    sources
        Where models come from. All must load, or DataError is raised.
    """

    def __init__(self, sources: list[Source]) -> None:
        self._sources = sources
        self._stamps: dict[Path, Stamp] = {}
        self._lock = threading.Lock()
        self.catalogue = Catalogue({})
        self.refresh(on_error="raise")
        for name in {source.name for source in sources} - set(self.catalogue.models):
            path = next(source.path for source in sources if source.name == name)
            raise DataError("holds no model", path=str(path))

    def refresh(self, *, on_error: str = "keep", force: bool = False) -> Reload:
        """Load what has changed on disk; whatever cannot be loaded stays as it was.

        Parameters
        ----------
        on_error
            ``"keep"`` the model that is there, or ``"raise"``.
        force
            Look into folders that seem to be the same.
        """
        with self._lock:
            report = Reload()
            before = {(m.name, m.path): m for m in self.catalogue.all()}
            models: dict[str, list[Model]] = {}
            for source in self._sources:
                for folder in self._folders(source, before):
                    model = self._model(source, folder, before, report, on_error, force)
                    if model is not None:
                        models.setdefault(source.name, []).append(model)
            for name, versions in self.catalogue.models.items():
                if name not in models:  # better the last model than none
                    models[name] = [versions[-1]]
            kept = {id(model) for versions in models.values() for model in versions}
            replaced = {(m.name, m.path) for m in report.changed}
            report.removed.extend(
                m for key, m in before.items() if id(m) not in kept and key not in replaced
            )
            self.catalogue = Catalogue({name: tuple(found) for name, found in models.items()})
            return report

    def _folders(self, source: Source, before: dict[tuple[str, Path], Model]) -> list[Path]:
        try:
            return source.folders()
        except OSError:  # it vanished while we looked
            return [path for name, path in before if name == source.name]

    def _model(
        self,
        source: Source,
        folder: Path,
        before: dict[tuple[str, Path], Model],
        report: Reload,
        on_error: str,
        force: bool,
    ) -> Model | None:
        old = before.get((source.name, folder))
        try:
            stamp = _stamp(folder)
            if old is not None and stamp == self._stamps.get(folder) and not force:
                return old
            if old is None or version_of(folder) != old.version:
                model = load_model(source.name, folder)
                report.changed.append(model)
            else:
                model = old
            self._stamps[folder] = stamp
            return model
        except (PlackettError, OSError, ImportError) as error:
            if on_error == "raise":
                if isinstance(error, OSError):
                    what = f"is no model; a model is a folder with a {NAME}"
                    raise DataError(what, path=str(folder)) from error
                raise
            report.problems.append(f"{source.name}: {_reason(error)}")
            return old


def _stamp(folder: Path) -> Stamp:
    """What changes when a model is replaced: a folder is written as a whole, its manifest last."""
    found = (folder / NAME).stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)
