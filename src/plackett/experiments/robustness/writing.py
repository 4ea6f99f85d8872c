"""The files that curves under noise leave: a report, tables, figures, data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from plackett.base.files import as_json, write_text
from plackett.experiments.environment import environment
from plackett.experiments.planning import Plan
from plackett.experiments.report.closing import closing
from plackett.experiments.report.page import page
from plackett.experiments.robustness.curves import RobustnessCurves
from plackett.experiments.robustness.page import curve_figures, curve_section
from plackett.experiments.robustness.tables import curve_grid

Found = Sequence[tuple[str, Plan, RobustnessCurves]]
"""For each kind of noise its name, its trials and its curves."""


@dataclass(frozen=True)
class CurveFiles:
    """What was written."""

    report: Path
    results: Path
    markdown: Path
    latex: Path
    figures: tuple[Path, ...]


def write_robustness(found: Found, folder: Path, *, command: str | None = None) -> CurveFiles:
    """Write report, tables and figures of curves under several kinds of noise.

    Parameters
    ----------
    found
        The curves.
    folder
        Made if it is not there; files in it are replaced.
    command
        What repeats it, for the reader.
    """
    drawn = {
        f"{name}-{figure}": svg
        for name, _, curves in found
        for figure, svg in curve_figures(curves).items()
    }
    files = CurveFiles(
        folder / "report.html",
        folder / "results.json",
        folder / "robustness.md",
        folder / "robustness.tex",
        tuple(folder / f"{name}.svg" for name in drawn),
    )
    grids = [curve_grid(curves) for _, _, curves in found]
    write_text(files.markdown, "\n".join(grid.markdown() for grid in grids))
    write_text(files.latex, "\n".join(grid.latex() for grid in grids))
    for path, svg in zip(files.figures, drawn.values(), strict=True):
        write_text(path, svg)
    write_text(files.results, as_json(robustness_payload(found)))
    write_text(files.report, _report(found, command))
    return files


def robustness_payload(found: Found) -> dict[str, Any]:
    """Curves as plain data."""
    plan = found[0][1]
    return {
        "data": plan.source.name,
        "selected_by": plan.select,
        "noise": {name: curves.to_dict() for name, _, curves in found},
        "settings": _settings(plan),
        "environment": _environment(plan),
    }


def _report(found: Found, command: str | None) -> str:
    plan, first = found[0][1], found[0][2]
    title = f"Robustness curves on {plan.source.name}"
    lead = (
        f"{len(plan.systems)} systems, {first.trials} trials at each level, chosen by "
        f"{plan.select}. Bands are 95 % intervals of the means over trials; test lists are clean."
    )
    sections = [
        f"<h2>Robustness curves: {escape(f'{c.metric} under {c.corruption}')}</h2>"
        f"{curve_section(c)}"
        for _, _, c in found
    ]
    notes = [
        *(f"{c.corruption}: {p.protocol}; noise in {c.noisy} only." for _, p, c in found),
        "Metrics, unless their names say otherwise: gain 2^label - 1, discount 1/log2(1 + rank), "
        "lists without a relevant document left out, ERR with the top label of each list.",
    ]
    end = closing(
        command=command, notes=notes, settings=_settings(plan), environment=_environment(plan)
    )
    head = f"<h1>{escape(title)}</h1><p class='lead'>{escape(lead)}</p>"
    return page(title, "".join([head, *sections, end]))


def _settings(plan: Plan) -> dict[str, Mapping[str, Any]]:
    seed = plan.jobs[0].part.seed
    return {system.name: system.settings(seed) for system in plan.systems}


def _environment(plan: Plan) -> dict[str, str]:
    return environment({name for system in plan.systems for name in system.libraries()})
