"""Listwise learning to rank."""

from plackett._version import __version__
from plackett.data.dataset import Dataset

__all__ = ["Dataset", "__version__"]
