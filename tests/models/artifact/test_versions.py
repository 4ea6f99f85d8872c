"""Models saved by earlier versions load, and score as they did."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import plackett as pk

HERE = Path(__file__).parent
SAVED = sorted(path for path in HERE.glob("version*/*") if path.is_dir())
PROBES = np.linspace(-2, 2, 12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize("folder", SAVED, ids=lambda path: f"{path.parent.name} {path.name}")
def test_a_model_of_an_earlier_version_scores_as_it_did(folder: Path) -> None:
    if folder.name == "net":
        pytest.importorskip("torch")
    expected = json.loads((folder.parent / "scores.json").read_text())[folder.name]
    np.testing.assert_allclose(pk.load(folder).predict(PROBES), expected, rtol=1e-6)


def test_every_version_is_there() -> None:
    assert {path.parent.name for path in SAVED} == {"version1"}
    assert len(SAVED) == 5
