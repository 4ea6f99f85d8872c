"""Names of earlier versions work, with a warning that says what to use."""

from __future__ import annotations

import numpy as np
import pytest

import plackett as pk
from plackett.data.filters import binarise
from plackett.metrics import LabeledLists, LabelledLists


@pytest.fixture(scope="module")
def data():
    return pk.synthetic("letor", n_lists=30, seed=0)


def test_arguments_of_compare(data) -> None:
    with pytest.warns(DeprecationWarning, match="'select' is deprecated; use 'metric'"):
        result = pk.compare(data, ["listnet-linear:C=1", "listnet-linear:C=9"], select="map", metrics="map")
    with pytest.warns(DeprecationWarning, match="'randomisation' is deprecated; use 'randomization'"):
        again = pk.compare(
            data, ["listnet-linear:C=1", "listnet-linear:C=9"], metric="map", metrics="map", test="randomisation"
        )
    assert again.board.test == result.board.test == "randomization"


def test_the_share_of_tune(data) -> None:
    pytest.importorskip("optuna", reason="needs the extra tune")
    with pytest.warns(DeprecationWarning, match="'share' is deprecated; use 'validation_share'"):
        pk.tune(data, "listnet-linear", trials=1, share=0.3, refit=False)


def test_the_form_of_export(data, tmp_path) -> None:
    ranker = pk.LinearRanker("listnet", C=1.0).fit(data)
    with pytest.warns(DeprecationWarning, match="'form' is deprecated; use 'target'"):
        assert pk.export(ranker, tmp_path / "m.json", form="solr")


def test_names_of_data_and_metrics(data) -> None:
    with pytest.deprecated_call():
        assert np.array_equal(data.to_rows(data.labels), data.labels)
    with pytest.warns(DeprecationWarning, match="'binarise' is deprecated; use 'binarize'"):
        assert set(binarise(data).labels) == {0.0, 1.0}
    assert LabelledLists is LabeledLists
