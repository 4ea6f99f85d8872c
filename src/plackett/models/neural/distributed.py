"""Nets trained by several workers that each hold a part of the lists.

Workers use the same batches as a single process; each processes its own lists of a batch. PyTorch's
DistributedDataParallel adds up the gradients, weighted so that a step follows the mean (or sum)
over the lists of the whole batch. All workers then have the same weights, which differ from those
of a single process only by the order of sums. Batch normalization is over the batch of all workers.
Where a net draws random numbers (dropout, groups), each worker draws its own.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from plackett.base.errors import UsageError
from plackett.base.ragged import Rows
from plackett.data.dataset import Dataset
from plackett.distributed import Partition, TrainingJob, WorkerGroup
from plackett.metrics import Metric
from plackett.models.checkpoint import RemoteCheckpoint, checkpoint_saver, latest_state
from plackett.models.fit_context import Curves, FitContext, no_watch
from plackett.models.neural.batch_norm import check_batch_norm
from plackett.models.neural.batches import BatchPlan, find_trained_lists
from plackett.models.neural.boosted import BoostedTraining, load_net
from plackett.models.neural.environment import limit_threads, resolve_device
from plackett.models.neural.ranker import BaseNeuralRanker
from plackett.models.neural.scorers import build_net
from plackett.models.neural.training import copy_weights


@dataclass(frozen=True)
class WorkerSpec:
    """What each worker needs to know about the fit."""

    ranker: BaseNeuralRanker
    metrics: tuple[Metric, ...]
    positions: Rows
    """Indices, among all lists, of those with at least two different labels."""
    seconds: float
    """Time between two checkpoints."""
    is_watched: bool
    threads: int


def train_on_cluster(
    ranker: BaseNeuralRanker, train: Dataset, validation: Dataset | None, context: FitContext
) -> tuple[list[nn.Module], Curves, list[int]]:
    """Train with the workers of a cluster; return nets, curves and epochs."""
    assert context.cluster is not None
    if ranker.device not in ("auto", "cpu"):
        raise UsageError(
            f"workers of a cluster train nets on CPUs; fit without cluster= to use device={ranker.device!r}."
        )
    check_batch_norm(build_net(ranker, train.n_features))
    parts = {"train": train} if validation is None else {"train": train, "validation": validation}
    sent = ranker.clone()
    sent.n_features_, sent.feature_names_ = ranker.n_features_, ranker.feature_names_
    is_watched = context.watch is not no_watch
    spec = WorkerSpec(
        sent,
        context.metrics,
        find_trained_lists(ranker, train),
        RemoteCheckpoint.seconds,
        is_watched,
        context.cluster.threads,
    )
    state = latest_state(context.checkpoint)
    job = TrainingJob(train_as_worker, spec, parts, context.cluster, "torch", state)
    weights, curves, epochs = job.run(
        save_state=checkpoint_saver(context.checkpoint),
        progress=context.progress,
        watch=context.watch if is_watched else None,
    )
    device = resolve_device(ranker.device)
    nets = [
        load_net(ranker, {k: torch.from_numpy(v.copy()) for k, v in arrays.items()}, i, device)
        for i, arrays in enumerate(weights)
    ]
    return nets, curves, epochs


def train_as_worker(
    worker_group: WorkerGroup, parts: dict[str, Dataset], partition: Partition, spec: WorkerSpec
) -> tuple[list[dict[str, Any]], Curves, list[int]]:
    """Train as one of the workers; all of them return the same weights."""
    plan = BatchPlan(partition, spec.positions, worker_group)
    watch = worker_group.report_metric if spec.is_watched else no_watch
    with tempfile.TemporaryDirectory() as folder, limit_threads(spec.threads):
        checkpoint = RemoteCheckpoint(Path(folder), worker_group, spec.seconds)
        context = FitContext(spec.metrics, checkpoint, worker_group.report_progress, watch, worker_group=worker_group)
        validation, cpu = parts.get("validation"), torch.device("cpu")
        training = BoostedTraining(spec.ranker, parts["train"], validation, context, cpu, plan)
        training.finish()
    weights = [{name: v.numpy() for name, v in copy_weights(net).items()} for net in training.nets]
    return weights, training.curves, training.epochs
