"""The examples of the guide run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "neural.md"


@pytest.mark.skipif(not GUIDE.is_file(), reason="not run from a checkout")
def test_the_examples_run_one_after_the_other(parts, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    train, validation, test = parts
    leaf = torch.zeros(test.n_docs, requires_grad=True)
    names = {"train": train, "validation": validation, "labels": test.labels}
    names |= {"offsets": test.offsets, "scores": leaf, "step": 3}
    examples = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(examples) >= 5
    for example in examples:
        exec(compile(example, str(GUIDE), "exec"), names)
    assert np.isfinite(leaf.grad.numpy()).all()
    assert leaf.grad.abs().max() > 0
    assert names["ranker"].predict(test).shape == (test.n_docs,)
