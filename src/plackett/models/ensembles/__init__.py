"""Tree ensembles as values: read from other libraries' files, scored fast without a compiler."""

from plackett.models.ensembles.ensemble import Ensemble
from plackett.models.ensembles.lightgbm_text import read_lightgbm
from plackett.models.ensembles.xgboost_json import read_xgboost

__all__ = ["Ensemble", "read_lightgbm", "read_xgboost"]
