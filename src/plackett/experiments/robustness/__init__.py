"""What noise in the training data does to systems: curves over its level."""

from plackett.experiments.robustness.augmentation import Augmentation
from plackett.experiments.robustness.clicks import Clicks
from plackett.experiments.robustness.corruption import Corruption
from plackett.experiments.robustness.curves import RobustnessCurves, curves_of, robustness
from plackett.experiments.robustness.labels import LabelNoise
from plackett.experiments.robustness.page import (
    curve_charts,
    curve_figures,
    curve_section,
    render_curves,
    write_curves,
)
from plackett.experiments.robustness.protocol import UnderNoise
from plackett.experiments.robustness.tables import curve_grid

__all__ = [
    "Augmentation",
    "Clicks",
    "Corruption",
    "LabelNoise",
    "RobustnessCurves",
    "UnderNoise",
    "curve_charts",
    "curve_figures",
    "curve_grid",
    "curve_section",
    "curves_of",
    "render_curves",
    "robustness",
    "write_curves",
]
