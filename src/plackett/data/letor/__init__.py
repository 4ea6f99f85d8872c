"""LETOR/SVMlight text: reading it, at once or in blocks, and writing it."""

from plackett.data.letor.reader import Missing, Progress, iter_tables, read_table
from plackett.data.letor.writer import write_table

__all__ = ["Missing", "Progress", "iter_tables", "read_table", "write_table"]
