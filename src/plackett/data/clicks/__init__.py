"""Click logs: simulated or read, how positions bias them, and lists to learn from made of them."""

from plackett.data.clicks.em import estimate_by_em
from plackett.data.clicks.files import read_propensities, write_propensities
from plackett.data.clicks.log import ClickLog
from plackett.data.clicks.models import (
    PRESETS,
    CascadeModel,
    ClickModel,
    PositionModel,
    click_model,
)
from plackett.data.clicks.propensities import Propensities
from plackett.data.clicks.reading import read_clicks
from plackett.data.clicks.simulating import simulate
from plackett.data.clicks.swaps import estimate_by_swaps
from plackett.data.clicks.writing import write_clicks

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
