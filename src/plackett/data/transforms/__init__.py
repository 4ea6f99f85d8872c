"""Changes of features that are data, not code: fitted on train, kept with the model as numbers."""

from plackett.data.transforms.base import FittedTransform, Transform
from plackett.data.transforms.chain import Chain, FittedChain, chain
from plackett.data.transforms.impute import FittedImpute, Impute
from plackett.data.transforms.log1p import Log1p
from plackett.data.transforms.quantile import FittedQuantile, Quantile
from plackett.data.transforms.query_minmax import QueryMinMax
from plackett.data.transforms.registry import TRANSFORMS, transform, transform_from_dict
from plackett.data.transforms.standard import FittedStandard, Standard

__all__ = [
    "TRANSFORMS",
    "Chain",
    "FittedChain",
    "FittedImpute",
    "FittedQuantile",
    "FittedStandard",
    "FittedTransform",
    "Impute",
    "Log1p",
    "Quantile",
    "QueryMinMax",
    "Standard",
    "Transform",
    "chain",
    "transform",
    "transform_from_dict",
]
