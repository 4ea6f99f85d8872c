"""The files of curves under noise: a report, tables, figures and results as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plackett.base.files import write_json, write_text
from plackett.experiments.figures import FORMATS, can_draw, write_figure
from plackett.experiments.plan import Plan
from plackett.experiments.report.page import render_page
from plackett.experiments.report.write import CONVENTION
from plackett.experiments.robustness.curves import (
    RobustnessCurves,
    curve_charts,
    curve_table,
    level_text,
)
from plackett.experiments.systems import environment

CurvesByKind = Sequence[tuple[str, Plan, RobustnessCurves]]
"""For each kind of noise its name, its trials and its curves."""


@dataclass(frozen=True)
class CurveFiles:
    """Paths of what was written."""

    report: Path
    results: Path
    markdown: Path
    latex: Path
    figures: tuple[Path, ...]
    """Each figure in each format; none without Matplotlib."""


def write_robustness(
    by_kind: CurvesByKind, folder: Path, *, command: str | None = None
) -> CurveFiles:
    """Write report, tables and figures of curves under several kinds of noise.

    Parameters
    ----------
    by_kind
        The curves.
    folder
        Made if it is not there; files in it are replaced.
    command
        The command that repeats it, for the reader.
    """
    formats = FORMATS if can_draw() else ()
    files = CurveFiles(
        folder / "report.html",
        folder / "results.json",
        folder / "robustness.md",
        folder / "robustness.tex",
        tuple(
            path
            for name, _, curves in by_kind
            for figure, chart in curve_charts(curves).items()
            for path in write_figure(chart, folder / f"{name}-{figure}", formats)
        ),
    )
    tables = [curve_table(curves) for _, _, curves in by_kind]
    write_text(files.markdown, "\n".join(table.markdown() for table in tables))
    write_text(files.latex, "\n".join(table.latex() for table in tables))
    write_json(files.results, robustness_payload(by_kind))
    write_text(files.report, _render(by_kind, command))
    return files


def robustness_payload(by_kind: CurvesByKind) -> dict[str, Any]:
    """Curves as plain data."""
    plan = by_kind[0][1]
    return {
        "data": plan.source.name,
        "selected_by": plan.select,
        "noise": {name: curves.to_dict() for name, _, curves in by_kind},
        "settings": _settings(plan),
        "environment": _environment(plan),
    }


def render_curves(curves: RobustnessCurves) -> str:
    """The HTML of one kind of noise: curves, differences from the baseline, and numbers."""
    lead = (
        f"{curves.trials} trials at each level; noise in {curves.noisy} only. Bands are 95 % "
        "intervals of the means."
    )
    title = f"{curves.metric} under {curves.corruption}"
    return render_page("robustness.html", title=title, lead=lead, kinds=[_kind(curves)])


def write_curves(curves: RobustnessCurves, path: Path) -> None:
    """Write the curves as a self-contained HTML file."""
    write_text(path, render_curves(curves))


def _kind(curves: RobustnessCurves) -> dict[str, Any]:
    """What the template shows of one kind of noise."""
    return {
        "curves": curves,
        "charts": curve_charts(curves),
        "levels": [level_text(level) for level in curves.levels],
    }


def _render(by_kind: CurvesByKind, command: str | None) -> str:
    plan, first = by_kind[0][1], by_kind[0][2]
    return render_page(
        "robustness.html",
        title=f"Robustness curves on {plan.source.name}",
        lead=f"{len(plan.systems)} systems, {first.trials} trials at each level, selected by "
        f"{plan.select}. Bands are 95 % intervals of the means over trials; test lists are clean.",
        kinds=[_kind(curves) for _, _, curves in by_kind],
        command=command,
        notes=[
            *(f"{c.corruption}: {p.protocol}; noise in {c.noisy} only." for _, p, c in by_kind),
            CONVENTION,
        ],
        settings=_settings(plan),
        environment=_environment(plan),
    )


def _settings(plan: Plan) -> dict[str, Mapping[str, Any]]:
    seed = plan.trials[0].split.seed
    return {system.name: system.settings(seed) for system in plan.systems}


def _environment(plan: Plan) -> dict[str, str]:
    return environment({name for system in plan.systems for name in system.libraries()})
