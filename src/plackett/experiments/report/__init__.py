"""Reports of comparisons: one self-contained HTML file."""

from plackett.experiments.report.contents import Report
from plackett.experiments.report.page import render, write_report

__all__ = ["Report", "render", "write_report"]
