"""Which machines to use, and how long to wait for them."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import parse_qsl

from plackett.base.errors import UsageError

SPELLINGS = (
    '"local:2" (2 workers on this machine), "auto" (the Ray cluster this machine belongs to), '
    '"HOST:6379" (a Ray cluster by its head), each with settings behind it: '
    '"auto?workers=8&threads=4"'
)
_LOCAL = "local"
_CLIENT = "ray://"


@dataclass(frozen=True)
class Cluster:
    """Workers on Ray.

    Parameters
    ----------
    workers
        Processes that work together; None: as many as the cluster has room for.
    address
        Of a running Ray cluster: ``"auto"`` or ``"HOST:PORT"``; None: Ray is started on this
        machine for the time of the work, bound to the loopback address.
    threads
        Cores of each worker.
    shared
        Whether every machine sees this machine's files under the same paths. Memory-mapped data
        (``.pkdata``) are then opened by the workers themselves and do not pass through here.
    retries
        How often workers that died are replaced and the work goes on from its last state.
    start_seconds
        Time limit for all workers to start.
    answer_seconds
        Time limit for a sign of life: a worker that is silent for longer is taken for dead.
    step_seconds
        Time limit for one step (a tree, an epoch, a trial); raised where it leaves no time for
        workers to be replaced.
    """

    workers: int | None = None
    address: str | None = None
    threads: int = 1
    shared: bool = False
    retries: int = 3
    start_seconds: float = 120.0
    answer_seconds: float = 60.0
    step_seconds: float = 1800.0

    def __post_init__(self) -> None:
        for name, least in (("workers", 1), ("threads", 1), ("retries", 0)):
            value = getattr(self, name)
            if not (value is None and name == "workers") and not _whole(value, least):
                raise UsageError(
                    f"a cluster's {name} must be a whole number from {least} up, got {value!r}."
                )
        for name in ("start_seconds", "answer_seconds", "step_seconds"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise UsageError(f"a cluster's {name} must be above 0, got {value!r}.")
        if self.address is not None and self.address.startswith(_CLIENT):
            raise UsageError(
                f"{self.address}: work is started from a machine of the cluster, not through Ray's "
                "client (ray://), which Ray's own documentation advises against for training. Log "
                'in to one of its machines and use "auto", or make this machine one of them with '
                "`ray start --address=HEAD:6379` and use that address."
            )

    @property
    def limit(self) -> float:
        """Seconds without a finished step after which the work is given up."""
        return max(self.step_seconds, self.start_seconds + self.answer_seconds)

    @property
    def start_limit(self) -> float:
        """Seconds for connecting, and then for the workers to start, each with its own limit."""
        return 2 * self.start_seconds + self.answer_seconds

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return "Ray on this machine" if self.address is None else f"Ray at {self.address}"

    @property
    def local_workers(self) -> int:
        """Workers where Ray is started here."""
        return self.workers or max(1, (os.cpu_count() or 1) // self.threads)


def as_cluster(given: Cluster | str) -> Cluster:
    """A cluster from its spelling.

    >>> as_cluster("local:2").workers
    2
    >>> as_cluster("10.0.0.1:6379?workers=8&threads=4").threads
    4
    """
    if isinstance(given, Cluster):
        return given
    if not isinstance(given, str):
        raise UsageError(f"cluster must be a Cluster or a text, got {given!r}.")
    place, _, query = given.partition("?")
    settings: dict[str, Any] = _settings(given, query)
    head, _, count = place.partition(":")
    if head == _LOCAL:
        if count:
            settings["workers"] = _number(given, "workers", count)
        return Cluster(**settings)
    if place == "auto" or place.startswith(_CLIENT) or (head and count.isdecimal()):
        return Cluster(address=place, **settings)
    raise UsageError(f"no cluster is meant by {given!r}; write {SPELLINGS}.")


def _settings(given: str, query: str) -> dict[str, Any]:
    known = {field.name for field in fields(Cluster)} - {"address"}
    found: dict[str, Any] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            listed = ", ".join(sorted(known))
            raise UsageError(f"{given!r}: a cluster has no setting {name!r}; it has {listed}.")
        found[name] = _number(given, name, text)
    return found


def _number(given: str, name: str, text: str) -> Any:
    if name == "shared":
        if text not in ("0", "1"):
            raise UsageError(f"{given!r}: shared is 0 or 1, got {text!r}.")
        return text == "1"
    try:
        return float(text) if name.endswith("_seconds") else int(text)
    except ValueError:
        raise UsageError(f"{given!r}: {name} must be a number, got {text!r}.") from None


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
