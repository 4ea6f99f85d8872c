"""The connection to Ray. Only the driver process uses it (:mod:`plackett.distributed.driver`)."""

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
_STORE_BYTES = 512 << 20  # shared memory of a Ray that is started here; more goes to disk
SCRATCH = "PLACKETT_CLUSTER_SCRATCH"
"""Environment variable that holds the folder for Ray's files."""
_shutdown_lock = threading.Lock()


@contextmanager
def ray_session(cluster: Cluster) -> Iterator[None]:
    """Connect to Ray, or start it, for the duration of the block."""
    try:
        if cluster.address is None:
            _start(cluster)
        else:
            _connect(cluster)
        yield
    finally:
        disconnect()


def scratch_folder() -> Path:
    """The folder for Ray's files; both the driver and its parent remove it."""
    return Path(os.environ[SCRATCH])


def disconnect() -> None:
    """Disconnect from Ray, and stop it if it was started here."""
    import ray

    with _shutdown_lock:
        with suppress(Exception):
            ray.shutdown()
        shutil.rmtree(scratch_folder(), ignore_errors=True)


def on_this_node() -> Any:
    """Scheduling strategy that places an actor on this machine.

    If this machine fails, the work is over anyway; the failure of another one loses no messages.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)


def count_workers(cluster: Cluster) -> int:
    """Number of workers to start: as configured, or as many as there is room for."""
    import ray

    if cluster.workers is not None:
        return cluster.workers
    nodes = [node for node in ray.nodes() if node["Alive"]]
    count = sum(int(node["Resources"].get("CPU", 0)) // cluster.threads for node in nodes)
    if count == 0:
        raise ClusterError(f"{cluster.location} has no machine with {cluster.threads} cores.")
    return count


def describe_resources() -> str:
    """The machines and cores of the cluster, as text for messages."""
    import ray

    total, free = ray.cluster_resources(), ray.available_resources()
    nodes = sum(1 for node in ray.nodes() if node["Alive"])
    return (
        f"the cluster has {nodes} machine{'' if nodes == 1 else 's'} with "
        f"{total.get('CPU', 0):g} cores, {free.get('CPU', 0):g} of them free"
    )


def _start(cluster: Cluster) -> None:
    import ray

    ray.init(
        address="local",
        num_cpus=cluster.local_workers * cluster.threads,
        include_dashboard=False,
        object_store_memory=_STORE_BYTES,
        _temp_dir=str(scratch_folder()),
        **_QUIET,
    )


def _connect(cluster: Cluster) -> None:
    """Connect within the time limit; Ray itself would wait for minutes."""
    import ray

    outcome: list[BaseException | None] = []

    def connect() -> None:
        try:
            ray.init(address=cluster.address, **_QUIET)
            outcome.append(None)
        except BaseException as error:
            outcome.append(error)

    threading.Thread(target=connect, daemon=True).start()
    deadline = time.monotonic() + cluster.start_seconds
    while not outcome and time.monotonic() < deadline:
        time.sleep(0.1)
    if not outcome or outcome[0] is not None:
        reason = f": {outcome[0]}" if outcome else f" within {cluster.start_seconds:g} s"
        raise ClusterError(
            f"{cluster.location} cannot be reached{reason}. Is it running (`ray status`), and is "
            "this machine part of it?"
        )
