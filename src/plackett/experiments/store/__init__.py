"""A store of finished trials: nothing is lost, nothing is done or counted twice."""

from plackett.base.errors import StoreError
from plackett.experiments.store.store import Heartbeat, Identity, Outcome, RunStore

__all__ = ["Heartbeat", "Identity", "Outcome", "RunStore", "StoreError"]
