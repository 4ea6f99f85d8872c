"""One Ray for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ray_processes import QUIET, Head, head


@pytest.fixture(scope="session")
def ray_head() -> Iterator[Head]:
    pytest.importorskip("ray", reason="needs the extra distributed")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUIET.items():
            patch.setenv(name, value)
        with head() as started:
            yield started


@pytest.fixture(scope="module")
def sent_by_value() -> Iterator[None]:
    """Workers do not see this folder: what ``tuned_systems`` defines is sent to them whole."""
    cloudpickle = pytest.importorskip("ray.cloudpickle", reason="needs the extra distributed")
    import tuned_systems

    cloudpickle.register_pickle_by_value(tuned_systems)
    yield
    cloudpickle.unregister_pickle_by_value(tuned_systems)
