"""The configuration of a cluster: where it is, how many workers to use, how long to wait."""

import os
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import parse_qsl

from plackett.base.errors import UsageError

ADDRESSES = (
    '"local:2" (2 workers on this machine), "auto" (the Ray cluster of this machine) or '
    '"HOST:6379" (a Ray cluster by its head), optionally with settings: "auto?workers=8&threads=4"'
)
_LOCAL = "local"
_CLIENT = "ray://"


@dataclass(frozen=True)
class Cluster:
    """Workers on Ray.

    Parameters
    ----------
    workers
        Number of worker processes; None: as many as the cluster has room for.
    address
        Address of a running Ray cluster: ``"auto"`` or ``"HOST:PORT"``. None: start Ray on this
        machine, bound to the loopback address, and stop it at the end.
    threads
        Cores of each worker.
    shared
        Whether every machine sees this machine's files under the same paths. Workers then open
        memory-mapped data (``.pkdata``) themselves instead of receiving them from this machine.
    retries
        How many times dead workers are replaced. A fit continues from its last state, a task starts again.
    start_seconds
        Time limit for all workers to start.
    answer_seconds
        Ray considers a worker dead if it does not answer for this long; error messages name such workers.
    step_seconds
        Time limit for one step (a tree, an epoch, a step of a trial, a shard). It is increased if it
        leaves no time to replace workers.
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
            is_count = isinstance(value, int) and not isinstance(value, bool) and value >= least
            if not is_count and not (value is None and name == "workers"):
                raise UsageError(f"cluster: {name} must be an integer >= {least}, got {value!r}.")
        for name in ("start_seconds", "answer_seconds", "step_seconds"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise UsageError(f"cluster: {name} must be above 0, got {value!r}.")
        if self.address is not None and self.address.startswith(_CLIENT):
            raise UsageError(
                f"{self.address}: work cannot be started through Ray's client (ray://), which "
                "Ray's documentation advises against for training. Log in to a machine of the "
                'cluster and use "auto", or add this machine to the cluster with '
                "`ray start --address=HEAD:6379` and use that address."
            )

    @property
    def limit(self) -> float:
        """Seconds without a finished step after which the work is aborted."""
        return max(self.step_seconds, self.start_seconds + self.answer_seconds)

    @property
    def start_limit(self) -> float:
        """Seconds for connecting and for starting the workers, each of which has its own limit."""
        return 2 * self.start_seconds + self.answer_seconds

    @property
    def location(self) -> str:
        """Where the cluster is, for messages."""
        return "Ray on this machine" if self.address is None else f"Ray at {self.address}"

    @property
    def local_workers(self) -> int:
        """Number of workers if Ray is started on this machine."""
        return self.workers or max(1, (os.cpu_count() or 1) // self.threads)


def as_cluster(cluster: Cluster | str) -> Cluster:
    """Parse the address of a cluster; a :class:`Cluster` is returned as it is.

    >>> as_cluster("local:2").workers
    2
    >>> as_cluster("10.0.0.1:6379?workers=8&threads=4").threads
    4
    """
    if isinstance(cluster, Cluster):
        return cluster
    if not isinstance(cluster, str):
        raise UsageError(f"cluster must be a Cluster or a string, got {cluster!r}.")
    address, _, query = cluster.partition("?")
    names = {field.name for field in fields(Cluster)} - {"address"}
    settings: dict[str, Any] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in names:
            raise UsageError(f"{cluster!r}: unknown setting {name!r}; a cluster has {', '.join(sorted(names))}.")
        settings[name] = _parse_value(cluster, name, text)
    host, _, port = address.partition(":")
    if host == _LOCAL:
        if port:
            settings["workers"] = _parse_value(cluster, "workers", port)
        return Cluster(**settings)
    if address == "auto" or address.startswith(_CLIENT) or (host and port.isdecimal()):
        return Cluster(address=address, **settings)
    raise UsageError(f"invalid cluster {cluster!r}; expected {ADDRESSES}.")


def _parse_value(cluster: str, name: str, text: str) -> Any:
    if name == "shared":
        if text not in ("0", "1"):
            raise UsageError(f"{cluster!r}: shared must be 0 or 1, got {text!r}.")
        return text == "1"
    try:
        return float(text) if name.endswith("_seconds") else int(text)
    except ValueError:
        raise UsageError(f"{cluster!r}: {name} must be a number, got {text!r}.") from None
