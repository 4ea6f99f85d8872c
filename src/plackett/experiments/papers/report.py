"""The files of a reproduction: a report, a page and LaTeX tables per item, figures, results."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plackett.base.files import write_json, write_text
from plackett.experiments.figures import FORMATS, can_draw, write_figure
from plackett.experiments.papers.paper import ItemContent, PaperItem
from plackett.experiments.papers.run import Reproduction
from plackett.experiments.report.page import write_page
from plackett.experiments.report.write import WrittenFiles
from plackett.experiments.systems import environment

_FULL = "Settings and numbers of trials are the paper's, as far as it gives them."


def write_reproduction(reproduction: Reproduction, folder: Path, *, command: str | None = None) -> WrittenFiles:
    """Write all files of a reproduction into a folder; ``command`` tells the reader how to repeat it."""
    formats = FORMATS if can_draw() else ()
    for item, content in reproduction.contents:
        page = markdown_page(reproduction, item, content, command, formats)
        write_text(folder / f"{item.file_name()}.md", page)
        if content.tables:
            latex = "\n".join(table.latex() for table in content.tables)
            write_text(folder / f"{item.file_name()}.tex", latex)
        for name, chart in content.charts.items():
            write_figure(chart, folder / name, formats)
    files = WrittenFiles(folder / "report.html", folder / "results.json")
    write_json(files.results, reproduction_payload(reproduction))
    write_text(folder / "report.md", markdown_report(reproduction, command, formats))
    paper = reproduction.plan.paper
    write_page(
        files.report,
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
    return files


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
        for system, settings in plan.settings().items():
            name = f"{system} on {plan.source.name}"
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
    title = f"{reproduction.plan.paper.authors}, {item.name}: {item.title}"
    body = _markdown_content(content, formats, "##")
    return _markdown(reproduction, title, command, body, (*content.notes, *_notes(reproduction)))


def markdown_report(reproduction: Reproduction, command: str | None, formats: Sequence[str]) -> str:
    """All tables and figures as one page."""
    paper = reproduction.plan.paper
    on = ", ".join(reproduction.plan.datasets.on)
    body = [_summarize_claims(reproduction) + "\n"]
    for item, content in reproduction.contents:
        body += [f"## {item.name}: {item.title}\n", *_markdown_content(content, formats, "###")]
        body.append("".join(f"- {note}\n" for note in content.notes))
    title = f"{paper.authors}{f' on {on}' if on else ''}: {paper.title}"
    return _markdown(reproduction, title, command, body, _notes(reproduction))


def _markdown(
    reproduction: Reproduction, title: str, command: str | None, body: Sequence[str], notes: Sequence[str]
) -> str:
    paper = reproduction.plan.paper
    made = [f"Made by `{command}`.\n"] if command else []
    lead = f"{paper.authors}: *{paper.title}*. Rows named *paper* are its own numbers.\n"
    versions = ", ".join(f"{name} {value}" for name, value in _environment(reproduction).items())
    listed = "".join(f"- {note}\n" for note in notes)
    end = [f"## How the numbers were made\n\n{listed}", f"Environment: {versions}.\n"]
    return "\n".join([f"# {title}\n", *made, lead, *body, *end])


def _markdown_content(content: ItemContent, formats: Sequence[str], heading: str) -> list[str]:
    parts = [table.markdown() for table in content.tables]
    if "svg" in formats:
        parts += [f"![{chart.title}]({name}.svg)\n" for name, chart in content.charts.items()]
    if content.claims:
        lines = ["| claim of the paper | here | p | test | holds |", "| --- | --- | --- | --- | --- |"]
        lines += [f"| {c.text} | {c.here} | {c.p_text} | {c.test} | {c.verdict} |" for c in content.claims]
        parts.append(f"{heading} What the paper says, in our numbers\n\n" + "\n".join(lines) + "\n")
    return parts


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
