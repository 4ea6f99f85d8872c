"""The documentation lists what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from plackett.metrics import CONVENTION_NAMES
from plackett.objectives import OBJECTIVES

DOCS = Path(__file__).resolve().parents[1] / "docs"

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="not run from a checkout")


def test_the_table_of_objectives_is_complete() -> None:
    rows = re.findall(r"^\| (`.*?) \|", (DOCS / "reference/objectives.md").read_text(), re.M)
    listed = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert sorted(listed) == sorted(each.name for each in OBJECTIVES)


def test_the_guide_names_every_convention() -> None:
    text = (DOCS / "guide/metrics.md").read_text()
    assert all(f"`{name}`" in text for name in CONVENTION_NAMES)
