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


# Tests that run in one process, one after the other: two Ray clusters at a time would starve each
# other, and two processes would compile the same list functions.
TOGETHER = {"distributed": "ray", "objectives": "objectives", "contract": "objectives"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark kernels, and divide the tests among processes: by file, the slowest groups first."""
    root = Path(__file__).parent
    for item in items:
        path = item.path.relative_to(root)
        if path.parent.as_posix() in KERNEL_FOLDERS:
            item.add_marker(pytest.mark.kernels)
        item.add_marker(pytest.mark.xdist_group(TOGETHER.get(path.parts[0], path.as_posix())))
    order = list(TOGETHER)
    folders = {item: item.path.relative_to(root).parts[0] for item in items}
    items.sort(
        key=lambda item: order.index(folders[item]) if folders[item] in order else len(order)
    )


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder with OHSUMED, MQ2007_partial ...; tests that need it skip where it is absent."""
    if not REAL_DATA.is_dir():
        pytest.skip(f"no data sets in {REAL_DATA} (set PLACKETT_DATA to their folder)")
    return REAL_DATA
