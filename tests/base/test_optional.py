from __future__ import annotations

import sys
from pathlib import Path

import pytest
import tomllib

from plackett.base.errors import _EXTRAS, require


def test_a_missing_module_is_an_error_with_the_command_that_installs_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"need Ray: pip install 'plackett\[distributed\]'"):
        require("ray")


def test_every_extra_exists() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    assert {extra for extra, _ in _EXTRAS.values()} <= set(extras)
