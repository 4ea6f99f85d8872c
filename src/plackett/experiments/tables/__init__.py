"""Leaderboards as tables for papers and pages."""

from plackett.experiments.tables.latex import latex_table
from plackett.experiments.tables.markdown import markdown_table

__all__ = ["latex_table", "markdown_table"]
