"""Models that other libraries have made."""

from plackett.models.imported.lightgbm import read_lightgbm_sum
from plackett.models.imported.ranker import READERS, EnsembleRanker
from plackett.models.imported.ranklib_xml import read_ranklib

__all__ = ["READERS", "EnsembleRanker", "read_lightgbm_sum", "read_ranklib"]
