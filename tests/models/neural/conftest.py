from __future__ import annotations

import numpy as np
import pytest

from plackett.data.dataset import Dataset
from plackett.data.folds import split
from plackett.data.synthetic import synthetic


@pytest.fixture(autouse=True, scope="package")
def _one_thread():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="package")
def small() -> Dataset:
    """Ragged lists of 1 to 9 documents, some of one level of labels."""
    rng = np.random.default_rng(11)
    sizes = [1, 5, 9, 2, 7, 3, 5, 8, 4, 6]
    ids = np.repeat(np.arange(len(sizes)), sizes)
    features = rng.normal(size=(len(ids), 4))
    labels = rng.integers(0, 4, len(ids)).astype(float)
    labels[ids == 3] = 1.0
    return Dataset.from_arrays(features, labels, ids)


@pytest.fixture(scope="package")
def parts() -> tuple[Dataset, Dataset, Dataset]:
    data = synthetic("letor", n_lists=90, seed=3)
    train, validation, test = split(data, (0.5, 0.2, 0.3), seed=1)
    return train, validation, test


@pytest.fixture
def save_always(monkeypatch) -> None:
    """Save after each step, so that a fit may break off anywhere."""
    from plackett.models.checkpoint import Checkpoint

    monkeypatch.setattr(Checkpoint, "seconds", 0.0)
    monkeypatch.setattr(Checkpoint, "share", 1e9)
