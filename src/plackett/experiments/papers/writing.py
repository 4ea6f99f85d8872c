"""The files that a reproduction leaves: a report, tables for pages and papers, figures, data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plackett.base.files import as_json, write_text
from plackett.experiments.papers.exhibit import Exhibit, Shown
from plackett.experiments.papers.page import (
    environment_of,
    notes_of,
    render_reproduction,
    settings_of,
)
from plackett.experiments.papers.reproducing import Reproduction


@dataclass(frozen=True)
class ReproductionFiles:
    """What was written."""

    report: Path
    results: Path
    pages: tuple[Path, ...]
    """Markdown, one per exhibit; LaTeX tables lie beside them."""
    figures: tuple[Path, ...]


def write_reproduction(
    found: Reproduction, folder: Path, *, command: str | None = None
) -> ReproductionFiles:
    """Write all files of a reproduction into a folder.

    Parameters
    ----------
    found
        The reproduction.
    folder
        Made if it is not there; files in it are replaced.
    command
        What repeats it, for the reader.
    """
    pages, figures = [], []
    for exhibit, shown in found.shown:
        pages.append(folder / f"{exhibit.file}.md")
        write_text(pages[-1], markdown_page(found, exhibit, shown, command=command))
        if shown.grids:
            write_text(folder / f"{exhibit.file}.tex", "\n".join(g.latex() for g in shown.grids))
        for drawing in shown.drawings:
            figures.append(folder / f"{drawing.name}.svg")
            write_text(figures[-1], drawing.svg)
    results = folder / "results.json"
    write_text(results, as_json(reproduction_payload(found)))
    report = folder / "report.html"
    write_text(report, render_reproduction(found, command=command))
    return ReproductionFiles(report, results, tuple(pages), tuple(figures))


def markdown_page(
    found: Reproduction, exhibit: Exhibit, shown: Shown, *, command: str | None
) -> str:
    """An exhibit as a page that stands alone."""
    paper = found.agenda.paper
    parts = [f"# Paper {paper.letter}, {exhibit.name}: {exhibit.title}\n"]
    if command:
        parts.append(f"Made by `{command}`.\n")
    parts.append(f"{paper.authors}: *{paper.title}*. Rows named *paper* are its own numbers.\n")
    parts += [grid.markdown() for grid in shown.grids]
    parts += [f"![{each.title}]({each.name}.svg)\n" for each in shown.drawings]
    if shown.claims:
        parts.append(_claims(shown))
    notes = (*shown.notes, *notes_of(found))
    parts.append("## How the numbers were made\n\n" + "".join(f"- {note}\n" for note in notes))
    versions = ", ".join(f"{name} {value}" for name, value in environment_of(found).items())
    parts.append(f"Environment: {versions}.\n")
    return "\n".join(parts)


def _claims(shown: Shown) -> str:
    lines = ["| claim of the paper | here | holds |", "| --- | --- | --- |"]
    lines += [f"| {each.text} | {each.here} | {each.verdict} |" for each in shown.claims]
    return "## What the paper says, in our numbers\n\n" + "\n".join(lines) + "\n"


def reproduction_payload(found: Reproduction) -> dict[str, Any]:
    """A reproduction as plain data."""
    agenda = found.agenda
    return {
        "paper": agenda.paper.letter,
        "convention": agenda.paper.convention,
        "quick": agenda.shelf.budget.quick,
        "cut": list(agenda.shelf.budget.words()),
        "data": list(agenda.shelf.notes),
        "missing": list(agenda.missing),
        "ran": found.ran,
        "exhibits": [
            {
                "name": exhibit.name,
                "title": exhibit.title,
                "numbers": shown.numbers,
                "claims": [vars(claim) for claim in shown.claims],
                "notes": list(shown.notes),
            }
            for exhibit, shown in found.shown
        ],
        "settings": settings_of(found),
        "environment": environment_of(found),
    }
