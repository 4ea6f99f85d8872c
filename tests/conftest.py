"""Shared fixtures: real data where it is at hand, and arrays of random ragged lists."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

REAL_DATA = Path(os.environ.get("PLACKETT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))

# The first call of a kernel compiles it, and a busy machine is slow: property tests have no deadline.
# Under bounds checks the same tests run again, with fewer examples.
CHECKS_BOUNDS = os.environ.get("NUMBA_BOUNDSCHECK") == "1"
settings.register_profile("plackett", deadline=None, max_examples=20 if CHECKS_BOUNDS else 60)
settings.load_profile("plackett")

# Every test in these folders runs compiled code, and so runs again with bounds checks.
KERNEL_FOLDERS = ("data/letor", "data/transforms")

# Tests that run in one process, one after the other: two Ray clusters at a time would starve each
# other, and two processes would compile the same list functions.
TOGETHER = {"distributed": "ray", "objectives": "objectives", "contract": "objectives"}

# Tests in those folders that need no Ray, or start their own and have minutes to wait for it.
ALONE = tuple(f"tests/distributed/test_{name}.py" for name in ("hosts", "local_pool", "nets_alike", "tolerance"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark kernels, and put the folders that stay together, the slowest, first."""
    root, order = Path(__file__).parent, list(TOGETHER)
    places = []
    for item in items:
        path = item.path.relative_to(root)
        if path.parent.as_posix() in KERNEL_FOLDERS:
            item.add_marker(pytest.mark.kernels)
        places.append(order.index(path.parts[0]) if path.parts[0] in order else len(order))
    items[:] = [items[i] for i in sorted(range(len(items)), key=places.__getitem__)]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each process one file after another; what is in ``TOGETHER`` counts as one file."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            folder = file.removeprefix("tests/").partition("/")[0]
            return file if file in ALONE else TOGETHER.get(folder, file)

    return ByFile(config, log)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder with OHSUMED, MQ2007_partial ...; tests that need it skip where it is absent."""
    if not REAL_DATA.is_dir():
        pytest.skip(f"no data sets in {REAL_DATA} (set PLACKETT_DATA to their folder)")
    return REAL_DATA
