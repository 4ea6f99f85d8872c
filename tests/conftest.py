"""Shared fixtures: real data where it is at hand, and arrays of random ragged lists."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REAL_DATA = Path(
    os.environ.get("PLACKETT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder with OHSUMED, MQ2007_partial ...; tests that need it skip where it is absent."""
    if not REAL_DATA.is_dir():
        pytest.skip(f"no data sets in {REAL_DATA} (set PLACKETT_DATA to their folder)")
    return REAL_DATA
