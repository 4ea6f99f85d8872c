"""Every public name has a docstring with an example."""

from __future__ import annotations

import inspect

import pytest

import plackett as pk
from plackett import objectives

# Errors and warnings are raised, not called; modules and the version are described where they are.
_SELF_EXPLAINING = {"__version__", "objectives"}


def _public():
    for name in pk.__all__:
        value = getattr(pk, name)
        if name in _SELF_EXPLAINING or (inspect.isclass(value) and issubclass(value, BaseException)):
            continue
        yield f"plackett.{name}", value
    for kind in objectives.OBJECTIVES:
        yield f"plackett.objectives.{kind.__name__}", kind


@pytest.mark.parametrize(("name", "value"), list(_public()), ids=[name for name, _ in _public()])
def test_public_names_have_an_example(name, value) -> None:
    text = inspect.getdoc(value) or ""
    assert len(text.splitlines()[0]) > 10, f"{name} has no docstring"
    assert ">>>" in text, f"{name} has no example"
