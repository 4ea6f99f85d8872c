"""Trees trained by several workers with LightGBM's data-parallel learner.

Each worker computes the gradients of its own lists, which is exact because lists are independent;
noise and sampling go by the keys of lists, so they do not depend on which worker has a list.
LightGBM sums the histograms of all workers, and every worker grows the same tree. Metrics are means
over the lists of all workers, so all stop at the same tree.
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
from plackett.models.fit_context import FitContext, no_watch
from plackett.models.progress import Curves
from plackett.models.trees.params import categorical_indices, check_resumable
from plackett.models.trees.training import translate_errors

if TYPE_CHECKING:
    from plackett.metrics import Metric
    from plackett.models.trees.ranker import TreeRanker


_NETWORK = ("machines", "num_machines", "local_listen_port", "tree_learner", "time_out")
# A model should not reveal the machines that trained it.
_NETWORK_LINES = re.compile(
    rf"^\[({'|'.join(_NETWORK)}|pre_partition|machine_list_filename): .*\]\n", re.MULTILINE
)


@dataclass(frozen=True)
class TreeWorkerSpec:
    """What every worker receives."""

    ranker: TreeRanker
    metrics: tuple[Metric, ...]
    settings: dict[str, Any]
    bins: bytes
    save_seconds: float
    """Minimum time between two states; infinite if a fit cannot resume from a state."""
    watched: bool
    threads: int


def fit_distributed(
    ranker: TreeRanker, parts: dict[str, Dataset], settings: dict[str, Any], context: FitContext
) -> tuple[str, Curves]:
    """Train on the cluster; return the text of the model and its learning curves."""
    from plackett.models.trees.lightgbm_data import find_bins

    assert context.cluster is not None
    for name in _NETWORK:
        if name in ranker.lightgbm:
            raise UsageError(
                f"{name!r} is set by the cluster; leave it out of lightgbm={{...}}, or fit without "
                "cluster=."
            )
    with translate_errors():
        bins = find_bins(parts["train"], settings, categorical_indices(ranker))
    copy = ranker.clone()
    copy.n_features_, copy.feature_names_ = ranker.n_features_, ranker.feature_names_
    copy.categories_ = ranker.categories_
    watched = context.watch is not no_watch
    spec = TreeWorkerSpec(
        *(copy, context.metrics, settings, bins, _save_seconds(ranker), watched),
        threads=context.cluster.threads,
    )
    state = latest_state(context.checkpoint)
    job = TrainingJob(train_as_worker, spec, parts, context.cluster, "lightgbm", state)
    model, curves = job.run(
        save_state=checkpoint_saver(context.checkpoint),
        progress=context.progress,
        watch=context.watch if watched else None,
    )
    return model, curves


def train_as_worker(
    worker_group: WorkerGroup,
    parts: dict[str, Dataset],
    partition: Partition,  # noqa: ARG001 - only batches need it, and trees have none
    spec: TreeWorkerSpec,
) -> tuple[str, Curves]:
    """Train with the other workers; all return the same model."""
    from ray.train.lightgbm import get_network_params

    from plackett.models.trees.lightgbm_data import dataset_from_bins

    ranker = spec.ranker
    ranker.set_params(threads=spec.threads)
    settings = spec.settings | {
        "num_threads": spec.threads,
        "tree_learner": "data",
        "pre_partition": True,
        "time_out": math.ceil(worker_group.timeout_seconds / 60),  # in minutes
        **get_network_params(),
    }
    with tempfile.TemporaryDirectory() as folder:
        context = FitContext(
            spec.metrics,
            RemoteCheckpoint(Path(folder), worker_group, spec.save_seconds),
            worker_group.report_progress,
            worker_group.report_metric if spec.watched else no_watch,
            worker_group=worker_group,
        )
        categorical = categorical_indices(ranker)
        bins = dataset_from_bins(spec.bins, spec.settings, categorical)
        model, curves = ranker._train(parts, settings, context, bins)
    return _NETWORK_LINES.sub("", model), curves


def _save_seconds(ranker: TreeRanker) -> float:
    """Seconds between two states; infinite where LightGBM has random state of its own."""
    try:
        check_resumable(ranker)
    except UsageError:
        return math.inf
    return RemoteCheckpoint.seconds
