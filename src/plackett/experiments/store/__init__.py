"""A store of finished trials: nothing is lost, nothing is done or counted twice."""

from plackett.base.errors import StoreError
from plackett.experiments.store.heartbeat import Heartbeat
from plackett.experiments.store.identity import Identity
from plackett.experiments.store.outcome import Outcome
from plackett.experiments.store.store import RunStore

__all__ = ["Heartbeat", "Identity", "Outcome", "RunStore", "StoreError"]
