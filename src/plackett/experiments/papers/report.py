"""A reproduction as one HTML file.

The files that a reproduction leaves: a report, tables for pages and papers, figures, data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from plackett.base.files import write_json, write_text
from plackett.experiments.papers.paper import Claim, ItemContent, PaperItem
from plackett.experiments.papers.run import Reproduction
from plackett.experiments.report.render import closing, page
from plackett.experiments.systems import environment

_NOT_CUT = "Settings and numbers of trials are the paper's, as far as it gives them; none was cut."
_VERDICTS = {"yes": "better", "no": "worse", "not judged": ""}


def render_reproduction(found: Reproduction, *, command: str | None) -> str:
    """The HTML: what the paper says and what we found, then every exhibit."""
    paper = found.agenda.paper
    title = f"Paper {paper.letter}, made anew"
    lead = f"{paper.authors}: {paper.title}. {paper.convention}"
    parts = [
        f"<h1>{escape(title)}</h1><p class='lead'>{escape(lead)}</p>",
        _warnings(found),
        _summary(found),
        *(_section(exhibit, shown) for exhibit, shown in found.shown),
        closing(
            command=command,
            notes=notes_of(found),
            settings=settings_of(found),
            environment=environment_of(found),
        ),
    ]
    return page(title, "".join(parts))


def notes_of(found: Reproduction) -> tuple[str, ...]:
    """What holds for all exhibits: the convention, the data, what was cut and what is missing."""
    agenda = found.agenda
    left_out = (agenda.paper.left_out,) if agenda.paper.left_out else ()
    return (
        f"Metrics: {agenda.paper.convention}",
        *agenda.shelf.notes,
        *(agenda.shelf.budget.words() or (_NOT_CUT,)),
        *agenda.missing,
        *left_out,
    )


def settings_of(found: Reproduction) -> dict[str, Mapping[str, Any]]:
    """Of every system on every set; one line where they agree."""
    result: dict[str, Mapping[str, Any]] = {}
    for plan in found.agenda.plans():
        seed = plan.jobs[0].part.seed
        for system in plan.systems:
            own = system.settings(seed)
            name = f"{system.name} on {plan.source.name}"
            if result.get(name, own) != own:  # the same name under other settings
                name += f", {plan.protocol}"
            result[name] = own
    return result


def environment_of(found: Reproduction) -> dict[str, str]:
    """Versions of all that took part."""
    plans = found.agenda.plans()
    return environment({name for p in plans for s in p.systems for name in s.libraries()})


def _warnings(found: Reproduction) -> str:
    words = [*found.agenda.shelf.budget.words(), *found.agenda.shelf.notes, *found.agenda.missing]
    return "<ul>" + "".join(f"<li>{escape(each)}</li>" for each in words) + "</ul>"


def _summary(found: Reproduction) -> str:
    """How many of the paper's claims hold here, in a sentence."""
    claims = [claim for _, shown in found.shown for claim in shown.claims]
    if not claims:
        return ""
    holds = sum(claim.holds is True for claim in claims)
    text = f"Of the {len(claims)} claims of the paper that are looked for below, {holds} hold here."
    if found.agenda.shelf.budget.quick:
        text += " On few lists, or on stand-ins, that says nothing of the paper."
    return f"<p>{escape(text)}</p>"


def _claims(claims: tuple[Claim, ...]) -> str:
    if not claims:
        return ""
    wide = "text-align:left;white-space:normal"
    rows = "".join(
        f"<tr><td style='{wide};min-width:14rem'>{escape(each.text)}</td>"
        f"<td style='{wide}'>{escape(each.here)}</td>"
        f"<td class='{_VERDICTS[each.verdict]}'>{each.verdict}</td></tr>"
        for each in claims
    )
    return (
        "<h3>What the paper says, in our numbers</h3><div class='scroll'><table><thead><tr>"
        f"<th>claim</th><th style='{wide}'>here</th><th>holds</th></tr></thead><tbody>{rows}"
        "</tbody></table></div>"
    )


def _section(exhibit: PaperItem, shown: ItemContent) -> str:
    drawings = "".join(
        f"<h3>{escape(each.title)}</h3>{each.html or _framed(each.svg)}" for each in shown.drawings
    )
    grids = "".join(grid.html() for grid in shown.grids)
    notes = "".join(f"<li>{escape(note)}</li>" for note in shown.notes)
    under = f"<ul class='small'>{notes}</ul>" if notes else ""
    head = f"<h2>{escape(f'{exhibit.name}: {exhibit.title}')}</h2>"
    return f"{head}{drawings}{grids}{_claims(shown.claims)}{under}"


def _framed(svg: str) -> str:
    return f"<div class='scroll'>{svg}</div>"


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
    write_json(results, reproduction_payload(found))
    report = folder / "report.html"
    write_text(report, render_reproduction(found, command=command))
    return ReproductionFiles(report, results, tuple(pages), tuple(figures))


def markdown_page(
    found: Reproduction, exhibit: PaperItem, shown: ItemContent, *, command: str | None
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
        parts.append(_claim_rows(shown))
    notes = (*shown.notes, *notes_of(found))
    parts.append("## How the numbers were made\n\n" + "".join(f"- {note}\n" for note in notes))
    versions = ", ".join(f"{name} {value}" for name, value in environment_of(found).items())
    parts.append(f"Environment: {versions}.\n")
    return "\n".join(parts)


def _claim_rows(shown: ItemContent) -> str:
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
