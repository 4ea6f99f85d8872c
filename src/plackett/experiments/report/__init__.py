"""Reports of comparisons: one self-contained HTML file."""

from plackett.experiments.report.render import Report, render, write_report

__all__ = ["Report", "render", "write_report"]
