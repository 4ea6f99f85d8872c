"""Trees grown by several workers, each with its own lists, by LightGBM's data-parallel learner.

Each worker computes the derivatives of its own lists, which is exact, because lists do not see each
other; noise and the drawing of lists go by the keys of lists, so they do not depend on who has
them. LightGBM adds up the histograms of all workers and every worker grows the same tree. Metrics
are means over the lists of all workers, so all stop at the same tree.
"""

from __future__ import annotations

import math
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plackett.base.errors import UsageError
from plackett.data.dataset import Dataset
from plackett.distributed import Partition, TrainingJob, WorkerGroup
from plackett.models.checkpoint import RemoteCheckpoint, checkpoint_saver, latest_state
from plackett.models.ranker import FitContext, no_watch
from plackett.models.trees.lightgbm_data import dataset_from_bins, find_bins
from plackett.models.trees.params import check_resumable, feature_indices
from plackett.models.trees.training import refusals

if TYPE_CHECKING:
    from plackett.metrics import Metric
    from plackett.models.trees.ranker import TreeRanker


Curves = dict[str, dict[str, list[float]]]
_MINUTE = 60
_NETWORK = ("machines", "num_machines", "local_listen_port", "tree_learner", "time_out")
# A model should say nothing of the machines it was made on.
_TRACES = re.compile(
    r"^\[(machines|num_machines|local_listen_port|tree_learner|time_out|pre_part"
    r"ition|machine_list_filename): .*\]\n",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Growing:
    """What the workers are told."""

    ranker: TreeRanker
    metrics: tuple[Metric, ...]
    settings: dict[str, Any]
    bins: bytes
    seconds: float
    """Between two states; infinite where a state cannot be taken up."""
    watched: bool
    threads: int


def grown_together(
    ranker: TreeRanker, parts: dict[str, Dataset], settings: dict[str, Any], run: FitContext
) -> tuple[str, Curves]:
    """The text of a model that the workers of a cluster grow, and its learning curves."""
    assert run.cluster is not None
    _check(ranker)
    categorical = feature_indices(ranker, ranker.categorical)
    with refusals():
        bins = find_bins(parts["train"], settings, categorical)
    sent = ranker.clone()
    sent.n_features_, sent.feature_names_ = ranker.n_features_, ranker.feature_names_
    watched = run.watch is not no_watch
    threads = run.cluster.threads
    growing = Growing(sent, run.metrics, settings, bins, _seconds(ranker), watched, threads)
    job = TrainingJob(
        grow_as_worker, growing, parts, run.cluster, "lightgbm", latest_state(run.checkpoint)
    )
    model, curves = job.run(
        save_state=checkpoint_saver(run.checkpoint),
        progress=run.progress,
        watch=run.watch if watched else None,
    )
    return model, curves


def grow_as_worker(
    worker_group: WorkerGroup,
    parts: dict[str, Dataset],
    partition: Partition,  # noqa: ARG001 - trees see all lists at once: there are no batches to agree on
    growing: Growing,
) -> tuple[str, Curves]:
    """What each worker does; all end with the same model."""
    from ray.train.lightgbm import get_network_params

    ranker = growing.ranker
    ranker.set_params(threads=growing.threads)
    network = get_network_params()
    settings = growing.settings | {
        "num_threads": growing.threads,
        "tree_learner": "data",
        "pre_partition": True,
        "time_out": math.ceil(worker_group.timeout_seconds / _MINUTE),
        **network,
    }
    categorical = feature_indices(ranker, ranker.categorical)
    with tempfile.TemporaryDirectory() as folder:
        kept = RemoteCheckpoint(Path(folder), worker_group, growing.seconds)
        watch = worker_group.report_metric if growing.watched else no_watch
        run = FitContext(
            growing.metrics, kept, worker_group.report_progress, watch, worker_group=worker_group
        )
        reference = dataset_from_bins(growing.bins, growing.settings, categorical)
        model, curves = ranker._grown(parts, settings, run, reference)
    return _TRACES.sub("", model), curves


def _check(ranker: TreeRanker) -> None:
    for name in _NETWORK:
        if name in ranker.lightgbm:
            raise UsageError(
                f"{name!r} is set by the cluster; leave it out of lightgbm={{...}}, or fit without "
                "cluster=."
            )


def _seconds(ranker: TreeRanker) -> float:
    """Between two states: as for checkpoints; never where LightGBM keeps random state."""
    try:
        check_resumable(ranker)
    except UsageError:
        return math.inf
    return RemoteCheckpoint.seconds
