"""Click logs: read or simulate them, estimate position bias, and make training lists from them."""

from plackett.data.clicks.log import ClickLog, read_clicks, write_clicks
from plackett.data.clicks.propensities import (
    Propensities,
    estimate_by_em,
    estimate_by_swaps,
    read_propensities,
    write_propensities,
)
from plackett.data.clicks.simulation import PRESETS, CascadeModel, ClickModel, PositionModel, click_model, simulate

__all__ = [
    "PRESETS",
    "CascadeModel",
    "ClickLog",
    "ClickModel",
    "PositionModel",
    "Propensities",
    "click_model",
    "estimate_by_em",
    "estimate_by_swaps",
    "read_clicks",
    "read_propensities",
    "simulate",
    "write_clicks",
    "write_propensities",
]
