"""Fixtures for small files and tiny blocks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _quick_files() -> Iterator[None]:
    # The tests write thousands of small files; waiting for each would be most of their time.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plackett.base.files.sync", lambda _: None)
        yield


@pytest.fixture
def _tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every mapped array as large, with blocks and Parquet batches of a few rows."""
    monkeypatch.setattr("plackett.data.large_arrays.LARGE_BYTES", 0)
    monkeypatch.setattr("plackett.data.large_arrays.BLOCK_BYTES", 256)
    monkeypatch.setattr("plackett.data.columnar.reader._BATCH_ROWS", 7)
