"""Figures for papers and slides: SVG files that stand alone, and the same as PNG."""

from plackett.experiments.figures.intervals import interval_figure
from plackett.experiments.figures.lines import Line, line_figure
from plackett.experiments.figures.png import as_png, can_draw_png, write_png

__all__ = ["Line", "as_png", "can_draw_png", "interval_figure", "line_figure", "write_png"]
