"""The models of a server and how they are replaced while requests are answered.

A model comes from ``[name=]path``. The path is a model, or a folder of models that are versions of
one: the last by name, numbers compared as numbers (``v9`` before ``v10``), is the current version.

A :class:`Catalog` never changes. A reload builds a new one and replaces the old one in a single
assignment; a request keeps the model it started with.
"""

import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from plackett.base.errors import DataError, PlackettError, UsageError
from plackett.base.files import hash_file
from plackett.models import load
from plackett.models.artifact import MANIFEST_FILE
from plackett.serving.server.http import HTTPError
from plackett.serving.server.model import Model, make_scorer, parallel_loops, plain_trees, takes_missing, warm_up
from plackett.serving.server.requests import FeatureNames
from plackett.serving.server.scanner import scan_body
from plackett.serving.server.settings import Limits

_VERSION_DIGITS = 12
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
_SUFFIX = ".plackett"


@dataclass(frozen=True)
class Catalog:
    """The versions of each model by name, the current version last."""

    models: dict[str, tuple[Model, ...]]

    def find(self, name: str | None, version: str | None) -> Model:
        """A model; without a name the first, without a version the current one."""
        versions = next(iter(self.models.values())) if name is None else self.models.get(name)
        if versions is None:
            known = ", ".join(self.models)
            raise HTTPError(404, f"there is no model {name!a}; there are: {known}.")
        if version is None:
            return versions[-1]
        for model in versions:
            if model.version == version:
                return model
        known = ", ".join(model.version for model in versions)
        raise HTTPError(404, f"{versions[-1].name} has no version {version!a}; it has: {known}.")

    def all(self) -> list[Model]:
        """Every version of every model."""
        return [model for versions in self.models.values() for model in versions]


@dataclass(frozen=True)
class ModelSource:
    """The name of a model and the path of its versions."""

    name: str
    path: Path

    def folders(self) -> list[Path]:
        """The folders of its versions, the current one last."""
        if (self.path / MANIFEST_FILE).is_file() or not self.path.is_dir():
            return [self.path]
        # Temporary folders of a model that is being written begin with a dot.
        visible = [p for p in self.path.iterdir() if not p.name.startswith(".")]
        return sorted((p for p in visible if (p / MANIFEST_FILE).is_file()), key=_natural_order)


def parse_sources(texts: list[str]) -> list[ModelSource]:
    """Sources from ``name=path`` or ``path``, whose name is that of the folder."""
    if not texts:
        raise UsageError("name at least one model to serve.")
    return [_parse_source(text) for text in texts]


def _parse_source(text: str) -> ModelSource:
    name, sign, rest = text.partition("=")
    if not sign or Path(text).exists():
        path = Path(text)
        folder = path.name if path.name not in ("", "..") else path.resolve().name
        name = folder.removesuffix(_SUFFIX)
    else:
        path = Path(rest)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a model: letters, digits, _ . and - only. Give one "
            "before the path, for example: ours=path/to/model.plackett"
        )
    if not path.exists():
        raise DataError("does not exist", path=str(path))
    return ModelSource(name, path)


def _natural_order(path: Path) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", path.name)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]


def load_model(name: str, path: Path) -> Model:
    """Load a model, check it and run it once; raises DataError if it is not a model."""
    version = _read_version(path)
    with parallel_loops():
        ranker = load(path)
    assert ranker.n_features_ is not None
    names = ranker.feature_names_ or tuple(str(j + 1) for j in range(ranker.n_features_))
    scorer = make_scorer(ranker)
    warm_up(scorer, len(names))
    feature_names = FeatureNames(names)
    scan_body(
        b'{"documents":[[0.5]]}', feature_names.table, Limits()
    )  # so that the first request need not wait for its compilation
    model = Model(
        name=name,
        version=version,
        path=path,
        ranker=ranker,
        names=feature_names,
        takes_missing=takes_missing(scorer, len(names)),
        is_batched=plain_trees(ranker) is None,
        scorer=scorer,
    )
    if _read_version(path) != version:
        raise DataError("was replaced while it was being read", path=str(path))
    return model


def _read_version(path: Path) -> str:
    return hash_file(path / MANIFEST_FILE)[:_VERSION_DIGITS]


@dataclass(frozen=True)
class ReloadReport:
    """What a reload has changed."""

    loaded: list[Model] = field(default_factory=list)
    removed: list[Model] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class ModelRegistry:
    """Holds the models of some sources and reloads those that change; all must load, or DataError is raised."""

    def __init__(self, sources: list[ModelSource]) -> None:
        self._sources = sources
        self._lock = threading.Lock()
        self.catalog = Catalog({})
        self.reload(on_error="raise")
        for source in sources:
            if source.name not in self.catalog.models:
                raise DataError("holds no model", path=str(source.path))

    def reload(self, *, on_error: Literal["keep", "raise"] = "keep") -> ReloadReport:
        """Load what has changed on disk.

        A model that cannot be loaded is kept as it was, unless ``on_error`` is "raise".
        """
        with self._lock:
            report = ReloadReport()
            before = {(model.name, model.path): model for model in self.catalog.all()}
            models: dict[str, list[Model]] = {}
            for source in self._sources:
                try:
                    folders = source.folders()
                except OSError:  # the folder was removed meanwhile
                    folders = [model.path for model in self.catalog.models.get(source.name, ())]
                for folder in folders:
                    old = before.get((source.name, folder))
                    model = _reload_folder(source, folder, old, report, on_error)
                    if model is not None:
                        models.setdefault(source.name, []).append(model)
            for name, versions in self.catalog.models.items():
                models.setdefault(name, [versions[-1]])  # keep the last model rather than none
            kept = {id(model) for versions in models.values() for model in versions}
            replaced = {(model.name, model.path) for model in report.loaded}
            report.removed.extend(
                model for key, model in before.items() if id(model) not in kept and key not in replaced
            )
            self.catalog = Catalog({name: tuple(versions) for name, versions in models.items()})
            return report


def _reload_folder(
    source: ModelSource, folder: Path, old: Model | None, report: ReloadReport, on_error: str
) -> Model | None:
    try:
        # The manifest is written last and contains the hashes of all files.
        if old is not None and _read_version(folder) == old.version:
            return old
        model = load_model(source.name, folder)
    except (PlackettError, OSError, ImportError) as error:
        if on_error == "raise":
            if isinstance(error, OSError):
                what = f"is no model; a model is a folder with a {MANIFEST_FILE}"
                raise DataError(what, path=str(folder)) from error
            raise
        reason = str(error)
        if isinstance(error, OSError) and error.filename is not None:
            reason = f"{error.filename}: {error.strerror}"
        report.problems.append(f"{source.name}: {reason}")
        return old
    report.loaded.append(model)
    return model
