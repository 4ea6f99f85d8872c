"""Connecting to Ray, or starting it here; only from the process that is meant for it."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from plackett.base.errors import ClusterError
from plackett.distributed.cluster import Cluster

_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
_STORE = 512 << 20  # bytes of shared memory where Ray is started here; more goes to disk
SCRATCH = "PLACKETT_CLUSTER_SCRATCH"
"""Environment variable that names the folder."""
_leaving = threading.Lock()


@contextmanager
def connected(cluster: Cluster) -> Iterator[None]:
    """Ray, for the time of the block."""
    try:
        _connect(cluster, scratch() if cluster.address is None else None)
        yield
    finally:
        disconnect()


def scratch() -> Path:
    """A folder for whatever Ray wants to write; whoever ends last removes it."""
    return Path(os.environ[SCRATCH])


def disconnect() -> None:
    """Leave Ray, and end it if it was started here."""
    import ray

    with _leaving:
        with suppress(Exception):
            ray.shutdown()
        shutil.rmtree(scratch(), ignore_errors=True)


def here() -> Any:
    """Where an actor goes that hears from all: this machine.

    If it goes, all is over anyway; if another goes, nothing is lost.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)


def room(cluster: Cluster) -> int:
    """How many workers to start: as many as asked for, or as there is room for."""
    import ray

    if cluster.workers is not None:
        return cluster.workers
    nodes = [node for node in ray.nodes() if node["Alive"]]
    count = sum(int(node["Resources"].get("CPU", 0)) // cluster.threads for node in nodes)
    if count == 0:
        raise ClusterError(f"{cluster.place} has no machine with {cluster.threads} cores.")
    return count


def machines() -> str:
    """What the cluster has, in words."""
    import ray

    total, free = ray.cluster_resources(), ray.available_resources()
    nodes = sum(1 for node in ray.nodes() if node["Alive"])
    return (
        f"the cluster has {nodes} machine{'' if nodes == 1 else 's'} with "
        f"{total.get('CPU', 0):g} cores, {free.get('CPU', 0):g} of them free"
    )


def _connect(cluster: Cluster, folder: Path | None) -> None:
    import ray

    if folder is not None:
        ray.init(
            address="local",
            num_cpus=cluster.local_workers * cluster.threads,
            include_dashboard=False,
            object_store_memory=_STORE,
            _temp_dir=str(folder),
            **_QUIET,
        )
        return
    found: list[BaseException | None] = []

    def join() -> None:
        try:
            ray.init(address=cluster.address, **_QUIET)
            found.append(None)
        except BaseException as error:
            found.append(error)

    # Ray itself would wait for minutes.
    threading.Thread(target=join, daemon=True).start()
    deadline = time.monotonic() + cluster.start_seconds
    while not found and time.monotonic() < deadline:
        time.sleep(0.1)
    if not found or found[0] is not None:
        reason = f": {found[0]}" if found else f" within {cluster.start_seconds:g} s"
        raise ClusterError(
            f"{cluster.place} cannot be reached{reason}. Is it running (`ray status`), and is this "
            "machine part of it?"
        )
