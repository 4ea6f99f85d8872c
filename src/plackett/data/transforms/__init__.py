"""Transforms of features: fitted to the training data, and stored with the model as numbers."""

from plackett.data.transforms.base import FittedTransform, Transform
from plackett.data.transforms.chain import (
    TRANSFORMS,
    Chain,
    FittedChain,
    chain,
    transform,
    transform_from_dict,
)
from plackett.data.transforms.impute import FittedImpute, Impute
from plackett.data.transforms.quantile import FittedQuantile, Quantile
from plackett.data.transforms.scaling import FittedStandard, Log1p, QueryMinMax, Standard

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
