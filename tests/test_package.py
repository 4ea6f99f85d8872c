"""What holds for the package as a whole."""

from __future__ import annotations

import inspect
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import plackett

ROOT = Path(__file__).resolve().parents[1]


PUBLIC = """
AutoRanker BoostedNeuralRanker ConvergenceWarning CrossFit DataError DataWarning Dataset
FeatureMismatch Fold LinearRanker Metric NeuralRanker PlackettError Stochastic StumpRanker
TreeRanker UsageError
__version__ compare concat convert describe evaluate export import_model load metric objective
objectives per_list read read_clicks read_folds recipe reproduce split stream synthetic tune write
"""
SIGNATURES = {
    "evaluate": "scores dataset more metrics query_ids",
    "per_list": "scores dataset more metrics query_ids",
    "metric": "spelling convention name options",
    "compare": (
        "data models protocol metrics baseline metric store jobs threads cluster seed test correction progress select"
    ),
    "export": "ranker path target feature_names name missing verify documents form",
    "import_model": "path form n_features feature_names",
    "read_clicks": "path progress columns",
    "reproduce": (
        "letter folder tables figures on quick trials systems settings out store jobs threads cluster seed progress"
    ),
    "tune": (
        "data model trials metric validation folds validation_share space settings store jobs "
        "threads pruner seed refit progress cluster share"
    ),
    "objective": "name parameters",
    "recipe": "name preset overrides",
    "split": "dataset shares seed",
    "synthetic": "name n_lists seed",
    "write": "dataset path sparse",
}


def test_public_names_stay() -> None:
    assert plackett.__all__ == sorted(PUBLIC.split())
    assert all(hasattr(plackett, name) for name in plackett.__all__)


def test_nothing_else_shows() -> None:
    assert dir(plackett) == plackett.__all__
    with pytest.raises(AttributeError, match="no attribute 'comparee'"):
        getattr(plackett, "comparee")  # noqa: B009


POSITIONAL = {"evaluate", "per_list", "export"}  # their three arguments are all needed


@pytest.mark.parametrize("name", sorted(set(SIGNATURES) - POSITIONAL))
def test_arguments_after_the_second_are_given_by_name(name: str) -> None:
    parameters = inspect.signature(getattr(plackett, name)).parameters.values()
    positional = [p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
    assert len(positional) <= 2, positional


def test_names_of_experiments_are_imported_when_they_are_used() -> None:
    code = (
        "import sys, plackett; assert 'plackett.experiments' not in sys.modules; "
        "assert 'plackett.serving' not in sys.modules; plackett.compare; plackett.export"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", SIGNATURES)
def test_arguments_of_public_functions_stay(name: str) -> None:
    parameters = inspect.signature(getattr(plackett, name)).parameters
    assert " ".join(parameters) == SIGNATURES[name]


@pytest.mark.parametrize("heavy", ["numpy", "scipy", "numba", "lightgbm", "torch", "pandas", "pyarrow", "rich"])
def test_importing_the_package_does_not_import_heavy_libraries(heavy: str) -> None:
    code = f"import sys, plackett; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Wheel and sdist, built in this environment (no network needed)."""
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("not run from a checkout")
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return out


def test_the_wheel_holds_the_package_and_nothing_else(built) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "plackett/py.typed" in names
    assert "plackett/experiments/report/templates/report.css" in names
    assert all(n.startswith(("plackett/", "plackett-")) for n in names)
    assert not any("__pycache__" in n for n in names)


def test_wheel_and_sdist_can_be_published(built) -> None:
    check = pytest.importorskip("twine.commands.check").check
    assert not check([str(path) for path in built.iterdir()], strict=True)


def test_the_citation_names_the_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {plackett.__version__}\n" in text


def test_the_wheel_runs_outside_the_checkout(built, tmp_path) -> None:
    (wheel,) = built.glob("*.whl")
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    code = (
        "import plackett as pk; d = pk.synthetic('letor', n_lists=5); "
        "print(pk.__file__, pk.evaluate(d.labels, d, 'ndcg@10')['ndcg@10'])"
    )
    run = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    where, value = run.stdout.split()
    assert Path(where).is_relative_to(site)
    assert float(value) == 1.0


def test_the_sdist_is_there(built) -> None:
    assert len(list(built.glob("*.tar.gz"))) == 1
