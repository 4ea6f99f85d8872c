"""Figures for papers and slides: SVG files that stand alone."""

from plackett.experiments.figures.intervals import interval_figure
from plackett.experiments.figures.lines import Line, line_figure

__all__ = ["Line", "interval_figure", "line_figure"]
