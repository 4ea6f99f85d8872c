"""A group of workers under Ray Train: started, listened to, and ended.

Runs in the process that speaks with Ray; :func:`train_worker` runs in the workers.
"""

from __future__ import annotations

import threading
import time
import traceback
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from plackett.base.errors import ClusterError, DataError, UsageError
from plackett.data.dataset import Dataset
from plackett.distributed.line import Line
from plackett.distributed.order import Order
from plackett.distributed.peers import Peers
from plackett.distributed.post import Post
from plackett.distributed.sessions import here, machines, room, scratch
from plackett.distributed.sharding import Outline, Place, cut, open_whole

_POLL = 0.2  # seconds between looks into the post
_OURS = (DataError, UsageError, ImportError)
"""Errors that another attempt would meet again."""


def run_group(line: Line, order: Order) -> None:
    """Have the order carried out, passing messages on as they come."""
    import ray

    cluster = order.cluster
    workers = room(cluster)
    options = {"num_cpus": 0, "max_restarts": 0, "scheduling_strategy": here()}
    post = ray.remote(**options)(Post).remote(order.state)
    config = _config(order, workers, post)
    with _listening(line, post) as heard:
        try:
            _trainer(order, workers, config).fit()
        except Exception as error:
            if not heard.finished:
                raise ClusterError(_reason(error, workers, order, heard.trace)) from error


def train_worker(config: dict[str, Any]) -> None:
    """What each worker runs."""
    import ray
    from ray.train import get_context
    from ray.train.collective import broadcast_from_rank_zero

    context = get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    order, post = config["order"], config["post"]
    attempt = broadcast_from_rank_zero(uuid.uuid4().hex)
    with Peers(post, rank, size, attempt, order.cluster.limit) as peers:
        try:
            own = {name: _fetched(shares[rank]) for name, shares in config["shares"].items()}
            start, stop = config["bounds"][rank]
            keys, sizes = ray.get(config["outline"])
            hosts = peers.hosts()
            if rank == 0:
                peers.tell("workers", f"{size} workers on {', '.join(sorted(set(hosts)))}")
            result = order.work(peers, own, Outline(keys, sizes, start, stop), order.payload)
        except Exception as error:
            again = not isinstance(error, _OURS) or _is_of_network(error)
            peers.tell("trouble", (again, type(error).__name__, str(error), traceback.format_exc()))
            raise
        if rank == 0:
            peers.tell("done", result)


def _is_of_network(error: BaseException) -> bool:
    """Whether LightGBM complains of its network: a peer has died, and another attempt may help."""
    said = str(error).lower()
    return any(word in said for word in ("socket", "connect", "network"))


def _config(order: Order, workers: int, post: Any) -> dict[str, Any]:
    """What the workers are given: references to the data, which each fetches for itself."""
    import ray

    shares: dict[str, list[Any]] = {}
    config: dict[str, Any] = {"order": order.without_data(), "post": post, "shares": shares}
    for name, given in order.parts.items():
        data = given if isinstance(given, Dataset) else open_whole(given)
        bounds = cut(data.offsets, workers)
        if name == "train":
            config["bounds"] = bounds
            config["outline"] = ray.put((np.array(data.keys), np.diff(data.offsets)))
        by_place = order.cluster.shared and not isinstance(given, Dataset)
        shares[name] = [
            Place(given, *each) if by_place else ray.put(data.lists(*each)) for each in bounds
        ]
    return config


def _fetched(share: Any) -> Dataset:
    import ray

    if isinstance(share, Place):
        return share.open()
    data: Dataset = ray.get(share)
    return data


def _trainer(order: Order, workers: int, config: dict[str, Any]) -> Any:
    from ray.train import FailureConfig, RunConfig, ScalingConfig

    cluster = order.cluster
    settings: dict[str, Any] = {
        "train_loop_config": config,
        "scaling_config": ScalingConfig(
            num_workers=workers, resources_per_worker={"CPU": cluster.threads}
        ),
        "run_config": RunConfig(
            storage_path=str(scratch()),  # nothing is kept there, so nobody else need see it
            failure_config=FailureConfig(max_failures=cluster.retries, controller_failure_limit=0),
        ),
    }
    if order.backend == "lightgbm":
        from ray.train.lightgbm import LightGBMTrainer

        return LightGBMTrainer(train_worker, **settings)
    from ray.train.torch import TorchConfig, TorchTrainer

    torch = TorchConfig(backend="gloo", timeout_s=round(cluster.limit))
    return TorchTrainer(train_worker, torch_config=torch, **settings)


class _Heard:
    """What has been heard of the workers."""

    finished = False
    trace = ""


@contextmanager
def _listening(line: Line, post: Any) -> Iterator[_Heard]:
    """Pass on what the workers say, while the block lasts."""
    heard, over = _Heard(), threading.Event()
    listener = threading.Thread(target=_listen, args=(line, post, heard, over), daemon=True)
    listener.start()
    try:
        yield heard
    finally:
        over.set()
        listener.join()


def _listen(line: Line, post: Any, heard: _Heard, over: threading.Event) -> None:
    import ray

    last = False
    while not last:
        last = over.is_set()  # one more look after the end
        with suppress(ray.exceptions.RayError):
            messages, signs = ray.get(post.take.remote(), timeout=60)
            for kind, content in messages:
                _pass_on(line, heard, kind, content)
            line.send(("signs", signs))
        if not last:
            time.sleep(_POLL)


def _pass_on(line: Line, heard: _Heard, kind: str, content: Any) -> None:
    if kind == "trouble":
        again, *error = content
        heard.trace = error[-1]
        if not again:
            heard.finished = True
            line.send(("failed", tuple(error)))
        return
    heard.finished = heard.finished or kind == "done"
    line.send((kind, content))


def _could_not_start(error: Exception) -> bool:
    from ray.train import ControllerError

    if not isinstance(error, ControllerError):
        return False
    kind = type(error.controller_failure).__name__
    return kind.startswith(("WorkerGroupStartup", "InsufficientClusterResources"))


def _reason(error: Exception, workers: int, order: Order, trace: str) -> str:
    cluster = order.cluster
    said = f"{type(error).__name__}: {error}"
    if _could_not_start(error):
        return (
            f"{workers} workers of {cluster.threads} core{'s' * (cluster.threads > 1)} each could "
            f"not be started within {cluster.start_seconds:g} s: {machines()}. Ask for fewer "
            "workers or threads, or wait for the cluster to be free."
        )
    last = (trace or said).strip().splitlines()[-1]
    return (
        f"workers failed more than {cluster.retries} times (retries), last with: {last[:500]}. The "
        "last state is in the checkpoint, if there is one: start the same fit again to go on."
    )
