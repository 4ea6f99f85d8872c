"""Ranking data: the Dataset, readers and writers, transforms, cleaning, synthetic sets."""

from plackett.data.dataset import Dataset

__all__ = ["Dataset"]
