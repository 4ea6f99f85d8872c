"""The documentation lists what there is."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from plackett.cli.app import COMMANDS
from plackett.metrics import CONVENTION_NAMES
from plackett.objectives import OBJECTIVES

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="not run from a checkout")


def test_every_objective_and_command_is_in_the_reference(monkeypatch) -> None:
    monkeypatch.syspath_prepend(DOCS)
    import registry

    assert sorted(registry.SOURCES) == sorted(kind.name for kind in OBJECTIVES)
    table = registry.objectives_table()
    assert all(f"`{kind.name} <" in table for kind in OBJECTIVES)
    assert "`e-lambdaloss-mart`" in table
    commands = registry.commands()
    assert all(f"## plackett {name}\n" in commands for name in COMMANDS)
    assert "`--crossfit`" in commands


def test_the_guide_names_every_convention() -> None:
    text = (DOCS / "guide/metrics.md").read_text()
    assert all(f"`{name}`" in text for name in CONVENTION_NAMES)


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/explain/design.md", "docs/explain/first-hour.md"])
def test_every_path_named_for_contributors_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:src|tests|docs|benchmarks)/[^`\s]*)`", text))
    assert paths
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_the_code_of_the_page_on_other_libraries_runs() -> None:
    text = (DOCS / "howto/migration.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```{(testsetup|testcode)} migration\n(.*?)^```$", text, re.M | re.S)
    assert len(blocks) > 8
    names: dict[str, object] = {}
    for kind, code in blocks:
        skip = re.match(r":skipif: (.*)\n", code)
        if kind == "testcode" and skip and eval(skip.group(1), names):
            continue
        with warnings.catch_warnings():
            if skip:  # the code of another library, which may change its ways
                warnings.simplefilter("ignore")
            exec(re.sub(r"^:skipif:.*\n", "", code), names)
    assert len(names["scores"]) == len(names["X_valid"])
    assert "score" in names["frame"]
