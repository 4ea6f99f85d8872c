"""The command line: parses, calls the library, prints."""

from plackett.cli.app import main

__all__ = ["main"]
