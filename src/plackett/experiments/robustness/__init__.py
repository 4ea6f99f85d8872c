"""What noise in the training data does to systems: curves over its level."""

from plackett.experiments.robustness.curves import (
    RobustnessCurves,
    curve_charts,
    curve_figures,
    curve_section,
    curve_table,
    read_curves,
    render_curves,
    robustness,
    write_curves,
)
from plackett.experiments.robustness.noise import (
    Augmentation,
    Clicks,
    Corruption,
    LabelNoise,
    NoiseProtocol,
)

__all__ = [
    "Augmentation",
    "Clicks",
    "Corruption",
    "LabelNoise",
    "NoiseProtocol",
    "RobustnessCurves",
    "curve_charts",
    "curve_figures",
    "curve_section",
    "curve_table",
    "read_curves",
    "render_curves",
    "robustness",
    "write_curves",
]
