"""Small sets that are treated as if they were larger than memory."""

from __future__ import annotations

import pytest


@pytest.fixture
def _tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything mapped is large, blocks have a few rows, batches of Parquet files too."""
    monkeypatch.setattr("plackett.data.large_arrays.LARGE_BYTES", 0)
    monkeypatch.setattr("plackett.data.large_arrays.BLOCK_BYTES", 256)
    monkeypatch.setattr("plackett.data.columnar.reader._BATCH_ROWS", 7)
