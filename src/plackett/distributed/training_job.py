"""Training of one model by several workers at once, under Ray Train.

A job passes through three processes. :meth:`TrainingJob.run` is called in the user's process and watches the clock.
:func:`run_workers` runs in the driver process: it distributes the data, starts the workers and passes their messages
on. :func:`train_worker` runs in every worker and calls the job's function with the worker's own lists.

If a worker dies, Ray Train replaces all of them, at most ``retries`` times; the new ones continue from the latest state
that the first worker has sent to the :class:`~plackett.distributed.coordinator.Coordinator`. If Ray Train's controller
dies, the driver process is ended, which frees its cores, and another one starts from the latest state.

**Partitions.** The lists, in canonical order, are divided into runs with about the same number of
documents. The canonical order is an order of hashes, so each run is a random sample, and a worker's
lists are one slice of every array. A list is never divided.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from plackett.base.errors import ClusterError, DataError, UsageError
from plackett.base.ragged import Keys, Offsets, Rows
from plackett.data import Dataset
from plackett.data.canonical import PermutedRows
from plackett.data.mapped import is_mapped, open_mapped
from plackett.distributed import driver_process
from plackett.distributed.cluster import Cluster
from plackett.distributed.coordinator import Coordinator, TrainingState, WorkerGroup


@dataclass(frozen=True)
class Partition:
    """The training lists of one worker, and the keys and sizes of all lists.

    Every worker knows the keys and sizes of all lists, so that all can agree on batches.
    """

    keys: Keys
    sizes: Rows
    start: int
    """Position of the worker's first list among all lists."""
    stop: int

    @classmethod
    def whole(cls, data: Dataset) -> Partition:
        """The partition of a single process that has all lists."""
        return cls(data.keys, np.diff(data.offsets), 0, data.n_lists)

    def to_local(self, positions: Rows) -> Rows:
        """Convert positions among all lists to the worker's own; other lists are left out."""
        return positions[(positions >= self.start) & (positions < self.stop)] - self.start


def open_folder(path: Path) -> Dataset:
    """Open a memory-mapped data set, in canonical order."""
    return open_mapped(path, missing="nan").canonical(copy=False)


def split_lists(offsets: Offsets, count: int) -> list[tuple[int, int]]:
    """Divide lists into ``count`` runs with about the same number of documents, at least one list each.

    >>> split_lists(np.array([0, 5, 6, 7, 10]), 2)
    [(0, 1), (1, 4)]
    """
    n_lists, n_docs = len(offsets) - 1, int(offsets[-1])
    if n_lists < count:
        raise UsageError(
            f"{n_lists} lists cannot be divided among {count} workers, which need at least one each; use fewer workers."
        )
    bounds, start = [], 0
    for i in range(count):
        nearest = int(np.argmin(np.abs(offsets - n_docs * (i + 1) / count)))
        stop = min(max(nearest, start + 1), n_lists - (count - 1 - i))
        bounds.append((start, stop if i < count - 1 else n_lists))
        start = bounds[-1][1]
    return bounds


def find_mapped_folder(data: Dataset) -> Path | None:
    """The folder of a memory-mapped data set if ``data`` is all of it, else None."""
    features: Any = data.features
    array = features.matrix if isinstance(features, PermutedRows) else features
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    if not isinstance(array, np.memmap) or array.filename is None:
        return None
    folder = Path(array.filename).parent
    if not is_mapped(folder):
        return None
    stored, canonical = open_folder(folder), data.canonical(copy=False)
    same = stored.n_docs == data.n_docs
    for name in ("keys", "labels", "weights", "document_weights"):
        one, other = getattr(stored, name), getattr(canonical, name)
        same = same and (one is other if one is None or other is None else np.array_equal(one, other))
    return folder.resolve() if same else None


TrainFunction = Callable[[WorkerGroup, dict[str, Dataset], Partition, Any], Any]
"""The function that each worker calls with its group, its lists of each part, its partition and the specification."""
Backend = Literal["lightgbm", "torch"]

_POLL_SECONDS = 0.2  # between reads of the coordinator's messages
_PERMANENT = (DataError, UsageError, ImportError)
"""Errors that another attempt would raise again. But a DataError may also wrap a network error of LightGBM."""


@dataclass(frozen=True)
class TrainingJob:
    """Training of one model by the workers of a cluster."""

    function: TrainFunction
    """At module level."""
    spec: Any
    """What the function needs to know besides its lists; goes to every worker."""
    parts: Mapping[str, Dataset | Path]
    """The data that are divided among the workers: "train" and perhaps "validation"."""
    cluster: Cluster
    backend: Backend
    """How the workers communicate."""
    state: TrainingState | None = None
    """The state to continue from."""

    def run(
        self,
        *,
        save_state: Callable[[TrainingState], None],
        progress: Callable[[str, int, int], None],
        watch: Callable[[int, int, float], None] | None = None,
    ) -> Any:
        """Train, and return what the function returns in the first worker.

        ``progress`` is called with a text, the steps done and the number of steps, ``watch`` with the steps done, the
        number of steps and the validation metric; an exception that it raises ends the training.
        """
        # Memory-mapped data are opened by the driver instead of being sent to it.
        parts = {
            name: data if isinstance(data, Path) else find_mapped_folder(data) or data
            for name, data in self.parts.items()
        }
        latest = [self.state]

        def keep(state: TrainingState) -> None:
            latest[0] = state
            save_state(state)

        for _ in range(self.cluster.retries):
            try:
                return replace(self, parts=parts, state=latest[0])._run_driver(keep, progress, watch)
            except _ControllerDiedError:
                progress("the controller of the workers died; starting again", 0, 0)
        return replace(self, parts=parts, state=latest[0])._run_driver(keep, progress, watch)

    def _run_driver(
        self,
        save_state: Callable[[TrainingState], None],
        progress: Callable[[str, int, int], None],
        watch: Callable[[int, int, float], None] | None,
    ) -> Any:
        """Train under one driver process; when it ends, Ray releases all resources of the training."""
        cluster = self.cluster
        # Ray Train's own limit for starting workers is reached first and its message says more.
        start = ("the workers to start", cluster.start_limit)
        (awaited, seconds), silent = start, ""
        with driver_process.DriverProcess(cluster, run_workers, self) as driver:
            deadline = time.monotonic() + seconds
            while True:
                kind, content = driver.receive(
                    deadline,
                    f"{cluster.location}: {awaited} did not come within {seconds:g} s{silent}; the workers were "
                    "stopped. The last state is in the checkpoint, if there is one: run the same fit again to "
                    "continue, or raise step_seconds if a step takes that long.",
                )
                if kind == "heartbeats":
                    late = [f"{name} for {age:.0f} s" for name, age in content if age > cluster.answer_seconds]
                    silent = f" (silent: {', '.join(late)})" if late else ""
                    continue
                awaited, seconds = "the next step", cluster.limit
                if kind == "done":
                    driver.finish(cluster.answer_seconds)
                    return content
                if kind == "controller died":
                    raise _ControllerDiedError(content)
                if kind == "restart":
                    awaited, seconds = start
                elif kind == "state":
                    save_state(content)
                elif kind == "progress":
                    awaited = f"the next step after {content[1]} {content[0]}"
                    progress(*content)
                elif kind == "watch" and watch is not None:
                    watch(*content)
                elif kind == "workers":
                    progress(f"training on {content}", 0, 0)
                elif kind == "failure":
                    progress(f"workers are replaced after: {content}", 0, 0)
                deadline = time.monotonic() + seconds


def run_workers(pipe: driver_process.Pipe, job: TrainingJob) -> None:
    """Run a job in the driver process, passing messages on as they come."""
    import ray

    workers = driver_process.count_workers(job.cluster)
    options = {"num_cpus": 0, "max_restarts": 0, "scheduling_strategy": driver_process.on_this_node()}
    coordinator = ray.remote(**options)(Coordinator).remote(job.state)
    config = _worker_config(job, workers, coordinator)
    with _forward_messages(pipe, coordinator) as seen:
        try:
            fit_with_restarts(
                lambda: _make_trainer(job, workers, config).fit(),
                retries=job.cluster.retries,
                on_restart=lambda: pipe.send(("restart", None)),
            )
        except Exception as error:
            text = _failure_text(error, workers, job, seen.traceback)
            if not seen.finished and _start_failure(error) == _CONTROLLER_DIED:
                # Its workers and their cores stay taken until this process has ended.
                pipe.send(("controller died", text))
            elif not seen.finished:
                raise ClusterError(text) from error


class _ControllerDiedError(ClusterError):
    """Ray Train's controller died; another driver process can begin again."""


def fit_with_restarts(fit: Callable[[], Any], *, retries: int, on_restart: Callable[[], None]) -> None:
    """Call ``fit`` again if a worker dies before all have started, at most ``retries`` times.

    Workers that die later are replaced by Ray Train.
    """
    for attempt in range(retries + 1):
        try:
            fit()
        except Exception as error:
            if attempt == retries or _start_failure(error) != _DIED:
                raise
            on_restart()
        else:
            return


def train_worker(config: dict[str, Any]) -> None:
    """Train with the lists of this worker; runs in every worker process."""
    import ray
    from ray.train import get_context
    from ray.train.collective import broadcast_from_rank_zero

    context = get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    job = config["job"]
    attempt = broadcast_from_rank_zero(uuid.uuid4().hex)
    with WorkerGroup(config["coordinator"], rank, size, attempt, job.cluster.limit) as group:
        try:
            parts = {name: fetch_lists(slices[rank]) for name, slices in config["slices"].items()}
            keys, sizes = ray.get(config["lists"])
            hosts = group.host_addresses()
            if rank == 0:
                group.send("workers", f"{size} workers on {', '.join(sorted(set(hosts)))}")
            partition = Partition(keys, sizes, *config["bounds"][rank])
            result = job.function(group, parts, partition, job.spec)
        except Exception as error:
            can_retry = not isinstance(error, _PERMANENT) or _is_network_error(error)
            group.send("error", (can_retry, driver_process.record_error(error)))
            raise
        if rank == 0:
            group.send("done", result)


def _is_network_error(error: BaseException) -> bool:
    """Whether LightGBM reports a failure of its network: another worker has died."""
    text = str(error).lower()
    return any(word in text for word in ("socket", "connect", "network"))


def _worker_config(job: TrainingJob, workers: int, coordinator: Any) -> dict[str, Any]:
    """What the workers receive: references to the data, which each worker fetches itself."""
    import ray

    slices: dict[str, list[Any]] = {}
    config: dict[str, Any] = {"job": replace(job, parts={}, state=None), "coordinator": coordinator, "slices": slices}
    for name, source in job.parts.items():
        data = open_folder(source) if isinstance(source, Path) else source
        bounds = split_lists(data.offsets, workers)
        if name == "train":
            config["bounds"] = bounds
            config["lists"] = ray.put((np.array(data.keys), np.diff(data.offsets)))
        if job.cluster.shared and isinstance(source, Path):
            slices[name] = [(source, *bound) for bound in bounds]
        else:
            slices[name] = [ray.put(data.lists(*bound)) for bound in bounds]
    return config


def fetch_lists(source: Any) -> Dataset:
    """Fetch the lists of a worker; ``source`` is a Ray reference, or a folder that every machine sees and a range."""
    import ray

    if isinstance(source, tuple):
        path, start, stop = source
        return open_folder(path).lists(start, stop)
    data: Dataset = ray.get(source)
    return data


def _make_trainer(job: TrainingJob, workers: int, config: dict[str, Any]) -> Any:
    from ray.train import FailureConfig, RunConfig, ScalingConfig

    cluster = job.cluster
    settings: dict[str, Any] = {
        "train_loop_config": config,
        "scaling_config": ScalingConfig(num_workers=workers, resources_per_worker={"CPU": cluster.threads}),
        "run_config": RunConfig(
            storage_path=str(driver_process.scratch_folder()),  # nothing is kept there, so no one else reads it
            failure_config=FailureConfig(max_failures=cluster.retries, controller_failure_limit=0),
        ),
    }
    if job.backend == "lightgbm":
        from ray.train.lightgbm import LightGBMTrainer

        return LightGBMTrainer(train_worker, **settings)
    from ray.train.torch import TorchConfig, TorchTrainer

    torch = TorchConfig(backend="gloo", timeout_s=round(cluster.limit))
    return TorchTrainer(train_worker, torch_config=torch, **settings)


class _Seen:
    """What the messages of the workers have said so far."""

    finished = False
    """Whether the result, or an error that no other attempt can avoid, has been passed on."""
    traceback = ""
    """The traceback of the last error of a worker."""


@contextmanager
def _forward_messages(pipe: driver_process.Pipe, coordinator: Any) -> Iterator[_Seen]:
    """Pass the messages of the workers on to the user's process during the block."""
    import ray

    seen, done = _Seen(), threading.Event()

    def forward() -> None:
        is_last = False
        while not is_last:
            is_last = done.wait(_POLL_SECONDS)  # read once more after the end
            with suppress(ray.exceptions.RayError):
                messages, heartbeats = ray.get(coordinator.collect.remote(), timeout=60)
                for kind, content in messages:
                    if kind == "error":
                        can_retry, record = content
                        seen.traceback = record[-1]
                        kind, content = ("failure", _last_line(seen.traceback)) if can_retry else ("failed", record)
                    seen.finished = seen.finished or kind in ("done", "failed")
                    pipe.send((kind, content))
                pipe.send(("heartbeats", list(heartbeats.values())))

    thread = threading.Thread(target=forward, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def _failure_text(error: Exception, workers: int, job: TrainingJob, trace: str) -> str:
    cluster = job.cluster
    failure = _start_failure(error)
    if failure in (_DIED, _CONTROLLER_DIED):
        what = "a worker died while it was being started" if failure == _DIED else "the controller of the workers died"
        return (
            f"{cluster.location}: {what}, {cluster.retries + 1} "
            f"times (retries={cluster.retries}). Look for the reason in Ray's logs on that "
            "machine; too little memory is the most frequent one."
        )
    if failure is not None:
        return (
            f"{workers} workers of {cluster.threads} core{'s' * (cluster.threads > 1)} each could "
            f"not be started within {cluster.start_seconds:g} s: {driver_process.describe_resources()}. Ask for "
            "fewer workers or threads, or wait until the cluster is free."
        )
    last = _last_line(trace or f"{type(error).__name__}: {error}")
    return (
        f"workers failed more than {cluster.retries} times (retries), last with: {last}. The "
        "last state is in the checkpoint, if there is one: run the same fit again to continue."
    )


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1][:500]


_DIED = "WorkerGroupStartupFailedError"
_CONTROLLER_DIED = "RayActorError"
_START_FAILURES = (_DIED, "WorkerGroupStartupTimeoutError", "InsufficientClusterResourcesError")


def _start_failure(error: Exception) -> str | None:
    """Name of Ray's error if the workers could not be started or their controller died, else None."""
    from ray.exceptions import RayActorError
    from ray.train import ControllerError

    if isinstance(error, RayActorError):
        return _CONTROLLER_DIED
    if not isinstance(error, ControllerError):
        return None
    kind = type(error.controller_failure).__name__
    return kind if kind in _START_FAILURES else None
