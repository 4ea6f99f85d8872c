"""What a run store raises."""

from __future__ import annotations

from plackett.base.errors import PlackettError


class StoreError(PlackettError):
    """A run store that cannot be read or written; what was finished before is kept.

    Parameters
    ----------
    place
        The file or server.
    message
        What happened and what to do.
    """

    def __init__(self, place: str, message: str) -> None:
        self.place = place
        self.message = message
        super().__init__(f"{place}: {message}")
