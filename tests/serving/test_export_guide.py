"""The guide lists every form."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from plackett.serving.export import FORMS

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "export.md"


@pytest.mark.skipif(not GUIDE.is_file(), reason="not run from a checkout")
def test_the_table_of_forms_is_complete_and_right() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| .*? \| (.*?)\|(.*?)\|(.*?)\|$", GUIDE.read_text(), re.M)
    listed = {name: [bool(cell.strip()) for cell in cells] for name, *cells in rows}
    kinds = ("trees", "linear", "net")
    assert listed == {form.name: [kind in form.kinds for kind in kinds] for form in FORMS}
