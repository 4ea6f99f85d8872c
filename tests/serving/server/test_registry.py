"""Models that change on disk: loaded when whole, kept when not, never half of one."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

pytest.importorskip("starlette", reason="pip install 'plackett[serve]'")

from plackett.base.errors import DataError, UsageError
from plackett.serving.server import ModelRegistry
from plackett.serving.server.registry import ModelSource, parse_sources
from server_harness import TOKEN, app_of, ask, logged
from serving_models import documents, fitted

X = documents(10, seed=9)
ADMIN = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def folder(saved, tmp_path):
    shutil.copytree(saved("trees"), tmp_path / "m.plackett")
    return tmp_path / "m.plackett"


def current(registry, name="m"):
    return registry.catalog.find(name, None)


def test_a_replaced_model_is_loaded_and_the_old_one_still_works(folder) -> None:
    registry = ModelRegistry([ModelSource("m", folder)])
    old = current(registry)
    assert registry.reload().loaded == []
    assert current(registry) is old
    fitted("linear").save(folder)
    result = registry.reload()
    new = current(registry)
    assert [m.version for m in result.loaded] == [new.version] != [old.version]
    assert result.removed == []
    offsets = np.array([0, 10])
    assert new.scorer(X, offsets).tolist() == fitted("linear").predict(X).tolist()
    assert old.scorer(X, offsets).tolist() == fitted("trees").predict(X).tolist()


def test_the_same_model_written_again_is_not_loaded_again(folder) -> None:
    registry = ModelRegistry([ModelSource("m", folder)])
    old = current(registry)
    shutil.copytree(folder, folder.with_suffix(".copy"))
    shutil.rmtree(folder)
    folder.with_suffix(".copy").rename(folder)
    assert registry.reload().loaded == []
    assert current(registry) is old


@pytest.mark.parametrize("damage", ["manifest", "file", "half", "gone"])
def test_a_damaged_model_leaves_the_old_one_in_place(folder, damage) -> None:
    registry = ModelRegistry([ModelSource("m", folder)])
    old = current(registry)
    manifest = folder / "manifest.json"
    if damage == "manifest":
        manifest.write_text("{")
    elif damage == "file":
        fitted("linear").save(folder)
        (folder / "linear.json").write_text("{}")
    elif damage == "half":
        manifest.write_text(manifest.read_text()[:-100])
    else:
        shutil.rmtree(folder)
    for _ in range(2):  # a problem is a problem until it is gone
        result = registry.reload()
        assert len(result.problems) == 1
        assert result.problems[0].startswith("m: ")
        assert current(registry) is old
    shutil.rmtree(folder, ignore_errors=True)
    fitted("linear").save(folder)
    assert len(registry.reload().loaded) == 1
    assert current(registry) is not old


def test_a_folder_of_models_holds_versions_the_last_by_name_is_current(saved, tmp_path) -> None:
    for name, kind in (("v9", "trees"), ("v10", "linear"), (".v11.tmp", "stumps")):
        shutil.copytree(saved(kind), tmp_path / name)
    (tmp_path / "notes.txt").write_text("not a model")
    registry = ModelRegistry([ModelSource("m", tmp_path)])
    first, second = registry.catalog.models["m"]
    assert (first.path.name, second.path.name) == ("v9", "v10")
    assert current(registry) is second
    assert registry.catalog.find("m", first.version) is first
    shutil.copytree(saved("stumps"), tmp_path / "v11")
    assert len(registry.reload().loaded) == 1
    assert current(registry).path.name == "v11"
    assert current(registry).ranker.n_features_ == 6
    shutil.rmtree(tmp_path / "v9")
    assert [m.version for m in registry.reload().removed] == [first.version]
    for name in ("v10", "v11"):
        shutil.rmtree(tmp_path / name)
    registry.reload()
    assert current(registry).path.name == "v11"  # better the last one than none


def test_several_paths_of_one_name_are_versions_too(saved) -> None:
    registry = ModelRegistry([ModelSource("m", saved("trees")), ModelSource("m", saved("linear"))])
    assert len(registry.catalog.models["m"]) == 2
    assert type(current(registry).ranker).__name__ == "LinearRanker"


def test_what_cannot_be_served_is_refused_at_the_start(saved, tmp_path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        parse_sources([str(tmp_path / "none.plackett")])
    with pytest.raises(UsageError, match="at least one model"):
        parse_sources([])
    with pytest.raises(DataError, match="holds no model"):
        ModelRegistry([ModelSource("m", tmp_path)])
    (tmp_path / "file.txt").write_text("x")
    with pytest.raises(DataError, match="is no model"):
        ModelRegistry([ModelSource("m", tmp_path / "file.txt")])
    for name in ("a/b", "", "-x", "ü", "a b", "x" * 101):
        with pytest.raises(UsageError, match="cannot be the name"):
            parse_sources([f"{name}={saved('trees')}"])
    assert parse_sources([str(saved("trees"))])[0].name == "trees"
    assert parse_sources([f"ours={saved('trees')}"])[0].name == "ours"


def test_reload_by_request(folder) -> None:
    with app_of({"m": folder}, token=TOKEN) as app:
        before = ask(app, "GET", "/models", headers=ADMIN).json["models"][0]["version"]
        fitted("linear").save(folder)
        result = ask(app, "POST", "/admin/reload", headers=ADMIN)
        assert result.status == 200
        (loaded,) = result.json["loaded"]
        assert loaded["version"] != before
        (folder / "manifest.json").write_text("[]")
        failed = ask(app, "POST", "/admin/reload", headers=ADMIN)
        assert failed.status == 409
        assert "m.plackett" in failed.json["problems"][0]
        after = ask(app, "GET", "/models", headers=ADMIN).json["models"][0]["version"]
        assert after == loaded["version"]
        events = [line["event"] for line in logged(app)]
        assert "loaded" in events
        assert "reload failed" in events
        for outcome in ("loaded", "failed"):
            labels = {"outcome": outcome}
            assert app.metrics.registry.get_sample_value("plackett_reloads_total", labels) == 1
