"""The British spelling ``optimiser`` keeps working, with a warning."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from plackett.cli.options import parse_settings
from plackett.experiments.systems import as_systems
from plackett.experiments.tuning.tune import plan_search
from plackett.models import BoostedNeuralRanker, CrossFit, NeuralRanker, load, recipe

VERSION_1 = Path(__file__).parents[1] / "artifact" / "version1" / "net"


@pytest.mark.parametrize(
    "make",
    [
        lambda: NeuralRanker(optimiser="adagrad"),
        lambda: BoostedNeuralRanker(optimiser="adagrad"),
        lambda: NeuralRanker().set_params(optimiser="adagrad"),
        lambda: recipe("urank", preset="D-ohsumed", optimiser="adagrad"),
        lambda: CrossFit(NeuralRanker()).set_params(ranker__optimiser="adagrad").ranker,
        lambda: as_systems(["urank"], settings={"optimiser": "adagrad"})[0].ranker,
        lambda: NeuralRanker(**parse_settings(["optimiser=adagrad"])),
        lambda: plan_search("urank", settings={"optimiser": "adagrad"}).ranker,
    ],
    ids=["constructor", "boosted", "set_params", "recipe", "nested", "systems", "command line", "tune"],
)
def test_the_old_spelling_sets_the_optimizer_and_warns(make) -> None:
    with pytest.warns(DeprecationWarning, match="'(ranker__)?optimiser' is deprecated; use"):
        ranker = make()
    assert ranker.optimizer == ranker.get_params()["optimizer"] == "adagrad"


def test_the_old_attribute_is_the_new_one_and_warns() -> None:
    ranker = NeuralRanker()
    with pytest.warns(DeprecationWarning, match="use 'optimizer'"):
        ranker.optimiser = "adamw"
    with pytest.warns(DeprecationWarning, match="use 'optimizer'"):
        assert ranker.optimiser == ranker.optimizer == "adamw"


@pytest.mark.skipif(not VERSION_1.is_dir(), reason="not run from a checkout")
def test_saved_models_with_the_old_spelling_load_without_a_warning() -> None:
    pytest.importorskip("torch")
    assert '"optimiser": "adam"' in (VERSION_1 / "manifest.json").read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(VERSION_1).optimizer == "adam"
