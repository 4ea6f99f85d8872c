"""One piece of training by several workers at once, under Ray Train.

The function runs in every worker with its own lists. Ray Train starts the workers, replaces all of
them when one dies, and gives up after so many times; a new group goes on from the latest state that
the first worker had sent. Here the clock is watched: see :class:`plackett.distributed.Cluster`.

Which lists each worker has, and how they get there.

Lists are cut, in their canonical order, into runs of about equally many documents. That order is
one of hashes, so a run is a random sample, and a worker's lists are one slice of every array.
A list is never divided.

What a group of workers is to do.

A group of workers under Ray Train: started, listened to, and ended.

Runs in the process that speaks with Ray; :func:`train_worker` runs in the workers.
"""

from __future__ import annotations

import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from plackett.base.errors import ClusterError, DataError, UsageError
from plackett.base.ragged import Keys, Offsets, Rows
from plackett.data.dataset import Dataset
from plackett.data.mapped import is_mapped, open_mapped
from plackett.distributed.cluster import Cluster
from plackett.distributed.coordinator import Coordinator, TrainingState, WorkerGroup
from plackett.distributed.driver import DriverProcess, Pipe
from plackett.distributed.session import here, machines, room, scratch

Bounds = list[tuple[int, int]]


@dataclass(frozen=True)
class Partition:
    """What a worker knows of all lists, of which it has its own: enough to agree on batches."""

    keys: Keys
    sizes: Rows
    start: int
    """Position of its first list among all."""
    stop: int

    @classmethod
    def whole(cls, data: Dataset) -> Partition:
        """Of one process that has all lists."""
        return cls(data.keys, np.diff(data.offsets), 0, data.n_lists)

    def own(self, positions: Rows) -> Rows:
        """Those of the lists at these positions that the worker has, by their places with it."""
        return positions[(positions >= self.start) & (positions < self.stop)] - self.start


@dataclass(frozen=True)
class Place:
    """A part of a memory-mapped data set that every machine sees."""

    path: Path
    start: int
    stop: int

    def open(self) -> Dataset:
        """The lists."""
        return open_whole(self.path).lists(self.start, self.stop)


def open_whole(path: Path) -> Dataset:
    """A memory-mapped data set."""
    return open_mapped(path, missing="nan")


def cut(offsets: Offsets, count: int) -> Bounds:
    """Runs of lists with about equally many documents, at least one list each.

    >>> cut(np.array([0, 5, 6, 7, 10]), 2)
    [(0, 1), (1, 4)]
    """
    n_lists, n_docs = len(offsets) - 1, int(offsets[-1])
    if n_lists < count:
        raise UsageError(
            f"{n_lists} lists cannot be shared out among {count} workers, which need one each; use "
            "fewer workers."
        )
    bounds, start = [], 0
    for place in range(count):
        wanted = int(np.argmin(np.abs(offsets - n_docs * (place + 1) / count)))
        stop = min(max(wanted, start + 1), n_lists - (count - 1 - place))
        bounds.append((start, stop if place < count - 1 else n_lists))
        start = bounds[-1][1]
    return bounds


def place_of(data: Dataset) -> Path | None:
    """The folder of a memory-mapped data set, if ``data`` is all of one; else None."""
    array: Any = data.features
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    if not isinstance(array, np.memmap) or array.filename is None:
        return None
    folder = Path(array.filename).parent
    if not is_mapped(folder):
        return None
    there = open_mapped(folder, missing="nan")
    same = there.n_docs == data.n_docs and all(
        _equal(getattr(there, name), getattr(data, name))
        for name in ("keys", "labels", "weights", "document_weights")
    )
    return folder.resolve() if same else None


def _equal(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


Parts = dict[str, Dataset]
Work = Callable[[WorkerGroup, Parts, Partition, Any], Any]
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
    state: TrainingState | None
    cluster: Cluster

    def without_data(self) -> Order:
        """The same order without the data, which go to each worker by themselves."""
        return replace(self, parts={}, state=None)


_POLL = 0.2  # seconds between looks into the post
_OURS = (DataError, UsageError, ImportError)
"""Errors that another attempt would meet again."""


def run_group(line: Pipe, order: Order) -> None:
    """Have the order carried out, passing messages on as they come."""
    import ray

    cluster = order.cluster
    workers = room(cluster)
    options = {"num_cpus": 0, "max_restarts": 0, "scheduling_strategy": here()}
    post = ray.remote(**options)(Coordinator).remote(order.state)
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
    with WorkerGroup(post, rank, size, attempt, order.cluster.limit) as worker_group:
        try:
            own = {name: _fetched(shares[rank]) for name, shares in config["shares"].items()}
            start, stop = config["bounds"][rank]
            keys, sizes = ray.get(config["outline"])
            hosts = worker_group.hosts()
            if rank == 0:
                worker_group.tell("workers", f"{size} workers on {', '.join(sorted(set(hosts)))}")
            result = order.work(
                worker_group, own, Partition(keys, sizes, start, stop), order.payload
            )
        except Exception as error:
            again = not isinstance(error, _OURS) or _is_of_network(error)
            worker_group.tell(
                "trouble", (again, type(error).__name__, str(error), traceback.format_exc())
            )
            raise
        if rank == 0:
            worker_group.tell("done", result)


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
def _listening(line: Pipe, post: Any) -> Iterator[_Heard]:
    """Pass on what the workers say, while the block lasts."""
    heard, over = _Heard(), threading.Event()
    listener = threading.Thread(target=_listen, args=(line, post, heard, over), daemon=True)
    listener.start()
    try:
        yield heard
    finally:
        over.set()
        listener.join()


def _listen(line: Pipe, post: Any, heard: _Heard, over: threading.Event) -> None:
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


def _pass_on(line: Pipe, heard: _Heard, kind: str, content: Any) -> None:
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


def train_together(
    work: Work,
    payload: Any,
    parts: Parts,
    *,
    cluster: Cluster,
    backend: Backend,
    state: TrainingState | None,
    keep: Callable[[TrainingState], None],
    progress: Callable[[str, int, int], None],
    watch: Callable[[int, int, float], None] | None,
) -> Any:
    """Have ``work`` done by the workers of a cluster; what the first of them returns.

    Parameters
    ----------
    work, payload, parts
        A function of a module, what it is given, and the data that are shared out.
    cluster
        Where.
    backend
        What the workers speak to each other with.
    state
        To go on from.
    keep
        Called with each new state.
    progress
        Called with a text, steps done and steps in all.
    watch
        Called with steps done, steps in all and the metric; what it raises ends the work.
    """
    places = {name: place_of(data) or data for name, data in parts.items()}
    order = Order(work, payload, places, backend, state, cluster)
    with DriverProcess(cluster, run_group, order) as conductor:
        clock = _Clock(cluster)
        while True:
            kind, content = conductor.receive(clock.deadline, clock.late)
            if kind == "done":
                conductor.finish(cluster.answer_seconds)
                return content
            clock.hear(kind, content)
            if kind == "state":
                keep(content)
            elif kind == "progress":
                progress(*content)
            elif kind == "watch" and watch is not None:
                watch(*content)
            elif kind == "workers":
                progress(f"training on {content}", 0, 0)


@dataclass
class _Clock:
    """When to give up, and what to say then."""

    cluster: Cluster
    deadline: float = 0.0
    doing: str = "the workers to start"
    seconds: float = 0.0
    silent: str = ""

    def __post_init__(self) -> None:
        # Ray Train's own limit for starting workers comes first and says more.
        self._expect("the workers to start", self.cluster.start_limit)

    def hear(self, kind: str, content: Any) -> None:
        """A message came."""
        if kind == "signs":
            limit = self.cluster.answer_seconds
            silent = [f"{name} for {age:.0f} s" for name, age in content.items() if age > limit]
            self.silent = f" (silent: {', '.join(silent)})" if silent else ""
        elif kind == "progress":
            self._expect(f"the next step after {content[1]} {content[0]}", self.cluster.limit)
        else:
            self._expect("the next step", self.cluster.limit)

    def late(self) -> str:
        """What to say when time is up."""
        return (
            f"{self.cluster.place}: waited {self.seconds:g} s in vain for {self.doing}"
            f"{self.silent}; the workers were ended. The last state is in the checkpoint, if there "
            "is one: start the same fit again to go on, or raise step_seconds if a step takes that "
            "long."
        )

    def _expect(self, doing: str, seconds: float) -> None:
        self.doing, self.seconds = doing, seconds
        self.deadline = time.monotonic() + seconds
