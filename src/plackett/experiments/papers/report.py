"""The files of a reproduction: a report, a page and LaTeX tables per item, figures, results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plackett.base.files import write_json, write_text
from plackett.experiments.figures import FORMATS, can_draw, write_figure
from plackett.experiments.papers.paper import ItemContent, PaperItem
from plackett.experiments.papers.run import Reproduction
from plackett.experiments.report.page import render_page
from plackett.experiments.systems import environment

_FULL = "Settings and numbers of trials are the paper's, as far as it gives them."


@dataclass(frozen=True)
class ReproductionFiles:
    """Paths of what was written."""

    report: Path
    markdown: Path
    """The same as one page of Markdown."""
    results: Path
    pages: tuple[Path, ...]
    """Markdown, one per item; LaTeX tables are beside them."""
    figures: tuple[Path, ...]
    """Each figure in each format; none without Matplotlib."""


def write_reproduction(reproduction: Reproduction, folder: Path, *, command: str | None = None) -> ReproductionFiles:
    """Write all files of a reproduction into a folder; ``command`` tells the reader how to repeat it."""
    formats = FORMATS if can_draw() else ()
    pages: list[Path] = []
    figures: list[Path] = []
    for item, content in reproduction.contents:
        pages.append(folder / f"{item.file_name()}.md")
        write_text(pages[-1], markdown_page(reproduction, item, content, command, formats))
        if content.tables:
            latex = "\n".join(table.latex() for table in content.tables)
            write_text(folder / f"{item.file_name()}.tex", latex)
        for name, chart in content.charts.items():
            figures += write_figure(chart, folder / name, formats)
    results, report, markdown = (folder / f"{name}" for name in ("results.json", "report.html", "report.md"))
    write_json(results, reproduction_payload(reproduction))
    write_text(report, render_reproduction(reproduction, command=command))
    write_text(markdown, markdown_report(reproduction, command, formats))
    return ReproductionFiles(report, markdown, results, tuple(pages), tuple(figures))


def render_reproduction(reproduction: Reproduction, *, command: str | None) -> str:
    """The HTML: how many of the paper's claims hold, then every table and figure."""
    paper = reproduction.plan.paper
    return render_page(
        "reproduction.html",
        title=f"{paper.authors}, reproduced",
        lead=f"{paper.authors}: {paper.title}. {paper.convention}",
        reproduction=reproduction,
        summary=_summarize_claims(reproduction),
        command=command,
        notes=_notes(reproduction),
        settings=_settings(reproduction),
        environment=_environment(reproduction),
    )


def _summarize_claims(reproduction: Reproduction) -> str:
    claims = [claim for _, content in reproduction.contents for claim in content.claims]
    if not claims:
        return ""
    counts = Counter(claim.verdict for claim in claims)
    parts = [f"{verdict} {counts[verdict]}" for verdict in ("yes", "no", "undecided", "not tested")]
    text = f"Claims of the paper that hold here, of {len(claims)}: {', '.join(parts)}."
    if reproduction.plan.datasets.budget.quick:
        text += " On few lists or synthetic data, that says nothing about the paper."
    return text


def _notes(reproduction: Reproduction) -> tuple[str, ...]:
    """What holds for all items: the convention, the data, what was reduced and what is missing."""
    plan = reproduction.plan
    left_out = (plan.paper.left_out,) if plan.paper.left_out else ()
    reduced = plan.datasets.budget.describe() or (_FULL,)
    metrics = f"Metrics: {plan.paper.convention}"
    return (metrics, *plan.datasets.notes, *reduced, *plan.missing, *left_out)


def _settings(reproduction: Reproduction) -> dict[str, Mapping[str, Any]]:
    """Settings of every system on every data set."""
    by_name: dict[str, Mapping[str, Any]] = {}
    for plan in reproduction.plan.plans():
        seed = plan.trials[0].split.seed
        for system in plan.systems:
            settings = system.settings(seed)
            name = f"{system.name} on {plan.source.name}"
            if by_name.get(name, settings) != settings:  # the same name with other settings
                name += f", {plan.protocol}"
            by_name[name] = settings
    return by_name


def _environment(reproduction: Reproduction) -> dict[str, str]:
    systems = [system for plan in reproduction.plan.plans() for system in plan.systems]
    return environment({name for system in systems for name in system.libraries()})


def markdown_page(
    reproduction: Reproduction, item: PaperItem, content: ItemContent, command: str | None, formats: Sequence[str]
) -> str:
    """A table or figure as a page of its own."""
    paper = reproduction.plan.paper
    parts = [f"# {paper.authors}, {item.name}: {item.title}\n", *_markdown_lead(reproduction, command)]
    parts += _markdown_content(content, formats, "##")
    parts += _markdown_notes((*content.notes, *_notes(reproduction)), reproduction)
    return "\n".join(parts)


def markdown_report(reproduction: Reproduction, command: str | None, formats: Sequence[str]) -> str:
    """All tables and figures as one page."""
    paper = reproduction.plan.paper
    on = ", ".join(reproduction.plan.datasets.on)
    title = f"# {paper.authors}{f' on {on}' if on else ''}: {paper.title}\n"
    parts = [title, *_markdown_lead(reproduction, command)]
    parts.append(_summarize_claims(reproduction) + "\n")
    for item, content in reproduction.contents:
        parts.append(f"## {item.name}: {item.title}\n")
        parts += _markdown_content(content, formats, "###")
        parts.append("".join(f"- {note}\n" for note in content.notes))
    return "\n".join([*parts, *_markdown_notes(_notes(reproduction), reproduction)])


def _markdown_lead(reproduction: Reproduction, command: str | None) -> list[str]:
    paper = reproduction.plan.paper
    made = [f"Made by `{command}`.\n"] if command else []
    return [*made, f"{paper.authors}: *{paper.title}*. Rows named *paper* are its own numbers.\n"]


def _markdown_content(content: ItemContent, formats: Sequence[str], heading: str) -> list[str]:
    parts = [table.markdown() for table in content.tables]
    if "svg" in formats:
        parts += [f"![{chart.title}]({name}.svg)\n" for name, chart in content.charts.items()]
    if content.claims:
        lines = ["| claim of the paper | here | p | test | holds |", "| --- | --- | --- | --- | --- |"]
        lines += [f"| {c.text} | {c.here} | {c.p_text} | {c.test} | {c.verdict} |" for c in content.claims]
        parts.append(f"{heading} What the paper says, in our numbers\n\n" + "\n".join(lines) + "\n")
    return parts


def _markdown_notes(notes: Sequence[str], reproduction: Reproduction) -> list[str]:
    versions = ", ".join(f"{name} {value}" for name, value in _environment(reproduction).items())
    listed = "".join(f"- {note}\n" for note in notes)
    return [f"## How the numbers were made\n\n{listed}", f"Environment: {versions}.\n"]


def reproduction_payload(reproduction: Reproduction) -> dict[str, Any]:
    """A reproduction as plain data."""
    plan = reproduction.plan
    return {
        "paper": plan.paper.letter,
        "convention": plan.paper.convention,
        "quick": plan.datasets.budget.quick,
        "cut": list(plan.datasets.budget.describe()),
        "data": list(plan.datasets.notes),
        "missing": list(plan.missing),
        "ran": reproduction.ran,
        "exhibits": [
            {
                "name": item.name,
                "title": item.title,
                "numbers": content.numbers,
                "claims": [vars(claim) for claim in content.claims],
                "notes": list(content.notes),
            }
            for item, content in reproduction.contents
        ],
        "settings": _settings(reproduction),
        "environment": _environment(reproduction),
    }
