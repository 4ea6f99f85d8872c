"""Models on disk: they come back as they were, and nothing in a folder can do harm."""

from __future__ import annotations

import contextlib
import json
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import plackett as pk
from plackett.base.errors import PlackettError
from plackett.models.artifact import MANIFEST_FILE, seal
from plackett.objectives import LambdaRank

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def parts():
    return pk.split(pk.synthetic("letor", n_lists=60, seed=2), (0.6, 0.2, 0.2), seed=0)


@pytest.fixture(scope="module")
def saved(parts, tmp_path_factory):
    """A linear model: the smallest folder that has every part of a manifest."""
    path = tmp_path_factory.mktemp("model") / "model.plackett"
    pk.LinearRanker(C=1.0).fit(*parts[:2]).save(path)
    return path


def _rankers():
    stochastic = pk.Stochastic(LambdaRank(sigma=2.0), samples=2, beta=0.5, seed=3)
    tree = pk.TreeRanker(objective=stochastic, trees=4, leaves=4, min_documents=2, threads=1)
    return {
        "linear": pk.LinearRanker(transforms=("standard",)),
        "trees": tree,
        "trees on transformed features": tree.clone().set_params(transforms=("quantile",)),
        "cross-fitted trees": pk.CrossFit(tree.clone(), folds=2),
        "cross-fitted by list": pk.CrossFit(tree.clone(), folds=2, repeats=2, combine="list"),
    }


@pytest.mark.parametrize("name", _rankers())
def test_a_model_comes_back_as_it_was(name, parts, tmp_path) -> None:
    train, validation, test = parts
    ranker = _rankers()[name].fit(train, validation)
    ranker.save(tmp_path / "model.plackett")
    back = pk.load(tmp_path / "model.plackett")
    assert np.array_equal(back.predict(test), ranker.predict(test))
    assert type(back) is type(ranker)
    assert back.training_ == ranker.training_
    if not isinstance(ranker, pk.CrossFit):
        assert back.get_params() == ranker.get_params()


def test_the_same_fit_gives_the_same_files(parts, tmp_path) -> None:
    for name in ("one", "two"):
        pk.recipe("xendcg-mart", trees=3, leaves=4).fit(parts[0]).save(tmp_path / name)
    first, second = ((tmp_path / name / MANIFEST_FILE).read_text() for name in ("one", "two"))
    assert first == second
    assert json.loads(first)["recipe"] == "xendcg-mart"


def test_a_model_of_a_custom_objective_can_be_used_but_not_refitted(parts, tmp_path) -> None:
    def squared(scores, labels, params, gradient, curvature):  # noqa: ARG001
        value = 0.0
        for i in range(len(scores)):
            error = scores[i] - labels[i]
            value += 0.5 * error * error
            gradient[i] = error
            curvature[i] = 1.0
        return value

    objective = pk.objectives.custom(squared, name="mine")
    ranker = pk.TreeRanker(objective=objective, trees=2, leaves=4).fit(parts[0])
    ranker.save(tmp_path / "model")
    back = pk.load(tmp_path / "model")
    assert np.array_equal(back.predict(parts[2]), ranker.predict(parts[2]))
    with pytest.raises(pk.UsageError, match="no objective 'custom:mine'"):
        back.fit(parts[0])


def test_saving_over_a_model_replaces_it_and_over_anything_else_raises(saved, parts, tmp_path) -> None:
    ranker = pk.load(saved)
    ranker.save(tmp_path / "model")
    ranker.save(tmp_path / "model")
    assert np.array_equal(pk.load(tmp_path / "model").predict(parts[2]), ranker.predict(parts[2]))
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("dear")
    with pytest.raises(pk.UsageError, match="folder with other files"):
        ranker.save(tmp_path / "letters")
    (tmp_path / "file").write_text("")
    with pytest.raises(pk.UsageError, match="is a file; a model is a folder"):
        ranker.save(tmp_path / "file")
    with pytest.raises(pk.UsageError, match="not fitted yet"):
        pk.LinearRanker().save(tmp_path / "new")


def _changed(saved, tmp_path, change):
    """A copy of the model whose manifest is changed."""
    folder = tmp_path / "changed"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(saved, folder)
    manifest = json.loads((folder / MANIFEST_FILE).read_text())
    change(manifest)
    (folder / MANIFEST_FILE).write_text(json.dumps(seal(manifest)))
    return folder


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(format="something"), 'does not begin with "format"'),
        (lambda m: m.update(version=3), "is of version 3; this plackett reads 1 to 2"),
        (lambda m: m.update(version=True), "is of version True"),
        (lambda m: m.update(kind="os.system"), "unknown kind of ranker 'os.system'"),
        (lambda m: m["settings"].update(shell="rm"), "has no parameter 'shell'"),
        (lambda m: m["features"].update(count=0), 'a positive "count", got 0'),
        (lambda m: m["features"].update(names=["a"]), "must be 46 strings"),
        (lambda m: m["features"].update(count=45, names=None), "45"),
        (lambda m: m.update(transform=None), "if and only if the settings name transforms"),
        (lambda m: m["settings"].update(C="high"), "C must be a number or a tuple, got 'high'"),
        (lambda m: m.update(transform={"transform": "shell", "version": 1}), "parameters"),
        (lambda m: m.update(recipe=3), '"recipe" must be a string or null'),
        (lambda m: m.update(files={"../../etc/passwd": {}}), "is not a valid file name"),
        (lambda m: m.update(files={"absent.txt": {}}), "is missing from the model"),
        (lambda m: m["files"]["linear.json"].update(bytes=1), "its hash differs"),
    ],
)
def test_an_invalid_manifest_raises(saved, tmp_path, change, message) -> None:
    with pytest.raises(PlackettError, match=message):
        pk.load(_changed(saved, tmp_path, change))


def test_a_digit_changed_in_the_manifest_is_noticed(saved, tmp_path) -> None:
    folder = _changed(saved, tmp_path, lambda _: None)
    file = folder / MANIFEST_FILE
    manifest = json.loads(file.read_text())
    manifest["transform"]["fitted"]["transforms"][0]["fitted"]["mean"][0] += 1
    file.write_text(json.dumps(manifest))
    with pytest.raises(pk.DataError, match="is not the manifest that was saved: its hash differs"):
        pk.load(folder)
    del manifest["sha256"]
    file.write_text(json.dumps(manifest))
    with pytest.raises(pk.DataError, match="its hash differs"):
        pk.load(folder)


def test_a_signed_model_is_told_from_others(parts, tmp_path) -> None:
    key, other = tmp_path / "key", tmp_path / "other"
    key.write_text("k" * 32 + "\n")
    other.write_text("o" * 32)
    ranker = pk.LinearRanker(C=1.0).fit(parts[0])
    ranker.save(tmp_path / "signed", sign_key=key)
    ranker.save(tmp_path / "unsigned")
    assert pk.load(tmp_path / "signed", sign_key=key).n_features_ == 46
    assert pk.load(tmp_path / "signed").n_features_ == 46
    with pytest.raises(pk.DataError, match="its signature is not one of this key"):
        pk.load(tmp_path / "signed", sign_key=other)
    with pytest.raises(pk.DataError, match=r"is not signed; .* with sign_key="):
        pk.load(tmp_path / "unsigned", sign_key=key)
    file = tmp_path / "signed" / MANIFEST_FILE
    manifest = json.loads(file.read_text())
    changed = seal({**manifest, "recipe": "another"})  # as someone without the key would
    file.write_text(json.dumps({**changed, "hmac-sha256": manifest["hmac-sha256"]}))
    with pytest.raises(pk.DataError, match="its signature is not one of this key"):
        pk.load(tmp_path / "signed", sign_key=key)
    key.write_text("short")
    with pytest.raises(pk.UsageError, match="a key has at least 16 bytes, and this one 5"):
        ranker.save(tmp_path / "new", sign_key=key)


def test_folders_without_a_model_raise(tmp_path) -> None:
    with pytest.raises(pk.DataError, match="does not exist"):
        pk.load(tmp_path / "nothing")
    with pytest.raises(pk.DataError, match="is not a model"):
        pk.load(tmp_path)
    (tmp_path / MANIFEST_FILE).write_text("[" * 100_000)
    with pytest.raises(pk.DataError, match="is not JSON"):
        pk.load(tmp_path)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_in_any_field_loads_or_raises_a_plackett_error(saved, tmp_path, data) -> None:
    def change(manifest) -> None:
        place = manifest
        while True:
            key = data.draw(st.sampled_from(sorted(place)))
            if not isinstance(place[key], dict) or not place[key] or data.draw(st.booleans()):
                break
            place = place[key]
        place[key] = data.draw(JSON)

    folder = _changed(saved, tmp_path, change)
    with contextlib.suppress(PlackettError):
        pk.load(folder)


def test_a_folder_of_another_kind_with_a_manifest_is_not_replaced(saved, parts, tmp_path) -> None:
    ranker = pk.load(saved)
    pk.write(parts[2], tmp_path / "data.pkdata")
    ranker.save(tmp_path / "model")
    (tmp_path / "model" / "notes.txt").write_text("mine")
    for name in ("data.pkdata", "model"):
        with pytest.raises(pk.UsageError, match="folder with other files"):
            ranker.save(tmp_path / name)
    assert pk.read(tmp_path / "data.pkdata").n_docs == parts[2].n_docs


def test_saving_through_a_link_replaces_what_it_points_to(saved, parts, tmp_path) -> None:
    ranker = pk.load(saved)
    ranker.save(tmp_path / "first")
    (tmp_path / "current").symlink_to(tmp_path / "first")
    ranker.save(tmp_path / "current")
    assert (tmp_path / "current").is_symlink()
    assert np.array_equal(pk.load(tmp_path / "first").predict(parts[2]), ranker.predict(parts[2]))


def test_settings_and_curves_of_trees_come_back(parts, tmp_path) -> None:
    ranker = pk.TreeRanker(monotone={0: 1, 3: -1}, trees=np.int64(3), leaves=np.int64(4))
    ranker.fit(*parts[:2]).save(tmp_path / "model")
    back = pk.load(tmp_path / "model")
    assert back.monotone == {0: 1, 3: -1}
    assert back.curves_ == ranker.curves_
    assert back.clone().fit(*parts[:2]).model_ == ranker.model_


def test_wrong_tree_sizes_do_not_make_lightgbm_read_beyond_the_text(parts) -> None:
    ranker = pk.TreeRanker(trees=3, leaves=4).fit(parts[0])
    honest = ranker.importance()
    lines = ranker.model_.splitlines()
    ranker._set_model("\n".join("tree_sizes=999999 5 5" if li.startswith("tree_sizes") else li for li in lines))
    assert ranker.importance() == honest


def test_a_failed_fit_leaves_the_fitted_model_as_it_was(parts) -> None:
    train, _, test = parts
    ranker = pk.TreeRanker(trees=3, leaves=4).fit(train)
    scores = ranker.predict(test)
    narrow = train.with_features(np.ascontiguousarray(train.features[:, :3]))
    with pytest.raises(pk.UsageError):
        ranker.set_params(growth="sideways").fit(narrow)
    assert np.array_equal(ranker.predict(test), scores)
