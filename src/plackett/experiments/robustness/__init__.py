"""What noise in the training data does to systems: curves over its level."""

from plackett.experiments.robustness.curves import (
    RobustnessCurves,
    curve_charts,
    curve_figures,
    curve_grid,
    curve_section,
    curves_of,
    render_curves,
    robustness,
    write_curves,
)
from plackett.experiments.robustness.noise import (
    Augmentation,
    Clicks,
    Corruption,
    LabelNoise,
    UnderNoise,
)

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
