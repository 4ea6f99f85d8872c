"""The documentation lists what there is."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from plackett import __version__
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
    assert re.findall(r"`[\w.-]+\.py`", text) == []  # a file without its folder cannot be found


def _pages() -> list[Path]:
    return [*ROOT.glob("*.md"), *(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)]


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as forges and MyST make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_every_link_between_pages_leads_somewhere() -> None:
    broken = []
    for page in _pages():
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path, _, anchor = link.partition("#")
            if "://" in link or not (path or anchor):
                continue
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and anchor not in _anchors(target)):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert broken == []


def test_every_picture_is_on_a_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in _pages())
    pictures = [path.name for path in (DOCS / "_static").rglob("*") if path.suffix in {".png", ".svg"}]
    assert pictures
    assert [name for name in pictures if name not in text] == []


def test_the_version_is_the_same_everywhere() -> None:
    places = {
        "CHANGELOG.md": f"\n## {__version__} (",
        "CITATION.cff": f"\nversion: {__version__}\n",
        "docs/install.md": f"plackett-{__version__}-",
    }
    for page, text in places.items():
        assert text in (ROOT / page).read_text(encoding="utf-8"), page


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
