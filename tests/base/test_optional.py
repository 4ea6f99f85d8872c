from __future__ import annotations

import sys
from pathlib import Path

import pytest
import tomllib

from plackett.base.errors import _NEEDED, EXTRAS, PlackettError, require


def test_a_missing_module_is_an_error_with_the_command_that_installs_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"need Ray, which is not installed: python -m pip inst"):
        require("ray")
    with pytest.raises(PlackettError, match=r"install 'ray\[data,train\]>=2.60' \(the extra 'dist"):
        require("ray")


def test_every_extra_exists() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    assert {name: list(EXTRAS[name]) for name in EXTRAS} == {name: extras[name] for name in EXTRAS}
    assert {extra for extra, _ in _NEEDED.values()} <= set(EXTRAS)
