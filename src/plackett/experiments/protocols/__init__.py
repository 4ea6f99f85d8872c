"""Protocols: how data are divided into trials, and over what a comparison is tested."""

from plackett.experiments.protocols.folds import Folds
from plackett.experiments.protocols.holdout import Holdout
from plackett.experiments.protocols.protocol import Part, Protocol, Trial
from plackett.experiments.protocols.seeds import Seeds
from plackett.experiments.protocols.source import Source, as_source
from plackett.experiments.protocols.spelling import PROTOCOLS, protocol
from plackett.experiments.protocols.splits import Splits

__all__ = [
    "PROTOCOLS",
    "Folds",
    "Holdout",
    "Part",
    "Protocol",
    "Seeds",
    "Source",
    "Splits",
    "Trial",
    "as_source",
    "protocol",
]
