"""Shared fixtures: real data where it is at hand, and arrays of random ragged lists."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REAL_DATA = Path(
    os.environ.get("PLACKETT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
)

# Every test in these folders runs compiled code, and so runs again with bounds checks.
KERNEL_FOLDERS = ("data/letor", "data/transforms")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        folder = item.path.parent.relative_to(root).as_posix()
        if folder in KERNEL_FOLDERS:
            item.add_marker(pytest.mark.kernels)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder with OHSUMED, MQ2007_partial ...; tests that need it skip where it is absent."""
    if not REAL_DATA.is_dir():
        pytest.skip(f"no data sets in {REAL_DATA} (set PLACKETT_DATA to their folder)")
    return REAL_DATA
