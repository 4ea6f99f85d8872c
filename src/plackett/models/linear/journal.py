"""What a linear fit has solved so far, kept in its checkpoint.

A fit is a fixed sequence of solves. The journal holds the results of those that are done and the
state of the one under way, so a fit taken up again goes through the same sequence and finds most
answers written down.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from plackett.models.checkpoint import Checkpoint
from plackett.models.linear.convergence import Convergence, Planes, Solution
from plackett.models.linear.lbfgs import Save

_FILE = "journal.json"

Solve = Callable[[dict[str, Any] | None, Save | None], Solution]
"""Solves from a state (None: from the start), handing states to the second argument."""


class Journal:
    """The solves of one fit in their order."""

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self._checkpoint = checkpoint
        self._done: list[dict[str, Any]] = []
        self._state: dict[str, Any] | None = None
        self._next = 0
        self._saves = 0
        latest = None if checkpoint is None else checkpoint.latest()
        if latest is not None:
            kept = json.loads((latest / _FILE).read_text(encoding="utf-8"))
            self._done, self._state, self._saves = kept["done"], kept["state"], kept["saves"]

    def solution(self, solve: Solve) -> Solution:
        """The result of the next solve: as written down, or solved now."""
        at = self._next
        self._next += 1
        if at < len(self._done):
            return _read(self._done[at])
        state, self._state = self._state, None
        found = solve(state, None if self._checkpoint is None else self._keep)
        self._state = None
        if self._checkpoint is not None:
            self._done.append(_written(found))
            self._keep(None)
        return found

    def _keep(self, state: dict[str, Any] | None) -> None:
        self._state = state
        if self._checkpoint is None or not self._checkpoint.due():
            return
        self._saves += 1
        kept = {"done": self._done, "state": state, "saves": self._saves}
        with self._checkpoint.saving(self._saves) as folder:
            (folder / _FILE).write_text(json.dumps(kept), encoding="utf-8")


def _written(solution: Solution) -> dict[str, Any]:
    planes = solution.planes
    return {
        "weights": solution.weights.tolist(),
        "convergence": solution.convergence.to_dict(),
        "planes": None if planes is None else [planes.a.tolist(), planes.b.tolist()],
    }


def _read(kept: dict[str, Any]) -> Solution:
    planes = None
    if kept["planes"] is not None:
        planes = Planes(*(np.array(each, dtype=np.float64) for each in kept["planes"]))
    weights = np.array(kept["weights"], dtype=np.float64)
    return Solution(weights, Convergence.from_dict(kept["convergence"]), planes)
