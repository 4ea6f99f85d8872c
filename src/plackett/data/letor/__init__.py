"""LETOR/SVMlight text: read it, whole or in blocks, and write it."""

from plackett.data.letor.reader import iter_tables, read_table
from plackett.data.letor.writer import write_table

__all__ = ["iter_tables", "read_table", "write_table"]
