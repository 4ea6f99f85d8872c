"""Real documents through every form."""

from __future__ import annotations

import numpy as np
import pytest

import plackett as pk
from plackett.serving.export import export, export_and_compare
from target_interpreters import plugin_linear, solr
from target_readers import READ, SINGLE, from_onnx, suffixed

READ_OTHERS = {
    "solr": lambda path, X, names: solr(path.read_text(), X, names),
    "elasticsearch-linear": lambda path, X, names: plugin_linear(path.read_text(), X, names),
    "onnx": lambda path, X, _: from_onnx(path, X),
}


@pytest.fixture(scope="module")
def lists(real_data):
    return pk.read(real_data / "OHSUMED" / "Fold1" / "vali.txt")


@pytest.fixture(scope="module")
def ohsumed(lists):
    names = tuple(f"f{j + 1}" for j in range(lists.n_features))
    return np.asarray(lists.features)[:150], names


@pytest.fixture(scope="module", params=[8, 63])
def trees(lists, request):
    return pk.TreeRanker(trees=10, leaves=request.param, threads=1).fit(lists)


@pytest.mark.parametrize("form", READ)
def test_documents_of_ohsumed_score_the_same(ohsumed, trees, form, tmp_path, monkeypatch) -> None:
    X, names = ohsumed
    monkeypatch.setattr("target_readers.NAMES", names)
    export(trees, tmp_path / "model", form)
    actual = READ[form](suffixed(tmp_path / "model", form), X)
    np.testing.assert_allclose(actual, trees.predict(X), rtol=0, atol=SINGLE)


_TREES = ("solr", "lightgbm-json", "xgboost-dump")


@pytest.mark.parametrize("form", [*_TREES, "elasticsearch-linear", "solr linear"])
def test_ten_thousand_documents_are_read_back_as_the_target_reads_them(real_data, lists, trees, form, tmp_path) -> None:
    parts = [pk.read(real_data / "OHSUMED" / f"Fold{k}" / "test.txt").features for k in range(1, 5)]
    documents = np.concatenate(parts)[:10_000]
    assert len(documents) == 10_000
    ranker = trees if form in _TREES else pk.LinearRanker(threads=1).fit(lists)
    worst = export_and_compare(ranker, tmp_path / "model", form.split()[0], documents=documents)
    # LightGBM's numbers are written as they are; the others sum in float32.
    assert worst == 0.0 if form == "lightgbm-json" else worst < SINGLE * (1 + np.abs(ranker.predict(documents)).max())


@pytest.mark.parametrize("form", READ_OTHERS)
def test_linear_models_score_documents_of_ohsumed_the_same(lists, ohsumed, form, tmp_path) -> None:
    ranker = pk.LinearRanker(threads=1).fit(lists)
    _assert_scores(ranker, form, ohsumed, tmp_path)


@pytest.mark.parametrize("form", ["solr", "onnx"])
def test_nets_score_documents_of_ohsumed_the_same(lists, ohsumed, form, tmp_path) -> None:
    pytest.importorskip("torch")
    ranker = pk.NeuralRanker(layers=(16, 8), epochs=2, transforms=("standard",), threads=1)
    _assert_scores(ranker.fit(lists), form, ohsumed, tmp_path)


def _assert_scores(ranker, form, ohsumed, tmp_path) -> None:
    X, names = ohsumed
    export(ranker, tmp_path / "model", form)
    expected = ranker.predict(X)
    actual = READ_OTHERS[form](tmp_path / "model", X, names)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * (1 + np.abs(expected).max()))
