"""Data sets larger than memory: read block by block, and kept on disk while models learn."""

from plackett.data.streaming.opening import stream

__all__ = ["stream"]
