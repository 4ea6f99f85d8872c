"""Click logs: read or simulate them, estimate position bias, and make training lists from them."""

from plackett.data.clicks.files import (
    read_clicks,
    read_propensities,
    write_clicks,
    write_propensities,
)
from plackett.data.clicks.log import ClickLog
from plackett.data.clicks.models import (
    PRESETS,
    CascadeModel,
    ClickModel,
    PositionModel,
    click_model,
)
from plackett.data.clicks.propensities import Propensities, estimate_by_em, estimate_by_swaps
from plackett.data.clicks.simulation import simulate

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
