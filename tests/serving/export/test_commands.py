"""``plackett export`` and ``plackett import``."""

from __future__ import annotations

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from plackett import load
from plackett.base.errors import UsageError
from plackett.cli.export import export, import_
from plackett.cli.options import expand_groups
from plackett.serving.export import TARGETS
from serving_models import NAMES, fitted, probes, scores
from target_interpreters import solr


@pytest.fixture
def run():
    app = typer.Typer()
    app.command()(expand_groups(export))
    app.command("import")(expand_groups(import_))

    def invoke(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)

    return invoke


@pytest.fixture
def model(tmp_path):
    fitted("trees").save(tmp_path / "model.plackett")
    return tmp_path / "model.plackett"


def test_a_saved_model_is_exported(run, model, tmp_path) -> None:
    done = run("export", model, "--to", "solr", "--out", tmp_path / "solr.json", "--name", "ours")
    assert done.exit_code == 0
    assert "solr.json" in done.output.replace("\n", "")
    text = (tmp_path / "solr.json").read_text()
    assert json.loads(text)["name"] == "ours"
    X = probes("trees")
    X[np.abs(X) < 1.2e-13] = 0.0
    np.testing.assert_allclose(solr(text, X, NAMES), scores("trees", X), rtol=0, atol=2e-6)


def test_names_come_from_a_file(run, model, tmp_path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("a\nb\nc\nd\ne\nf\n")
    out = tmp_path / "model.json"
    run("export", model, "--to", "lightgbm-json", "--out", out, "--names", names)
    assert json.loads(out.read_text())["feature_names"] == ["a", "b", "c", "d", "e", "f"]
    names.write_text("")
    with pytest.raises(UsageError, match="is empty"):
        run("export", model, "--to", "lightgbm-json", "--out", out, "--names", names)


def test_an_exported_model_is_imported(run, model, tmp_path) -> None:
    text, out = tmp_path / "model.txt", tmp_path / "imported.plackett"
    run("export", model, "--to", "lightgbm-text", "--out", text)
    done = run("import", text, "--out", out, "--json")
    facts = {"out": str(out), "form": "lightgbm", "trees": 12, "features": 6}
    assert json.loads(done.output) == facts
    X = probes("trees", missing=True)
    np.testing.assert_array_equal(load(out).predict(X), scores("trees", X))


def test_what_cannot_be_expressed_is_an_error(run, tmp_path) -> None:
    fitted("trees-missing").save(tmp_path / "model.plackett")
    out = tmp_path / "model.xml"
    with pytest.raises(UsageError, match="reads a missing feature as 0"):
        run("export", tmp_path / "model.plackett", "--to", "ranklib", "--out", out)
    run("export", tmp_path / "model.plackett", "--to", "ranklib", "--out", out, "--missing", "never")
    assert out.read_text().startswith("## LambdaMART")


def test_the_help_names_every_target(run) -> None:
    text = " ".join(run("export", "--help").output.replace("│", " ").split())
    for target in TARGETS:
        assert target.name.replace("-", "") in text.replace("- ", "").replace("-", "")
