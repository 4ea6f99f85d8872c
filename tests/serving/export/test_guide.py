"""The guide lists every target."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from plackett.serving.export import TARGETS

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "export.md"


@pytest.mark.skipif(not GUIDE.is_file(), reason="not run from a checkout")
def test_the_table_of_targets_is_complete() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| .*? \| (.*?)\|(.*?)\|(.*?)\|$", GUIDE.read_text(), re.M)
    listed = {name: [bool(cell.strip()) for cell in cells] for name, *cells in rows}
    kinds = ("trees", "linear", "net")
    assert listed == {target.name: [kind in target.kinds for kind in kinds] for target in TARGETS}
