"""All models that are being served, and how they are replaced while requests go on.

A :class:`Catalogue` never changes. A reload makes another one and puts it in the place of the first
in one assignment; a request holds the model it began with until it ends.

A model that is being served: what it is called, which version it is, how it scores.

Where models come from: ``[name=]path`` as given on the command line.

A path is a model, or a folder of models that are all versions of one: the last by name, numbers
counted as numbers (``v9`` before ``v10``), answers unless a client asks for another.
"""

from __future__ import annotations

import hashlib
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from plackett.base.errors import DataError, PlackettError, UsageError
from plackett.base.ragged import Scores
from plackett.models.artifact.load import load
from plackett.models.artifact.manifest import MANIFEST_FILE
from plackett.models.ranker import Ranker
from plackett.serving.server.requests import FeatureNames, Lists
from plackett.serving.server.scoring import ALONE, Scorer, scorer_of, takes_missing, warm
from plackett.serving.server.settings import Refusal

VERSION_DIGITS = 12
_UNPROCESSABLE = 422


@dataclass(frozen=True, eq=False)
class Model:
    """A loaded model under a name; never changed, only replaced."""

    name: str
    version: str
    """The beginning of the SHA-256 of its manifest, which holds the sums of all its files."""
    path: Path
    ranker: Ranker
    names: FeatureNames
    takes_missing: bool
    scorer: Scorer = field(repr=False)

    def score(self, lists: Lists) -> Scores:
        """Scores of all documents; raises :class:`Refusal` where the model cannot take them."""
        if not self.takes_missing:
            self._check_present(lists)
        scores = self.scorer(lists.features, lists.offsets)
        if not np.isfinite(scores).all():
            raise Refusal(
                _UNPROCESSABLE,
                f"document {int(np.argmin(np.isfinite(scores)))} (counted over all lists) has no "
                "finite score: its features are too large for this model.",
            )
        return scores

    def _check_present(self, lists: Lists) -> None:
        missing = np.isnan(lists.features)
        if missing.any():
            i, j = np.argwhere(missing)[0]
            raise Refusal(
                _UNPROCESSABLE,
                f"document {i} (counted over all lists) lacks feature "
                f"{self.names.names[j]!a}, and this model takes no missing features.",
            )

    def to_dict(self) -> dict[str, Any]:
        """What clients are told about it."""
        return {
            "name": self.name,
            "version": self.version,
            "kind": type(self.ranker).__name__,
            "recipe": self.ranker.recipe_name,
            "summary": self.ranker.summary(),
            "takes_missing": self.takes_missing,
            "features": list(self.names.names),
        }


def load_model(name: str, path: Path) -> Model:
    """Read a folder, check it, and run it once; raises DataError if it is no model."""
    version = version_of(path)
    with ALONE:
        ranker = load(path)
    assert ranker.n_features_ is not None
    named = ranker.feature_names_ or tuple(str(j + 1) for j in range(ranker.n_features_))
    score = scorer_of(ranker)
    warm(score, len(named))
    allowed = takes_missing(score, len(named))
    if version_of(path) != version:
        raise DataError("was replaced while it was being read", path=str(path))
    return Model(name, version, path, ranker, FeatureNames(named), allowed, score)


def version_of(path: Path) -> str:
    """The version of the model in a folder."""
    return hashlib.sha256((path / MANIFEST_FILE).read_bytes()).hexdigest()[:VERSION_DIGITS]


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
_SUFFIX = ".plackett"


@dataclass(frozen=True)
class Source:
    """A name and a path that has its versions."""

    name: str
    path: Path

    def folders(self) -> list[Path]:
        """The folders of its versions, the current one last."""
        if (self.path / MANIFEST_FILE).is_file() or not self.path.is_dir():
            return [self.path]
        # Temporary folders of a model that is being written begin with a dot.
        inside = [p for p in self.path.iterdir() if not p.name.startswith(".")]
        return sorted((p for p in inside if (p / MANIFEST_FILE).is_file()), key=_natural)


def parse_sources(given: list[str]) -> list[Source]:
    """Sources of ``name=path`` or ``path``; the name is then that of the folder."""
    if not given:
        raise UsageError("name at least one model to serve.")
    return [_source(text) for text in given]


def _source(text: str) -> Source:
    name, sign, rest = text.partition("=")
    if not sign or Path(text).exists():
        path = Path(text)
        resolved = path.name if path.name not in ("", "..") else path.resolve().name
        name = resolved.removesuffix(_SUFFIX)
    else:
        path = Path(rest)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a model: letters, digits, _ . and - only. Give one "
            "before the path, for example: ours=path/to/model.plackett"
        )
    if not path.exists():
        raise DataError("does not exist", path=str(path))
    return Source(name, path)


def _natural(path: Path) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", path.name)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]


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
                    what = f"is no model; a model is a folder with a {MANIFEST_FILE}"
                    raise DataError(what, path=str(folder)) from error
                raise
            report.problems.append(f"{source.name}: {_reason(error)}")
            return old


def _stamp(folder: Path) -> Stamp:
    """What changes when a model is replaced: a folder is written as a whole, its manifest last."""
    found = (folder / MANIFEST_FILE).stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)
