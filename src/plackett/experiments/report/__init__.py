"""Reports of experiments: self-contained HTML files, tables, figures and results as JSON."""

from plackett.experiments.report.comparison import Report, render, write_report

__all__ = ["Report", "render", "write_report"]
