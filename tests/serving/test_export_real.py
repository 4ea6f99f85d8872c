"""Real documents through every form."""

from __future__ import annotations

import numpy as np
import pytest
from test_export_trees import READ, SINGLE, suffixed

import plackett as pk
from plackett.serving.export import export


@pytest.fixture(scope="module")
def ohsumed(real_data):
    lists = pk.read(real_data / "OHSUMED" / "Fold1" / "vali.txt")
    ranker = pk.TreeRanker(trees=10, leaves=8, threads=1).fit(lists)
    names = tuple(f"f{j + 1}" for j in range(lists.n_features))
    return ranker, np.asarray(lists.features)[:150], names


@pytest.mark.parametrize("form", READ)
def test_documents_of_ohsumed_score_the_same(ohsumed, form, tmp_path, monkeypatch) -> None:
    ranker, X, names = ohsumed
    monkeypatch.setattr("test_export_trees.NAMES", names)
    export(ranker, tmp_path / "model", form)
    found = READ[form](suffixed(tmp_path / "model", form), X)
    np.testing.assert_allclose(found, ranker.predict(X), rtol=0, atol=SINGLE)
