"""The trials of a comparison: each system on each part of the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plackett.experiments.protocols import Part
from plackett.experiments.running.code import code_version
from plackett.experiments.running.system import System
from plackett.experiments.store import Identity


@dataclass(frozen=True, eq=False)
class Job:
    """One trial of one system."""

    system: System
    part: Part
    identity: Identity

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.system.name}, {self.part.name}"


def jobs_of(systems: Sequence[System], parts: Sequence[Part], *, select: str) -> list[Job]:
    """All trials; those of one part come together, so that early results compare all systems."""
    return [Job(s, part, _identity(s, part, select)) for part in parts for s in systems]


def _identity(system: System, part: Part, select: str) -> Identity:
    return Identity(
        data=part.data,
        system=system.name,
        settings=system.settings(part.seed),
        seed=part.seed,
        part=part.division,
        metric=select,
        code=code_version(),
        libraries=system.libraries(),
    )
