"""Any value in any field of any kind of model is taken or refused, never a crash."""

from __future__ import annotations

import json
import shutil

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import plackett as pk
from plackett.models.artifact import MANIFEST_FILE, seal

JSON = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([-1, 0, 2**31, 2**63, 10**400]),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
KINDS = {
    "trees": lambda: pk.TreeRanker(trees=2, leaves=4, transforms=("standard",)),
    "stumps": lambda: pk.StumpRanker(rounds=2),
    "linear": lambda: pk.LinearRanker(),
    "cross-fitted": lambda: pk.CrossFit(pk.LinearRanker(), folds=2),
    "net": lambda: pk.NeuralRanker(layers=(3,), epochs=1),
    "boosted nets": lambda: pk.BoostedNeuralRanker(layers=(3,), epochs=1, learners=1),
}


@pytest.fixture(scope="module", params=KINDS)
def saved(request, tmp_path_factory):
    if "net" in request.param:
        pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("models") / "model"
    KINDS[request.param]().fit(pk.synthetic("letor", n_lists=12, seed=1)).save(folder)
    return folder


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_any_value_in_any_field(saved, tmp_path, data) -> None:
    folder = tmp_path / "changed"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(saved, folder)
    manifest = json.loads((folder / MANIFEST_FILE).read_text())
    place = manifest
    while True:
        key = data.draw(st.sampled_from(sorted(place)))
        if not isinstance(place[key], dict) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(JSON)
    (folder / MANIFEST_FILE).write_text(json.dumps(seal(manifest)))
    try:
        pk.load(folder).save(folder / "again")
    except pk.PlackettError:
        return
    assert (folder / "again" / MANIFEST_FILE).is_file()
