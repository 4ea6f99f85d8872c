"""Models are saved, damaged, removed and reloaded in any order; the registry serves the last whole ones."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

pytest.importorskip("starlette", reason="pip install 'plackett[serve]'")

from plackett.serving.server import ModelRegistry
from plackett.serving.server.registry import ModelSource
from serving_models import documents, fitted

X = documents(5, seed=9)
KINDS = ("trees", "linear", "stumps")
VERSIONS = st.sampled_from(["v1", "v2", "v10"])


@cache
def saved(kind: str) -> Path:
    """A model on disk, to copy from."""
    folder = Path(tempfile.mkdtemp()) / kind
    fitted(kind).save(folder)
    return folder


class RegistryMachine(RuleBasedStateMachine):
    """The model: what each folder holds on disk, and the kinds that must be served since the last reload."""

    def __init__(self) -> None:
        super().__init__()
        self.base = tempfile.TemporaryDirectory()
        self.folder = Path(self.base.name)
        shutil.copytree(saved("trees"), self.folder / "v1")
        self.on_disk: dict[str, str | None] = {"v1": "trees"}  # None: damaged
        self.served = {"v1": "trees"}
        self.registry = ModelRegistry([ModelSource("m", self.folder)])

    @rule(version=VERSIONS, kind=st.sampled_from(KINDS))
    def save(self, version: str, kind: str) -> None:
        shutil.rmtree(self.folder / version, ignore_errors=True)
        shutil.copytree(saved(kind), self.folder / version)
        (self.folder / version / "manifest.json").touch()
        self.on_disk[version] = kind

    @rule(version=VERSIONS)
    def damage(self, version: str) -> None:
        if version in self.on_disk:
            (self.folder / version / "manifest.json").write_text("{")
            self.on_disk[version] = None

    @rule(version=VERSIONS)
    def remove(self, version: str) -> None:
        shutil.rmtree(self.folder / version, ignore_errors=True)
        self.on_disk.pop(version, None)

    @rule()
    def reload(self) -> None:
        before = dict(self.served)
        self.registry.reload()
        self.served = {}
        for version, kind in self.on_disk.items():
            if kind is not None:
                self.served[version] = kind
            elif version in before:
                self.served[version] = before[version]  # damaged: the one loaded before stays
        if not self.served:
            last = max(before, key=lambda name: int(name[1:]))
            self.served = {last: before[last]}  # the last model is better than none

    @invariant()
    def whole_models_are_served(self) -> None:
        models = {model.path.name: model for model in self.registry.catalog.models["m"]}
        assert set(models) == set(self.served)
        for version, kind in self.served.items():
            assert models[version].ranker.predict(X).tolist() == fitted(kind).predict(X).tolist()
        current = self.registry.catalog.find("m", None)
        assert current.path.name == max(self.served, key=lambda name: int(name[1:]))

    def teardown(self) -> None:
        self.base.cleanup()


TestRegistry = RegistryMachine.TestCase
TestRegistry.settings = settings(max_examples=6, stateful_step_count=10, deadline=None)
