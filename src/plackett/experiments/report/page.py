"""A comparison as one HTML file that can be mailed, printed and read anywhere."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from pathlib import Path

from plackett.base.files import atomic_file
from plackett.data.describe import Description
from plackett.experiments.report.board import board_section, differences_section, trials_section
from plackett.experiments.report.charts import bars, curves
from plackett.experiments.report.contents import Report
from plackett.experiments.report.looking import look_section
from plackett.experiments.report.repeating import repeating_section


def write_report(report: Report, path: Path) -> None:
    """Write the report as a self-contained HTML file."""
    with atomic_file(path) as temporary:
        temporary.write_text(render(report), encoding="utf-8")


def render(report: Report) -> str:
    """The HTML of a report."""
    sections = [
        f"<h1>{escape(report.title)}</h1><p class='lead'>{escape(report.lead)}</p>",
        board_section(report.board),
        differences_section(report),
        trials_section(report),
        _curves(report),
        look_section(report.look) if report.look else "",
        _data(report.description),
        repeating_section(report),
    ]
    return page(report.title, "".join(sections))


def page(title: str, body: str) -> str:
    """A whole HTML document in the style of all reports, which needs nothing from elsewhere.

    Scripts come with what they bring to life: leaderboards, and the look into queries.
    """
    scripts = {"board.js": "class='board'", "report.js": "id='look'"}
    end = "".join(
        f"<script>{_resource(name)}</script>" for name, mark in scripts.items() if mark in body
    )
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<meta name='color-scheme' content='light dark'>"
        f"<title>{escape(title)}</title><style>{_resource('report.css')}</style></head>"
        f"<body>{body}{end}</body></html>\n"
    )


def _resource(name: str) -> str:
    return files("plackett.experiments.report").joinpath(name).read_text(encoding="utf-8")


def _curves(report: Report) -> str:
    if not report.curves:
        return ""
    title = f"{report.curve_metric} on the validation lists"
    chart = curves(report.curves, title=title, x_label=report.curve_label)
    return f"<h2>Learning curves: {escape(title)}</h2>{chart}"


def _data(d: Description) -> str:
    facts = {
        "lists": f"{d.n_lists:,}",
        "documents": f"{d.n_docs:,}",
        "features": f"{d.n_features:,}",
        "label levels": f"{d.n_levels}",
        "longest list": f"{d.longest:,}",
        "mean length": f"{d.mean_length:.1f}",
        "lowest label": f"{d.lowest_share:.1%}",
        "lists without relevant": f"{d.blank_lists:,}",
    }
    cards = "".join(f"<div><dt>{k}</dt><dd>{v}</dd></div>" for k, v in facts.items())
    lengths = bars(d.lengths, title="Lists by number of documents")
    labels = bars(d.labels, title="Documents by label")
    return (
        f"<h2>The data</h2><dl>{cards}</dl><h3>Lists by number of documents</h3>{lengths}"
        f"<h3>Documents by label</h3>{labels}"
    )
