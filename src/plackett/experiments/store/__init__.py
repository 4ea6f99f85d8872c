"""The run store: finished trials in a database, shared by several processes."""

from plackett.base.errors import StoreError
from plackett.experiments.store.store import Heartbeat, Identity, Outcome, RunStore

__all__ = ["Heartbeat", "Identity", "Outcome", "RunStore", "StoreError"]
