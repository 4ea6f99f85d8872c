"""What goes wrong between machines."""

from __future__ import annotations

from plackett.base.errors import PlackettError


class ClusterError(PlackettError):
    """A cluster that cannot be reached, or that stopped working; the text says what to do."""
