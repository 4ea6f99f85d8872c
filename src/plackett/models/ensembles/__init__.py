"""Tree ensembles as plain arrays: read from the files of other libraries, and scored fast without a C compiler."""

from plackett.models.ensembles.catboost import read_catboost
from plackett.models.ensembles.ensemble import Ensemble
from plackett.models.ensembles.lightgbm import read_lightgbm, read_lightgbm_sum
from plackett.models.ensembles.peers import CatBoostRanker, XGBoostRanker
from plackett.models.ensembles.ranker import READERS, EnsembleRanker, import_model
from plackett.models.ensembles.ranklib import read_ranklib
from plackett.models.ensembles.xgboost import read_xgboost

__all__ = [
    "READERS",
    "CatBoostRanker",
    "Ensemble",
    "EnsembleRanker",
    "XGBoostRanker",
    "import_model",
    "read_catboost",
    "read_lightgbm",
    "read_lightgbm_sum",
    "read_ranklib",
    "read_xgboost",
]
