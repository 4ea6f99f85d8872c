"""How systems lose quality as noise in the training data grows."""

from plackett.experiments.robustness.curves import (
    RobustnessCurves,
    curve_charts,
    curve_table,
    read_curves,
    render_curves,
    robustness,
    robustness_payload,
    write_curves,
    write_robustness,
)
from plackett.experiments.robustness.noise import (
    NOISE_KINDS,
    Augmentation,
    Clicks,
    LabelNoise,
    Noise,
    NoiseProtocol,
    noise_kind,
)

__all__ = [
    "NOISE_KINDS",
    "Augmentation",
    "Clicks",
    "LabelNoise",
    "Noise",
    "NoiseProtocol",
    "RobustnessCurves",
    "curve_charts",
    "curve_table",
    "noise_kind",
    "read_curves",
    "render_curves",
    "robustness",
    "robustness_payload",
    "write_curves",
    "write_robustness",
]
