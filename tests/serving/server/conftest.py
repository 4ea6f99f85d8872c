"""Saved models of several kinds, made once."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """A function from the name of a model in serving_models to its folder."""
    pytest.importorskip("starlette", reason="pip install 'plackett[serve]'")
    from serving_models import fitted

    folder = tmp_path_factory.mktemp("models")

    def path_of(name):
        path = folder / f"{name}.plackett"
        if not path.exists():
            fitted(name).save(path)
        return path

    return path_of
