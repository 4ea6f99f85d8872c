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
__version__ concat convert describe evaluate load metric objective objectives per_list read
read_folds recipe split stream synthetic write
"""
SIGNATURES = {
    "evaluate": "scores dataset metrics array_metrics",
    "per_list": "scores dataset metrics array_metrics",
    "metric": "spelling convention options",
    "objective": "name parameters",
    "recipe": "name preset overrides",
    "split": "dataset shares seed",
    "synthetic": "name n_lists seed",
    "write": "dataset path sparse",
}


def test_public_names_stay() -> None:
    assert plackett.__all__ == sorted(PUBLIC.split())
    assert all(name in vars(plackett) for name in plackett.__all__)


@pytest.mark.parametrize("name", SIGNATURES)
def test_arguments_of_public_functions_stay(name: str) -> None:
    parameters = inspect.signature(getattr(plackett, name)).parameters
    assert " ".join(parameters) == SIGNATURES[name]


@pytest.mark.parametrize("heavy", ["lightgbm", "torch", "pandas", "sklearn", "pyarrow", "rich"])
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
