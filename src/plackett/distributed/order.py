"""What a group of workers is to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from plackett.data.dataset import Dataset
from plackett.distributed.cluster import Cluster
from plackett.distributed.peers import Peers
from plackett.distributed.sharding import Outline
from plackett.distributed.states import State

Parts = dict[str, Dataset]
Work = Callable[[Peers, Parts, Outline, Any], Any]
"""What each worker does: with its lists, what it knows of all training lists, and the payload."""
Backend = Literal["lightgbm", "torch"]


@dataclass(frozen=True)
class Order:
    """A piece of training; all of it goes to the workers."""

    work: Work
    payload: Any
    parts: dict[str, Any]
    """Part ("train", "validation") to a data set, or to the folder of a memory-mapped one."""
    backend: Backend
    state: State | None
    cluster: Cluster

    def without_data(self) -> Order:
        """The same order without the data, which go to each worker by themselves."""
        return replace(self, parts={}, state=None)
