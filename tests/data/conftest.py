"""Settings of the property tests, and writing without waiting for the disk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

# The first call of a kernel compiles it, which takes longer than any deadline.
settings.register_profile("plackett", deadline=None)
settings.load_profile("plackett")


@pytest.fixture(autouse=True, scope="session")
def _quick_files() -> Iterator[None]:
    # The tests write thousands of small files; waiting for each would be most of their time.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plackett.base.files._sync", lambda _: None)
        yield
